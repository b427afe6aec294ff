// SPDX-License-Identifier: Apache-2.0

#include "kernels/math.hpp"

#include "kernels/math_constants.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace weft::kernels::math {
namespace {

using namespace constants;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::uint32_t bits(float x) noexcept { return std::bit_cast<std::uint32_t>(x); }
float from_bits(std::uint32_t x) noexcept { return std::bit_cast<float>(x); }
// A tie returns x; so does a NaN, since no comparison with it holds.
float at_most(float limit, float x) noexcept { return limit < x ? limit : x; }
float at_least(float limit, float x) noexcept { return limit > x ? limit : x; }
// The integer n that `rounded` = v + kRound holds in its low bits, as 2^n.
float power_of_two(float rounded) noexcept { return from_bits((bits(rounded) << 23) + 0x3f800000u); }

template <std::size_t N>
float horner(const float (&c)[N], float x) noexcept {
  float sum = c[N - 1];
  for (std::size_t i = N - 1; i-- > 0;) sum = std::fma(sum, x, c[i]);
  return sum;
}

// r + r^2 c(r), with pairs first: one step less in the chain than Horner's for the same operations.
float expm1_reduced(float r, const float (&k)[5] = kExp) noexcept {
  const float r2 = r * r;
  const float c23 = std::fma(k[3], r, k[2]);
  const float c01 = std::fma(k[1], r, k[0]);
  const float c = std::fma(r2, std::fma(r2, k[4], c23), c01);
  return std::fma(r2, c, r);
}

float reduce_exp(float x, float n) noexcept { return std::fma(n, -kLn2Low, std::fma(n, -kLn2, x)); }

// log(1 + f) - f.
float log_tail(float f) noexcept { return f * f * std::fma(f, horner(kLog, f), -0.5f); }

float sin_reduced(float r) noexcept {
  const float u = r * r;
  return std::fma(r * u, horner(kSin, u), r);
}
float cos_reduced(float r) noexcept {
  const float u = r * r;
  return std::fma(u * u, horner(kCos, u), std::fma(u, -0.5f, 1.0f));
}

// sin(a + quarter_turns pi/2) for 0 <= a <= 2^20.
float sin_shifted(float a, std::uint32_t quarter_turns) noexcept {
  const float rounded = std::fma(a, kTwoOverPi, kRound);
  const float n = rounded - kRound;
  const float r = std::fma(n, -kHalfPiLow, std::fma(n, -kHalfPiMiddle, std::fma(n, -kHalfPi, a)));
  const std::uint32_t quadrant = bits(rounded) + quarter_turns;
  const float y = quadrant & 1 ? cos_reduced(r) : sin_reduced(r);
  return from_bits(bits(y) ^ (quadrant & 2) << 30);
}

}  // namespace

float exp(float x) noexcept {
  if (x > kExpLargest) return kInfinity;
  if (x < kExpSmallest) return 0.0f;
  const float rounded = std::fma(x, kLog2E, kRound);
  const float y = 1.0f + expm1_reduced(reduce_exp(x, rounded - kRound));
  if (x != x) return y;  // adding to the bits of a NaN would make it a number
  return from_bits(bits(y) + (bits(rounded) << 23));
}

float expm1_nonpositive(float x) noexcept {
  const float clamped = at_least(kExpm1Clamp, x);
  const float rounded = std::fma(clamped, kLog2E, kRound);
  const float p = expm1_reduced(reduce_exp(clamped, rounded - kRound));
  const float s = power_of_two(rounded);
  return std::copysign(std::fma(s, p, s - 1.0f), x);  // or -0 would give +0
}

float log(float x) noexcept {
  if (!(x < kInfinity)) return x;  // +inf, NaN
  if (x < std::numeric_limits<float>::min()) return x < 0.0f ? kNan : -kInfinity;
  // x = 2^k m with 3/4 <= m < 3/2.
  const auto exponent = static_cast<std::int32_t>(bits(x) - bits(0.75f)) >> 23;
  const float k = static_cast<float>(exponent);
  const float f = from_bits(bits(x) - (static_cast<std::uint32_t>(exponent) << 23)) - 1.0f;
  return std::fma(k, kLn2, f + std::fma(k, kLn2Low, log_tail(f)));
}

float log1p_unit(float x) noexcept {
  const bool halve = x >= 0.5f;
  const float f = halve ? std::fma(x, 0.5f, -0.5f) : x;
  const float y = f + log_tail(f);
  return halve ? y + kLn2 : y;
}

float tanh(float x) noexcept {
  const float a = std::fabs(x);
  if (a < kTanhSplit) {
    const float u = a * a;
    return std::copysign(std::fma(a * u, horner(kTanhSmall, u), a), x);
  }
  // m / (m + 1) with m = (exp(2a) - 1) / 2 = 2^n (1/2 + p) - 1/2; n ln 2 needs no low part since n <= 29.
  const float clamped = at_most(kTanhClamp, a);
  const float rounded = std::fma(clamped, 2.0f * kLog2E, kRound);
  const float h = std::fma(rounded - kRound, -0.5f * kLn2, clamped);
  const float p = expm1_reduced(h, kExpHalf);
  const float s = power_of_two(rounded);
  const float m = std::fma(s, p, std::fma(s, 0.5f, -0.5f));
  return std::copysign(m / (m + 1.0f), x);
}

float logistic_denominator(float x) noexcept {
  const float v = -at_most(kLogisticClamp, at_least(-kLogisticClamp, x));
  const float rounded = std::fma(v, kLog2E, kRound);
  const float p = expm1_reduced(reduce_exp(v, rounded - kRound));
  const float s = power_of_two(rounded);
  return std::fma(s, p, s + 1.0f);
}

float sigmoid(float x) noexcept {
  if (x < kExpSmallest) return 0.0f;
  return 1.0f / logistic_denominator(x);
}

float erf(float x) noexcept {
  const float a = std::fabs(x);
  if (a < kErfSplit) return std::fma(x, horner(kErfSmall, x * x), x);
  if (a > kErfOne) return std::copysign(1.0f, x);
  return std::copysign(horner(kErfLarge, std::fma(a, kErfScale, kErfShift)), x);
}

float sin(float x) noexcept {
  const float a = std::fabs(x);
  if (!(a <= kTrigLimit)) return kNan;
  const float y = sin_shifted(a, 0);
  return from_bits(bits(y) ^ (bits(x) & 0x80000000u));
}

float cos(float x) noexcept {
  const float a = std::fabs(x);
  if (!(a <= kTrigLimit)) return kNan;
  return sin_shifted(a, 1);
}

float inverse_sqrt(float x) noexcept { return 1.0f / std::sqrt(x); }

double power(double base, std::uint64_t exponent) noexcept {
  double product = 1.0;
  for (double square = base; exponent != 0; exponent >>= 1, square *= square)
    if (exponent & 1) product *= square;
  return product;
}

}  // namespace weft::kernels::math
