// SPDX-License-Identifier: Apache-2.0

#include "kernels/linear_dequantized.hpp"

#include "kernels/internal/dequantized.hpp"
#include "kernels/internal/linear_scratch.hpp"
#include "kernels/linear.hpp"
#include "kernels/unary.hpp"

#include <algorithm>
#include <cstring>

namespace weft::kernels {
namespace {
using detail::DequantizedPart;

/// The kernels of a type's family; none for float32, and `row` none for float64.
struct Family {
  void (*dequantize)(const ConstWeight&, const DequantizedPart&, float*) noexcept;
  void (*row)(const ConstWeight&, const float*, const float*, float*) noexcept;
};
Family family(Dtype dtype) noexcept {
  if (dtype == Dtype::float32) return {nullptr, nullptr};
  if (dtype == Dtype::float64) return {detail::dequantize_doubles, nullptr};
  if (code_layout(dtype) == CodeLayout::words) return {detail::dequantize_words, detail::row_of_words};
  const bool is_integer = has_scale(dtype) && dtype != Dtype::fp8_e4m3 && dtype != Dtype::fp8_e5m2;
  if (is_integer) return {detail::dequantize_integers, detail::row_of_integers};
  return {detail::dequantize_floats, detail::row_of_floats};
}

// Dequantized weights held at once: for few rows they stay in a second-level cache; for many, packing the rows anew for
// each group of panels costs more than a trip to the third.
constexpr std::size_t kHeldFloats = std::size_t{128} << 10, kManyRows = 28, kHeldFloatsOfMany = std::size_t{1} << 20;
// A group of panels: whole tiles of linear(), and more of them only where that packs less.
constexpr std::size_t kFewestPanels = 4, kMostPanels = 16;
// Columns of a block that is dequantized for a transposed product; a multiple of a scale block.
constexpr std::size_t kMostColumns = 512, kHeldColumnFloats = std::size_t{256} << 10;

MatrixView before_activation(const MatrixView& z, const MatrixView& y) noexcept { return z.data ? z : y; }

/// y = activation(z), where the products went.
void finish(const MatrixView& from, Activation activation, const MatrixView& y) noexcept {
  if (activation != Activation::linear) return unary(activation, from, y);
  if (from.data == y.data) return;
  for (std::size_t b = 0; b < y.rows; ++b) std::memcpy(y.row(b), from.row(b), y.cols * sizeof(float));
}

MatrixView columns(const MatrixView& rows, std::size_t first, std::size_t count) noexcept {
  return {rows.data ? rows.data + first : nullptr, rows.rows, count, rows.stride};
}

void linear_by_groups(const ConstWeight& w, const float* bias, const ConstMatrixView& x, Activation activation,
                      const MatrixView& z, const MatrixView& y) noexcept {
  const auto dequantize_part = family(w.dtype).dequantize;
  const std::size_t panels = panel_count(w.out), panel_floats = std::max<std::size_t>(w.in, 1) * kPanelWidth;
  const std::size_t held = x.rows < kManyRows ? kHeldFloats : kHeldFloatsOfMany;
  const std::size_t group = std::min(std::clamp(held / panel_floats, kFewestPanels, kMostPanels), panels);
  float* scratch = detail::dequantize_scratch(group * panel_floats);
  for (std::size_t p = 0; p < panels; p += group) {
    const std::size_t count = std::min(group, panels - p), o = p * kPanelWidth;
    const std::size_t out = std::min(w.out - o, count * kPanelWidth);
    dequantize_part(w, {p, count, 0, w.in}, scratch);
    linear({scratch, out, w.in}, bias ? bias + o : nullptr, x, activation, columns(z, o, out), columns(y, o, out));
  }
}

/// Calls part(first, count, panels) with blocks of dequantized columns.
template <class Part>
void for_column_blocks(const ConstWeight& w, std::size_t first, std::size_t count, const Part& part) noexcept {
  const auto dequantize_part = family(w.dtype).dequantize;
  const std::size_t panels = panel_count(w.out), column = std::max<std::size_t>(panels, 1) * kPanelWidth;
  const std::size_t fitting = kHeldColumnFloats / column / kScaleBlock * kScaleBlock;
  const std::size_t block = std::min(std::clamp(fitting, kScaleBlock, kMostColumns), count);
  float* scratch = detail::dequantize_scratch(block * column);
  for (std::size_t k = first; k < first + count; k += block) {
    const std::size_t columns_now = std::min(block, first + count - k);
    dequantize_part(w, {0, panels, k, columns_now}, scratch);
    part(k, columns_now, ConstPanels{scratch, w.out, columns_now});
  }
}

/// Columns [first, first + count) of dx; `first` a multiple of 32.
void transposed_range(const ConstWeight& w, const ConstMatrixView& dy, const MatrixView& dx, std::size_t first,
                      std::size_t count) noexcept {
  if (w.dtype == Dtype::float64) return detail::transposed_doubles(w, dy, dx, first, count);
  for_column_blocks(w, first, count, [&](std::size_t k, std::size_t n, const ConstPanels& panels) {
    linear_transposed(panels, dy, columns(dx, k, n));
  });
}

}  // namespace

void dequantize(const ConstWeight& from, const Panels& to) noexcept {
  if (panels_size(from.out, from.in) == 0) return;
  if (from.dtype == Dtype::float32)
    std::memcpy(to.data, from.codes, panels_size(from.out, from.in) * sizeof(float));
  else
    family(from.dtype).dequantize(from, {0, panel_count(from.out), 0, from.in}, to.data);
}

void linear_dequantized(const ConstWeight& w, const float* bias, const ConstMatrixView& x, Activation activation,
                        const MatrixView& z, const MatrixView& y) noexcept {
  if (w.dtype == Dtype::float32) return linear(w.panels(), bias, x, activation, z, y);
  if (x.rows == 0 || w.out == 0) return;
  const MatrixView to = before_activation(z, y);
  if (w.dtype == Dtype::float64) {
    detail::rows_of_doubles(w, bias, x, to);
    finish(to, activation, y);
  } else if (x.rows == 1) {
    family(w.dtype).row(w, bias, x.data, to.data);
    finish(to, activation, y);
  } else {
    linear_by_groups(w, bias, x, activation, z, y);
  }
}

void linear_transposed_dequantized(const ConstWeight& w, const ConstMatrixView& dy, const MatrixView& dx) noexcept {
  if (w.dtype == Dtype::float32) return linear_transposed(w.panels(), dy, dx);
  transposed_range(w, dy, dx, 0, w.in);
}

void column_l1_norms_dequantized(const ConstWeight& w, float* s) noexcept {
  if (w.dtype == Dtype::float32) return column_l1_norms(w.panels(), s);
  if (w.dtype == Dtype::float64) return detail::column_sums_of_doubles(w, s);
  for_column_blocks(w, 0, w.in,
                    [&](std::size_t k, std::size_t, const ConstPanels& panels) { column_l1_norms(panels, s + k); });
}

}  // namespace weft::kernels
