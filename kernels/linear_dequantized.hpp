// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/activation.hpp"
#include "kernels/views.hpp"
#include "kernels/weight.hpp"

namespace weft::kernels {

/// Every code's value (kernels/weight.hpp) as float32 panels; float64 is rounded to float32. Padding lanes become +0.
/// @shape  from [out, in] -> to [out, in]; to aliases nothing
/// @dtype  all 21
/// @thread any, inside FlushSubnormals
/// @exact  same bits on every ISA
void dequantize(const ConstWeight& from, const Panels& to) noexcept;

/// `linear` on a stored weight, computed from its codes: the bits of linear() on dequantize()d panels. float64 alone
/// sums in binary64, in the same order, adds the bias there and rounds once (docs/numerics.md, section 9).
///   z = value(w) x^T + bias,  y = activation(z)
/// @shape  w [out, in], bias [out] or null, x [B, in] -> z [B, out] (data null: not wanted), y [B, out]; z may be y
///         only when activation is linear; z and y alias nothing else
/// @dtype  all 21; float32 is linear() itself
/// @thread any, inside FlushSubnormals; allocates only to grow a scratch of the thread, for B > 1
/// @exact  same bits on every ISA and for every B
void linear_dequantized(const ConstWeight& w, const float* bias, const ConstMatrixView& x, Activation activation,
                        const MatrixView& z, const MatrixView& y) noexcept;

/// `linear_transposed` on a stored weight: the bits of linear_transposed() on dequantize()d panels; float64 in
/// binary64, rounded once.
///   dx = dy value(w)
/// @shape  w [out, in], dy [B, out] -> dx [B, in]; dx aliases nothing
/// @thread any, inside FlushSubnormals; allocates only to grow a scratch of the thread
/// @exact  same bits on every ISA and for every B
void linear_transposed_dequantized(const ConstWeight& w, const ConstMatrixView& dy, const MatrixView& dx) noexcept;

/// s[k] = sum over o of |value(w[o][k])|: the bits of column_l1_norms() on dequantize()d panels; float64 in binary64,
/// rounded once.
/// @shape  w [out, in] -> s [in]
/// @exact  same bits on every ISA
void column_l1_norms_dequantized(const ConstWeight& w, float* s) noexcept;

}  // namespace weft::kernels
