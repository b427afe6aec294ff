// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/bytes.hpp"
#include "core/result.hpp"
#include "core/shape.hpp"

#include <cstddef>
#include <string_view>

namespace weft::formats {

/// An array of numbers as numpy saves it, a `.npy` file (docs/formats/npy.md): float32, float64, int32 or int64,
/// little-endian, in C order. The bytes must outlive it.
/// @thread any: immutable
class NpyArray {
 public:
  /// @error corrupt: not such a file, cut short, or followed by something else; unsupported: another type or order,
  /// with
  ///        a line of numpy that saves it so that it is read; too_large: more than 2^31 values
  static Result<NpyArray> open(ByteSpan bytes, std::string_view source_name);

  /// Sizes of the axes, the outermost first; none of a single number.
  const Shape& shape() const noexcept { return shape_; }
  /// Product of the sizes; 0 where one of them is 0.
  std::size_t size() const noexcept { return size_; }
  /// Value `i` in C order.
  double value(std::size_t i) const noexcept;

 private:
  enum class Type { float32, float64, int32, int64 };
  Shape shape_;
  std::size_t size_ = 1;
  Type type_ = Type::float64;
  ByteSpan values_;
};

/// True when the bytes begin as a .npy file does.
bool is_npy(ByteSpan bytes) noexcept;

}  // namespace weft::formats
