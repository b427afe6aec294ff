// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

namespace weft::kernels {

/// Outputs of one weight panel: the lanes of the widest vector unit served (one AVX-512 register of f32).
inline constexpr std::size_t kPanelWidth = 16;
/// Length of a serial chunk of the reduced axis (rule R1, docs/numerics.md).
inline constexpr std::size_t kChunk = 64;
/// Number of strided lanes of a row sum (rule R2, docs/numerics.md).
inline constexpr std::size_t kLanes = 64;

/// A row-major matrix [rows, cols]; `stride` elements from one row to the next, stride >= cols.
/// The pointer is an address in the memory of the stream's device: layers pass it on, never read through it.
struct ConstMatrixView {
  const float* data = nullptr;
  std::size_t rows = 0, cols = 0, stride = 0;
  const float* row(std::size_t i) const noexcept { return data + i * stride; }
};
struct MatrixView {
  float* data = nullptr;
  std::size_t rows = 0, cols = 0, stride = 0;
  float* row(std::size_t i) const noexcept { return data + i * stride; }
  operator ConstMatrixView() const noexcept { return {data, rows, cols, stride}; }
};

/// Weights of shape [out, in] stored as panels [ceil(out/16)][in][16]: element (o, k) stands at
/// (o/16 * in + k) * 16 + o%16. Lanes past `out` in the last panel hold +0 and stay so. 64-byte aligned.
struct ConstPanels {
  const float* data = nullptr;
  std::size_t out = 0, in = 0;
};
struct Panels {
  float* data = nullptr;
  std::size_t out = 0, in = 0;
  operator ConstPanels() const noexcept { return {data, out, in}; }
};

inline constexpr std::size_t panel_count(std::size_t out) noexcept { return (out + kPanelWidth - 1) / kPanelWidth; }
/// Number of floats a [out, in] weight takes in panels, padding counted.
inline constexpr std::size_t panels_size(std::size_t out, std::size_t in) noexcept {
  return panel_count(out) * in * kPanelWidth;
}
/// Index of element (o, k) in panels.
inline constexpr std::size_t panel_index(std::size_t in, std::size_t o, std::size_t k) noexcept {
  return (o / kPanelWidth * in + k) * kPanelWidth + o % kPanelWidth;
}

}  // namespace weft::kernels
