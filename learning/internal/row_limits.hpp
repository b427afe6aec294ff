// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/op_stream.hpp"
#include "kernels/views.hpp"

#include <cstddef>

namespace weft::learning {

/// Places for a number of each row.
struct RowNumbers {
  float* factors = nullptr;
  float* ones = nullptr;
};

/// factors[b] = min(1, limit / rms(x[b])), with `is_square` min(1, limit / rms(x[b])^2). `normal`: a scratch of x's
/// size.
inline void limit_rows(kernels::OpStream& stream, float limit, bool is_square, const kernels::ConstMatrixView& x,
                       const kernels::MatrixView& normal, const RowNumbers& rows) {
  constexpr float kLeast = 1e-24f;  // beside a sum of squares; a row of zeros has no limit
  const kernels::MatrixView factors{rows.factors, 1, x.rows, x.rows}, ones{rows.ones, 1, x.rows, x.rows};
  stream.rms_norm({x, nullptr, kLeast, normal, rows.factors});
  if (is_square) stream.binary({kernels::BinaryOp::mul, factors, factors, factors});
  stream.scale({limit, factors, factors});
  stream.fill({1.0f, ones});
  stream.binary({kernels::BinaryOp::min, factors, ones, factors});
}

}  // namespace weft::learning
