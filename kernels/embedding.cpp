// SPDX-License-Identifier: Apache-2.0

#include "kernels/embedding.hpp"

#include "kernels/internal/dequantize_reference.hpp"

#include <algorithm>
#include <cstring>

// No code per instruction set: both directions move lines of 16 floats, and wait for memory.
namespace weft::kernels {

namespace {

/// True of codes that stand for scale * number, whose numbers are integers of words: signed ones of 2 to 8 bits.
bool has_signed_words(const ConstWeight& w) noexcept {
  return code_layout(w.dtype) == CodeLayout::words && has_integer_kernel(w.dtype) && !has_zero_point(w.dtype) &&
         bits(w.dtype) > 1;
}

/// Output o of such a weight, as code_value has its elements: a scale for each block.
void signed_row(const ConstWeight& w, std::size_t o, float* to) noexcept {
  const int width = bits(w.dtype);
  const std::size_t n = codes_per_word(width), words = (w.in + n - 1) / n;
  const auto* word = static_cast<const std::uint32_t*>(w.codes) + panel_index(words, o, 0);
  for (std::size_t block = 0; block < w.in; block += kScaleBlock) {
    const float scale = w.scale(scale_index(w.granularity, w.in, o, block));
    const std::size_t end = std::min(w.in, block + kScaleBlock);
    for (std::size_t k = block; k < end; word += kPanelWidth) {
      std::uint32_t codes = *word;
      for (const std::size_t last = std::min(end, k + n); k < last; ++k, codes >>= width)
        to[k] = scale * static_cast<float>(static_cast<std::int32_t>(codes << (32 - width)) >> (32 - width));
    }
  }
}

void embedding_of_rows(const ConstWeight& w, const ConstMatrixView& x, const MatrixView& y) noexcept {
  const bool moves = w.dtype == Dtype::float32;
  const bool is_signed = has_signed_words(w);
  const float* const codes = static_cast<const float*>(w.codes);
  for (std::size_t b = 0; b < x.rows; ++b)
    for (std::size_t t = 0; t < x.cols; ++t) {
      const std::size_t o = column_of(x.row(b)[t], w.out);
      float* const to = y.row(b) + t * w.in;
      if (is_signed) {
        signed_row(w, o, to);
        continue;
      }
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
