// SPDX-License-Identifier: Apache-2.0

#include "kernels/embedding.hpp"

#include "kernels/internal/dequantize_reference.hpp"

#include <algorithm>
#include <cstring>

// No code per instruction set: both directions move lines of 16 floats, and wait for memory.
namespace weft::kernels {

namespace {

void embedding_of_rows(const ConstWeight& w, const ConstMatrixView& x, const MatrixView& y) noexcept {
  const bool moves = w.dtype == Dtype::float32;
  const float* const codes = static_cast<const float*>(w.codes);
  for (std::size_t b = 0; b < x.rows; ++b)
    for (std::size_t t = 0; t < x.cols; ++t) {
      const std::size_t o = column_of(x.row(b)[t], w.out);
      float* const to = y.row(b) + t * w.in;
      for (std::size_t k = 0; k < w.in; ++k)
        to[k] = moves ? codes[panel_index(w.in, o, k)] : detail::code_value(w, o, k);
    }
}

}  // namespace

void embedding(const ConstWeight& w, const ConstMatrixView& x, const MatrixView& y, TableEntries entries) noexcept {
  if (entries == TableEntries::rows) return embedding_of_rows(w, x, y);
  const bool moves = w.dtype == Dtype::float32;
  for (std::size_t b = 0; b < x.rows; ++b)
    for (std::size_t t = 0; t < x.cols; ++t) {
      const std::size_t k = column_of(x.row(b)[t], w.in);
      float* const to = y.row(b) + t * w.out;
      if (moves) {
        const float* const codes = static_cast<const float*>(w.codes);
        for (std::size_t o = 0; o < w.out; o += kPanelWidth)
          std::memcpy(to + o, codes + panel_index(w.in, o, k), std::min(kPanelWidth, w.out - o) * sizeof(float));
      } else {
        for (std::size_t o = 0; o < w.out; ++o) to[o] = detail::code_value(w, o, k);
      }
    }
}

void embedding_backward(const ConstMatrixView& x, const ConstMatrixView& dy, std::size_t skipped, const Panels& dw,
                        TableEntries entries) noexcept {
  if (entries == TableEntries::rows) {
    for (std::size_t b = 0; b < x.rows; ++b)
      for (std::size_t t = 0; t < x.cols; ++t) {
        const std::size_t o = column_of(x.row(b)[t], dw.out);
        for (std::size_t k = 0; k < dw.in && o != skipped; ++k)
          dw.data[panel_index(dw.in, o, k)] += dy.row(b)[t * dw.in + k];
      }
    return;
  }
  for (std::size_t b = 0; b < x.rows; ++b)
    for (std::size_t t = 0; t < x.cols; ++t) {
      const std::size_t k = column_of(x.row(b)[t], dw.in);
      if (k == skipped) continue;
      const float* const from = dy.row(b) + t * dw.out;
      for (std::size_t o = 0; o < dw.out; o += kPanelWidth) {
        float* const line = dw.data + panel_index(dw.in, o, k);
        for (std::size_t i = 0; i < std::min(kPanelWidth, dw.out - o); ++i) line[i] += from[o + i];
      }
    }
}

}  // namespace weft::kernels
