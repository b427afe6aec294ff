// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <string_view>
#include <vector>

namespace weft::formats {

/// An array of numbers as the MNIST files hold it: a magic number, sizes, then the values in big-endian order
/// (docs/formats/idx.md). The bytes must outlive it.
class IdxArray {
 public:
  /// @error corrupt: not such a file, cut short, or followed by something else; too_large: more than `max_values`
  static Result<IdxArray> open(ByteSpan bytes, std::string_view source_name,
                               std::size_t max_values = std::size_t{1} << 28);

  /// Sizes of the axes, the outermost first; at least one.
  const std::vector<std::size_t>& shape() const noexcept { return shape_; }
  /// Size of the outermost axis.
  std::size_t rows() const noexcept { return shape_[0]; }
  /// Values of a row.
  std::size_t width() const noexcept { return width_; }
  bool is_bytes() const noexcept { return type_ == 0x08; }
  /// Value `i`; float64 rounded to the nearest float.
  float value(std::size_t i) const noexcept;

 private:
  std::vector<std::size_t> shape_;
  std::size_t width_ = 0, value_bytes_ = 1;
  unsigned type_ = 0;
  ByteSpan values_;
};

/// True when the bytes begin as an IDX file does: two zeros, a type, 1 to 8 axes.
bool is_idx(ByteSpan bytes) noexcept;
/// True when a file of that name, which begins with `bytes`, may be an IDX file: one that is packed tells no more than
/// its name does.
bool may_be_idx(ByteSpan bytes, std::string_view path) noexcept;

}  // namespace weft::formats
