// SPDX-License-Identifier: Apache-2.0

#include "core/coord.hpp"

namespace weft {

std::string to_string(Coord at) {
  return "[" + std::to_string(at.z) + "," + std::to_string(at.y) + "," + std::to_string(at.x) + "," +
         std::to_string(at.l) + "]";
}

std::string to_string(const GridShape& shape) {
  return std::to_string(shape.z) + "x" + std::to_string(shape.y) + "x" + std::to_string(shape.x) + "x" +
         std::to_string(shape.layers);
}

Coord GridShape::coord(std::size_t index) const noexcept {
  Coord at;
  at.l = static_cast<std::uint32_t>(index % layers);
  index /= layers;
  at.x = static_cast<std::uint32_t>(index % x);
  index /= x;
  at.y = static_cast<std::uint32_t>(index % y);
  at.z = static_cast<std::uint32_t>(index / y);
  return at;
}

Status GridShape::check() const {
  std::uint64_t places = 1;
  for (std::uint64_t extent : {z, y, x, layers}) {
    if (extent == 0) return fail(Errc::out_of_range, "grid " + to_string(*this) + ": every extent must be at least 1");
    places *= extent;
    if (places > INT32_MAX)
      return fail(Errc::too_large, "grid " + to_string(*this) + ": more than 2147483647 places; use a smaller grid");
  }
  return {};
}

}  // namespace weft
