// SPDX-License-Identifier: Apache-2.0
#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/linear_integer.cpp"
#define WEFT_WITHOUT_WASM
#include "kernels/linear_integer.hpp"

#include "kernels/foreach_isa.hpp"
#if WEFT_ISA_IS_SCALAR
// This file has no other pass, however many the machine's kernels have: its -inl headers are read for the first time.
#undef HWY_TARGET_TOGGLE
#include "kernels/internal/integer_batch.hpp"
#include "kernels/linear_outputs-inl.hpp"
#include "kernels/quantize-inl.hpp"
#include "kernels/quantize_rows.hpp"

#include <algorithm>
#include <cmath>

namespace weft::kernels {
namespace scalar {
namespace {

using detail::CodeForm;
using detail::IntegerKernels;
using detail::PackedRows;

// The reference for all other code here: codes in order, each dequantized by itself.
inline constexpr std::size_t kTileRows = 1;

std::size_t block_bytes(const CodeForm&) { return kScaleBlock; }

void pack(const ConstMatrixView& x, const CodeForm& form, const PackedRows& to, std::size_t first,
          std::size_t last) noexcept {
  for (std::size_t b = first; b < last; ++b) {
    const std::uint32_t of_row = form.row_scale ? largest_of_row(x.row(b), x.cols) : 0;
    for (std::size_t t = 0; t < to.blocks; ++t) {
      const std::size_t k = t * kScaleBlock;
      to.scales_of(b)[t] =
          quantize_block(x.row(b) + k, std::min(kScaleBlock, x.cols - k), to.codes_of(b) + t * kScaleBlock, of_row)
              .scale;
    }
  }
}

/// code - zero of element (o, k).
std::int32_t weight_at(const ConstWeight& w, std::size_t o, std::size_t k) noexcept {
  const int width = bits(w.dtype);
  const std::size_t n = codes_per_word(width), words = (w.in + n - 1) / n;
  const std::uint32_t word =
      static_cast<const std::uint32_t*>(w.codes)[(o / kPanelWidth * words + k / n) * kPanelWidth + o % kPanelWidth];
  const int shift = static_cast<int>(k % n) * width;
  if (w.dtype == Dtype::binary) return (word >> shift & 1u) != 0 ? 1 : -1;
  if (has_zero_point(w.dtype)) {
    const std::uint32_t code = word >> shift & ((1u << width) - 1);
    const std::size_t group = scale_index(w.granularity, w.in, o, k);
    return static_cast<std::int32_t>(code) - static_cast<const std::uint8_t*>(w.zero_points)[group];
  }
  return static_cast<std::int32_t>(word << (32 - width - shift)) >> (32 - width);
}

float total_of(const ConstWeight& w, std::size_t o, const std::int8_t* q, const float* x_scales) noexcept {
  const auto scale = [&](std::size_t k) { return w.scale(scale_index(w.granularity, w.in, o, k)); };
  const bool block_scale = is_block(w.granularity);
  float total = 0.0f;
  for (std::size_t chunk = 0; chunk < w.in; chunk += kChunk) {
    float sum = 0.0f;
    for (std::size_t k = chunk; k < std::min(w.in, chunk + kChunk); k += kScaleBlock) {
      std::int32_t exact = 0;
      for (std::size_t i = k; i < std::min(w.in, k + kScaleBlock); ++i) exact += weight_at(w, o, i) * q[i];
      const float x_scale = x_scales[k / kScaleBlock];
      sum = std::fma(static_cast<float>(exact), block_scale ? x_scale * scale(k) : x_scale, sum);
    }
    total += sum;
  }
  return block_scale ? total : total * scale(0);
}

void run(const ConstWeight& w, const float* bias, const PackedRows& x, std::size_t first, std::size_t last,
         Activation activation, const MatrixView& z, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  const Outputs outputs{bias, activation, z, y};
  for (std::size_t b = first; b < last; ++b) {
    float* const to = outputs.before_activation(b);
    for (std::size_t o = 0; o < w.out; ++o) {
      const float total = total_of(w, o, x.codes_of(b), x.scales_of(b));
      to[o] = bias ? total + bias[o] : total;
    }
    outputs.finish(b, 0, w.out);
  }
}

}  // namespace
}  // namespace scalar

const detail::IntegerKernels& detail::scalar_integer_kernels() noexcept {
  static constexpr IntegerKernels kKernels{scalar::kTileRows, false, &scalar::block_bytes, &scalar::pack, &scalar::run};
  return kKernels;
}

namespace {

const detail::IntegerKernels& integer_kernels(const detail::CodeForm& form, std::size_t rows) noexcept {
  switch (form.bits) {
    case 8:
      return detail::integer_kernels_of_8(form, rows);
    case 4:
      return detail::integer_kernels_of_4(form, rows);
    case 2:
      return detail::integer_kernels_of_2(form, rows);
    default:
      return detail::integer_kernels_of_1(form, rows);
  }
}

std::size_t aligned(std::size_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

}  // namespace

namespace detail {

IntegerBatch::IntegerBatch(const ConstWeight& w, const ConstMatrixView& x) noexcept
    : x_(x),
      form_(code_form(w)),
      kernels_(integer_kernels(form_, x.rows)),
      blocks_(quantized_blocks(w.in)),
      block_bytes_(kernels_.block_bytes(form_)),
      code_bytes_(aligned(x.rows * blocks_ * block_bytes_)),
      scale_bytes_(aligned(x.rows * blocks_ * sizeof(float))),
      lease_(code_bytes_ + 2 * scale_bytes_),
      packed_{
          w.in,
          blocks_,
          block_bytes_,
          kernels_.has_full_parts ? EvenParts::full(x.rows, kernels_.tile_rows) : EvenParts(x.rows, kernels_.tile_rows),
          reinterpret_cast<std::int8_t*>(lease_.data()),
          reinterpret_cast<float*>(lease_.data() + code_bytes_),
          reinterpret_cast<std::int32_t*>(lease_.data() + code_bytes_ + scale_bytes_)} {}

}  // namespace detail

bool sums_integers(const ConstWeight& w) noexcept {
  return w.activations != Activations::float32 && has_integer_kernel(w.dtype);
}

void linear_integer(const ConstWeight& w, const float* bias, const ConstMatrixView& x, Activation activation,
                    const MatrixView& z, const MatrixView& y) noexcept {
  if (x.rows == 0) return;
  const detail::IntegerBatch batch(w, x);
  batch.pack(0, batch.parts());
  batch.compute(w, bias, activation, z, y);
}

}  // namespace weft::kernels
#endif
