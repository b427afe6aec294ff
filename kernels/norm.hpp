// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

namespace weft::kernels {

/// inverse_rms = 1 / sqrt(sum(x^2) / cols + epsilon);  y = (x inverse_rms) gain. gain [cols] or null for ones; y may be
/// x.
/// @shape  x, y [rows, cols]; inverse_rms [rows], kept for backward
/// @exact  the sum by rule R2, one fma an element; division and root correctly rounded
/// @source Zhang and Sennrich 2019, eq. 4, arXiv:1910.07467
void rms_norm(const ConstMatrixView& x, const float* gain, float epsilon, const MatrixView& y,
              float* inverse_rms) noexcept;

/// With n = x inverse_rms and g = dy gain:  dx = inverse_rms (g - n mean(g n));  dgain = fma(dy, n, dgain), rows
/// ascending. dgain null: not wanted. dx may be dy.
/// @exact  the mean by rule R2, one fma an element
void rms_norm_backward(const ConstMatrixView& x, const float* gain, const float* inverse_rms, const ConstMatrixView& dy,
                       const MatrixView& dx, float* dgain) noexcept;

/// mean = sum(x) / cols;  inverse_deviation = 1 / sqrt(sum((x - mean)^2) / cols + epsilon);
/// y = fma((x - mean) inverse_deviation, gain, bias). gain, bias [cols] or null for ones and zeros; y may be x.
/// @shape  x, y [rows, cols]; mean, inverse_deviation [rows], kept for backward
/// @exact  both sums by rule R2; division and root correctly rounded
/// @source Ba et al. 2016, eq. 4, arXiv:1607.06450
void layer_norm(const ConstMatrixView& x, const float* gain, const float* bias, float epsilon, const MatrixView& y,
                float* mean, float* inverse_deviation) noexcept;

/// With n = (x - mean) inverse_deviation and g = dy gain:
///   dx = inverse_deviation (g - mean(g) - n mean(g n));  dgain = fma(dy, n, dgain), dbias = dbias + dy, rows
///   ascending.
/// dgain, dbias null: not wanted. dx may be dy.
/// @exact  both means by rule R2
void layer_norm_backward(const ConstMatrixView& x, const float* gain, const float* mean, const float* inverse_deviation,
                         const ConstMatrixView& dy, const MatrixView& dx, float* dgain, float* dbias) noexcept;

}  // namespace weft::kernels
