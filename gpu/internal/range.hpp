// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"
#include "kernels/weight.hpp"

#include <cstddef>
#include <cstdint>

namespace weft::gpu {

/// Bytes of device memory that a command touches: [begin, end). Of a matrix with gaps between its rows, the rows:
/// `row_bytes` at every `stride` from begin on (0: all of it).
struct Range {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t row_bytes = 0, stride = 0;
};
/// The address of an operand as shaders get it; 0 for null.
inline std::uint64_t address(const void* pointer) noexcept { return reinterpret_cast<std::uintptr_t>(pointer); }
inline Range range(const void* data, std::size_t bytes) noexcept {
  return {address(data), data ? address(data) + bytes : 0};
}
/// `width` values of four bytes at every `stride` of them, `rows` times.
inline Range range_of_rows(const void* data, std::size_t rows, std::size_t width, std::size_t stride) noexcept {
  Range r = range(data, rows == 0 || width == 0 ? 0 : ((rows - 1) * stride + width) * sizeof(float));
  if (rows > 1 && stride > width) r.row_bytes = width * sizeof(float), r.stride = stride * sizeof(float);
  return r;
}
inline Range range(const kernels::ConstMatrixView& m) noexcept {
  return range_of_rows(m.data, m.rows, m.cols, m.stride);
}
inline Range range(const kernels::ConstPanels& w) noexcept {
  return range(w.data, kernels::panels_size(w.out, w.in) * sizeof(float));
}
/// The arrays of a stored weight.
struct WeightRanges {
  explicit WeightRanges(const kernels::ConstWeight& w) noexcept {
    const kernels::WeightBytes bytes = kernels::weight_bytes(w.encoding(), w.out, w.in);
    codes = range(w.codes, bytes.codes);
    scales = range(w.scales, bytes.scales);
    zero_points = range(w.zero_points, bytes.zero_points);
  }
  Range codes, scales, zero_points;
};

}  // namespace weft::gpu
