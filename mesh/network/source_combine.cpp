// SPDX-License-Identifier: Apache-2.0

#include "mesh/network/source_combine.hpp"

namespace weft::mesh {
namespace {

/// "64" for a vector, "[3, 64]" for more axes.
std::string shape_text(const Shape& shape) {
  return shape.size() == 1 ? std::to_string(shape[0]) : weft::to_string(shape);
}

}  // namespace

Result<Shape> combined_shape(Combine combine, std::size_t sources,
                             const std::function<std::string(std::size_t)>& name_of,
                             const std::function<const Shape&(std::size_t)>& shape_of,
                             const std::function<std::string(std::string_view)>& key_of) {
  if (combine == Combine::gate && sources != 2)
    return fail(Errc::shape_mismatch,
                key_of("from") + ": gate combines two sources (value, gate), not " + std::to_string(sources));
  const Shape& first = shape_of(0);
  Shape shape = first;
  WEFT_TRY(std::size_t total, volume(first));
  const bool joins = combine == Combine::concat;
  for (std::size_t i = 1; i < sources; ++i) {
    Shape fitting = shape;
    if (joins) fitting.back() = shape_of(i).back();
    if (shape_of(i) != fitting) {
      const bool are_vectors = shape.size() == 1 && shape_of(i).size() == 1;
      return fail(Errc::shape_mismatch, key_of("combine") + ": '" + std::string(name(combine)) +
                                            "' needs sources of equal " +
                                            (joins         ? "axes before the last"
                                             : are_vectors ? "width"
                                                           : "shape") +
                                            "; " + name_of(0) + " has " + shape_text(first) + ", " + name_of(i) +
                                            " has " + shape_text(shape_of(i)));
    }
    if (!joins) continue;
    shape.back() += shape_of(i).back();
    WEFT_TRY(total, volume(shape));
    if (total > kMaxWidth) return fail(Errc::too_large, key_of("from") + ": more than 16777216 values in all");
  }
  return shape;
}

}  // namespace weft::mesh
