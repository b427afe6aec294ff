// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/activation.hpp"
#include "kernels/views.hpp"
#include "kernels/weight.hpp"

namespace weft::kernels {

/// True where products with `w` are sums of integers: its codes have 8 bits or fewer and its inputs are quantised.
bool sums_integers(const ConstWeight& w) noexcept;

/// A dense layer's forward pass on integer codes: x is quantised to int8 as w.activations says
/// (kernels/quantize_rows.hpp), products are summed exactly over blocks of 32 k, blocks in float32.
///   z = x w^T + bias,  y = activation(z)
/// Per element, for each chunk of two blocks, ascending, sum = +0 and for each of its blocks t, ascending:
///   I = sum over k of (code - zero) * q, an exact integer below 2^24
///   sum = fma(I, xs_t * ws_t, sum)   with a scale a block;  sum = fma(I, xs_t, sum)   with one for all of w or an
///   output
/// then total = total + sum, from +0; then, unless scales belong to blocks, total * ws; then bias.
/// @shape  w [out, in], bias [out] or null, x [B, in] -> z [B, out] (data null: not wanted), y [B, out]; z may be y
///         only when activation is linear; z and y alias nothing else
/// @dtype  w: int8 uint8 int4 uint4 int2 uint2 ternary binary, any granularity
/// @thread any, inside FlushSubnormals; allocates only to grow scratch of the thread
/// @exact  same bits on every ISA and for every B; a row of y depends on that row of x alone
void linear_integer(const ConstWeight& w, const float* bias, const ConstMatrixView& x, Activation activation,
                    const MatrixView& z, const MatrixView& y) noexcept;

}  // namespace weft::kernels
