// SPDX-License-Identifier: Apache-2.0

#include "kernels/target_rules.hpp"

#include <cmath>

#include "kernels/reduce.hpp"

namespace weft::kernels {

void link_budget(ConstRows a, ConstRows t, float* factor) noexcept {
  for (std::size_t b = 0; b < a.rows; ++b) {
    const ConstRows ra{a.row(b), 1, a.cols, a.cols}, rt{t.row(b), 1, t.cols, t.cols};
    float dot, aa, tt;
    row_dots(ra, rt, &dot);
    row_dots(ra, ra, &aa);
    row_dots(rt, rt, &tt);
    const float norms = std::sqrt(aa) * std::sqrt(tt);
    const float cosine = norms > 0.0f ? dot / norms : 0.0f;
    const float budget = (cosine + 1.0f) * 0.5f;
    factor[b] = budget < 0.2f ? 0.0f : std::fma(0.5f, budget, 0.5f);
  }
}

void scale_rows(const float* s, ConstRows x, Rows y) noexcept {
  for (std::size_t b = 0; b < x.rows; ++b)
    for (std::size_t j = 0; j < x.cols; ++j) y.row(b)[j] = s[b] * x.row(b)[j];
}

void gap_displacement(ConstRows weighted, const float* sums, ConstRows x, Rows d) noexcept {
  for (std::size_t b = 0; b < x.rows; ++b)
    for (std::size_t j = 0; j < x.cols; ++j)
      d.row(b)[j] = sums[j] > 0.01f ? weighted.row(b)[j] / sums[j] - x.row(b)[j] : 0.0f;
}

}  // namespace weft::kernels
