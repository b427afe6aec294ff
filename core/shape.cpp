// SPDX-License-Identifier: Apache-2.0

#include "core/shape.hpp"

#include "core/size_limit.hpp"

namespace weft {

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

Result<std::size_t> volume(const Shape& shape) {
  constexpr std::size_t kLimit = size_limit(40);
  std::size_t elements = 1;
  for (std::size_t extent : shape) {
    if (extent == 0) return fail(Errc::out_of_range, "shape " + to_string(shape) + ": an extent is zero");
    if (extent > kLimit / elements)
      return fail(Errc::too_large, "shape " + to_string(shape) + ": more than " +
                                       (kLimit == SIZE_MAX ? std::to_string(kLimit) : "2^40") + " elements");
    elements *= extent;
  }
  return elements;
}

}  // namespace weft
