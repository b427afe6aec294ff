// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

namespace weft::kernels {

/// Backward of an elementwise maximum x = max(a, b, ...), called once for each source in order. Where source == x, d
/// takes the gradient in `left` and `left` becomes +0; elsewhere d is +0. The first source that holds the maximum thus
/// gets the whole gradient.
/// @shape  source, x, left, d [rows, cols]; d aliases nothing
/// @exact  comparisons and moves only
void max_backward(const ConstMatrixView& source, const ConstMatrixView& x, const MatrixView& left,
                  const MatrixView& d) noexcept;

}  // namespace weft::kernels
