// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/cpu_stream.hpp"
#include "kernels/target_step.hpp"
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
  const kernels::MatrixView factors{rows.factors, 1, x.rows, x.rows}, ones{rows.ones, 1, x.rows, x.rows};
  stream.rms_norm({x, nullptr, kernels::kLeastSquare, normal, rows.factors});
  if (is_square) stream.binary({kernels::BinaryOp::mul, factors, factors, factors});
  stream.scale({limit, factors, factors});
  stream.fill({1.0f, ones});
  stream.binary({kernels::BinaryOp::min, factors, ones, factors});
}

/// The same bits at once, on the CPU: operations of one value a row cost more than what they compute.
inline void limit_rows(kernels::CpuStream& stream, float limit, bool is_square, const kernels::ConstMatrixView& x,
                       float* factors) {
  stream.row_dots({x, x, factors});
  for (std::size_t b = 0; b < x.rows; ++b) factors[b] = kernels::limit_factor(limit, is_square, factors[b], x.cols);
}

}  // namespace weft::learning
