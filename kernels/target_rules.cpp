// SPDX-License-Identifier: Apache-2.0

#include "kernels/target_rules.hpp"

#include "kernels/binary.hpp"
#include "kernels/math_constants.hpp"
#include "kernels/row_cosine.hpp"

#include <algorithm>
#include <cmath>

namespace weft::kernels {

void one_hot(const std::uint32_t* labels, float value, const MatrixView& y) noexcept {
  for (std::size_t b = 0; b < y.rows; ++b) {
    std::fill_n(y.row(b), y.cols, 0.0f);
    y.row(b)[labels[b]] = value;
  }
}

void link_budget(const ConstMatrixView& a, const ConstMatrixView& t, float* factor) noexcept {
  row_cosine(a, t, factor);
  for (std::size_t b = 0; b < a.rows; ++b) {
    const float budget = (factor[b] + 1.0f) * 0.5f;
    factor[b] = budget < constants::kLeastBudget ? 0.0f : std::fma(0.5f, budget, 0.5f);
  }
}

void scale_rows(const float* s, const ConstMatrixView& x, const MatrixView& y) noexcept {
  for (std::size_t b = 0; b < x.rows; ++b) scale(s[b], {x.row(b), 1, x.cols, x.cols}, {y.row(b), 1, x.cols, x.cols});
}

void gap_residual(const ConstMatrixView& weighted, const float* sums, const ConstMatrixView& x,
                  const MatrixView& d) noexcept {
  for (std::size_t b = 0; b < x.rows; ++b)
    for (std::size_t j = 0; j < x.cols; ++j)
      d.row(b)[j] = sums[j] > constants::kLeastGapSum ? weighted.row(b)[j] / sums[j] - x.row(b)[j] : 0.0f;
}

}  // namespace weft::kernels
