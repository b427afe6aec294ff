// SPDX-License-Identifier: Apache-2.0

#include "kernels/convolve_coded.hpp"

#include "kernels/internal/convolve_plan.hpp"
#include "kernels/linear_dequantized.hpp"
#include "kernels/linear_integer.hpp"
#include "kernels/unary.hpp"

#include <algorithm>

namespace weft::kernels {
namespace {

/// The dequantized weight at the workspace's start; what is left of it behind.
ConstPanels dequantize_into(const ConstWeight& w, float*& workspace) noexcept {
  if (w.dtype == Dtype::float32) return w.panels();
  const Panels panels{workspace, w.out, w.in};
  dequantize(w, panels);
  workspace += panels_size(w.out, w.in);
  return panels;
}

}  // namespace

void convolve_rows(const Window& window, const ConstWeight& w, const float* bias, const ConstMatrixView& x,
                   Activation activation, const MatrixView& z, const MatrixView& y, float* workspace,
                   std::size_t tile) noexcept {
  const std::size_t columns = w.in, group_out = w.out / window.groups, positions = window.positions();
  const std::size_t padded = panel_count(w.out) * kPanelWidth;
  float* const gathered = workspace;
  float* const rows = gathered + columns * detail::kConvolveTile;
  float* const sums = rows + columns * detail::kConvolveTile;
  float* const turned = sums + padded * detail::kConvolveTile;
  for (std::size_t b = 0; b < x.rows; ++b) {
    float* const to = z.data ? z.row(b) : y.row(b);
    for (std::size_t p = 0; p < positions; p += tile) {
      const std::size_t count = std::min(tile, positions - p);
      for (std::size_t g = 0; g < window.groups; ++g) {
        // Whole panels around the group's outputs.
        const std::size_t low = g * group_out, first = low / kPanelWidth;
        const std::size_t panels = panel_count(low + group_out) - first;
        const ConstWeight part = panel_range(w, first, panels);
        const float* part_bias = bias ? bias + first * kPanelWidth : nullptr;
        const MatrixView in{rows, count, columns, columns}, out{sums, count, part.out, part.out};
        gather_windows(window, g, x.row(b), p, count, {gathered, columns, count, count});
        transpose({gathered, columns, count, count}, in);
        if (sums_integers(w))
          linear_integer(part, part_bias, in, Activation::linear, {}, out);
        else
          linear_dequantized(part, part_bias, in, Activation::linear, {}, out);
        transpose(out, {turned, part.out, count, count});
        for (std::size_t o = low; o < low + group_out; ++o)
          std::copy_n(turned + (o - first * kPanelWidth) * count, count, to + o * positions + p);
      }
    }
    const std::size_t all = w.out * positions;
    if (activation != Activation::linear)
      unary(activation, {to, 1, all, all}, {y.row(b), 1, all, all});
    else if (to != y.row(b))
      std::copy_n(to, all, y.row(b));
  }
}

void convolve_coded(const Window& window, const ConstWeight& w, const float* bias, const ConstMatrixView& x,
                    Activation activation, const MatrixView& z, const MatrixView& y, float* workspace) noexcept {
  if (sums_integers(w) || w.dtype == Dtype::float64)
    return convolve_rows(window, w, bias, x, activation, z, y, workspace, detail::kConvolveTile);
  const ConstPanels panels = dequantize_into(w, workspace);
  convolve(window, panels, bias, x, activation, z, y, workspace);
}

void convolve_transposed_coded(const Window& window, const ConstWeight& w, const float* bias, const ConstMatrixView& x,
                               Activation activation, const MatrixView& z, const MatrixView& y,
                               float* workspace) noexcept {
  const ConstPanels panels = dequantize_into(w, workspace);
  convolve_transposed(window, panels, bias, x, activation, z, y, workspace);
}

}  // namespace weft::kernels
