// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

namespace weft {

/// The place of one layer in a mesh: depth, row, column of its cell, and its level inside the cell.
struct Coord {
  std::uint32_t z = 0, y = 0, x = 0, l = 0;
  auto operator<=>(const Coord&) const = default;
};

/// "[z,y,x,l]", the spelling used in network files and messages.
std::string to_string(Coord at);

/// The extents of a mesh: Z x Y x X cells with `layers` levels each.
/// Index order is index = ((z*Y + y)*X + x)*L + l.
struct GridShape {
  std::uint32_t z = 1, y = 1, x = 1, layers = 1;
  auto operator<=>(const GridShape&) const = default;

  /// Number of layer places; overflow-free only after `check` succeeded.
  std::size_t size() const noexcept { return std::size_t{z} * y * x * layers; }
  /// Number of cells.
  std::size_t cells() const noexcept { return std::size_t{z} * y * x; }
  bool contains(Coord at) const noexcept { return at.z < z && at.y < y && at.x < x && at.l < layers; }
  std::size_t index(Coord at) const noexcept { return ((std::size_t{at.z} * y + at.y) * x + at.x) * layers + at.l; }
  Coord coord(std::size_t index) const noexcept;

  /// @error too_large or out_of_range when an extent is zero or the product exceeds 2^31 - 1 places
  Status check() const;
};

std::string to_string(const GridShape& shape);

}  // namespace weft
