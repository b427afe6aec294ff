// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cmath>
#include <cstdint>

/// Transcendental functions whose bits are the same on every machine: polynomials in fma, no libm.
/// Within 2 ulp of the correctly rounded value (measured over all 2^32 inputs: docs/numerics.md); a NaN gives a NaN;
/// arguments and results that are subnormal are zero, with their sign. Call them inside FlushSubnormals.
/// The scalar reference; vectors and shaders are made of the same formulas (kernels/formulas/math.inc).
/// @thread any
/// @exact  same bits on every ISA
namespace weft::kernels::math {

/// +inf above 88.72283, +0 below -87.33654.
float exp(float x) noexcept;
/// exp(x) - 1 for x <= 0, accurate near 0; -1 at -inf.
float expm1_nonpositive(float x) noexcept;
/// -inf at both zeros, NaN below, +inf at +inf.
float log(float x) noexcept;
/// log(1 + x) for 0 <= x <= 1, accurate near 0.
float log1p_unit(float x) noexcept;
/// Odd; +-1 at infinity, x itself when tiny.
float tanh(float x) noexcept;
/// 1 / (1 + exp(-x)): 1 at +inf, +0 below -87.33654.
float sigmoid(float x) noexcept;
/// Odd; +-1 from |x| = 3.9375 on.
float erf(float x) noexcept;
/// NaN where |x| > 2^20, infinities included.
float sin(float x) noexcept;
float cos(float x) noexcept;

/// x, or a zero of x's sign where x is subnormal: for results that are chosen, not computed, so that no instruction
/// flushes them. (Multiplying by 1 would not do: compilers take it away.)
inline float flush(float x) noexcept { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

/// 1 / sqrt(x) as exactly these two correctly rounded operations.
float inverse_sqrt(float x) noexcept;

/// base^exponent by repeated squaring in binary64: for i from bit 0 up, product *= square where the bit is set, then
/// square *= square. 0^0 is 1. The same bits wherever binary64 is IEEE and not fused (no libm).
double power(double base, std::uint64_t exponent) noexcept;

/// Natural logarithm in binary64, without fusing: x = 2^e m with m in [sqrt(1/2), sqrt(2)), and of m the series of
/// 2 artanh((m - 1) / (m + 1)) up to its 23rd power. Within 2 ulp of libm's (tests/kernels/math_test.cpp). For x > 0
/// that is normal and finite; NaN of any other.
double log_binary64(double x) noexcept;

}  // namespace weft::kernels::math
