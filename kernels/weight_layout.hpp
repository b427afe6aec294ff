// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/weight.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <span>

namespace weft::kernels {

/// Bytes of a weight [out, in] in file order, which holds no lane padding (docs/numerics.md, section 8):
///   codes   row-major [out][in], packed little-endian one after the other, the first in the low bits of byte 0;
///           unused high bits of the last byte are 0
///   scales  of scale_bytes() each: tensor 1; channel [out]; blocks [out][ceil(in/32)]
///   zero_points  unsigned integers as wide as the codes, at least 8 bits, ordered as scales
/// out * in must fit std::size_t, as it does for any weight that memory holds.
WeightBytes ordered_bytes(const Encoding& encoding, std::size_t out, std::size_t in) noexcept;
/// Scales in file order.
std::size_t ordered_scale_count(const Encoding& encoding, std::size_t out, std::size_t in) noexcept;

/// The arrays of one weight in file order; scales and zero points are empty where the type has none.
struct ConstOrderedWeight {
  std::span<const std::byte> codes, scales, zero_points;
};
struct OrderedWeight {
  std::span<std::byte> codes, scales, zero_points;
  operator ConstOrderedWeight() const noexcept { return {codes, scales, zero_points}; }
};

/// Writes a weight in file order, into spans of ordered_bytes(); a span that is empty is passed over.
void export_weight(const ConstWeight& weight, const OrderedWeight& to) noexcept;

/// Reads a weight from file order, padding lanes and codes as weight.hpp says. Bytes that export_weight wrote come back
/// as the same weight, and are written again as the same bytes.
/// @error  corrupt: a span's length is not ordered_bytes(); a scale is 0, negative, subnormal, infinite or NaN; a zero
///         point is past the largest code; a code stands for nothing (the lowest of a signed type, 10b of ternary); a
///         bit after the last code is set. The text names the place; `to` is untouched
Status import_weight(const ConstOrderedWeight& from, const Weight& to);

}  // namespace weft::kernels
