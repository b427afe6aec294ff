// SPDX-License-Identifier: Apache-2.0

#include "kernels/max_backward.hpp"

namespace weft::kernels {

void max_backward(const ConstMatrixView& source, const ConstMatrixView& x, const MatrixView& left,
                  const MatrixView& d) noexcept {
  for (std::size_t i = 0; i < x.rows; ++i) {
    const float *s = source.row(i), *m = x.row(i);
    float *rest = left.row(i), *mine = d.row(i);
    for (std::size_t j = 0; j < x.cols; ++j) {
      const bool holds = s[j] == m[j];
      mine[j] = holds ? rest[j] : 0.0f;
      rest[j] = holds ? 0.0f : rest[j];
    }
  }
}

}  // namespace weft::kernels
