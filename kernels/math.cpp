// SPDX-License-Identifier: Apache-2.0

#include "kernels/math.hpp"

#include "kernels/formulas/scalar.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace weft::kernels::math {

float exp(float x) noexcept { return formulas::exact_exp(x); }
float expm1_nonpositive(float x) noexcept { return formulas::exact_expm1_nonpositive(x); }
float log(float x) noexcept { return formulas::exact_log(x); }
float log1p_unit(float x) noexcept { return formulas::exact_log1p_unit(x); }
float tanh(float x) noexcept { return formulas::exact_tanh(x); }
float sigmoid(float x) noexcept { return formulas::exact_sigmoid(x); }
float erf(float x) noexcept { return formulas::exact_erf(x); }
float sin(float x) noexcept { return formulas::exact_sin(x); }
float cos(float x) noexcept { return formulas::exact_cos(x); }

float inverse_sqrt(float x) noexcept { return 1.0f / std::sqrt(x); }

double power(double base, std::uint64_t exponent) noexcept {
  double product = 1.0;
  for (double square = base; exponent != 0; exponent >>= 1, square *= square)
    if (exponent & 1) product *= square;
  return product;
}

double log_binary64(double x) noexcept {
  constexpr double kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;
  constexpr std::uint64_t kFraction = (std::uint64_t{1} << 52) - 1, kOne = std::uint64_t{1023} << 52;
  if (!(x >= 0x1p-1022 && x <= 0x1.fffffffffffffp1023)) return std::numeric_limits<double>::quiet_NaN();
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<std::int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & kFraction) | kOne);
  if (m > 0x1.6a09e667f3bcdp0) m *= 0.5, ++exponent;
  const double s = (m - 1) / (m + 1), square = s * s;
  double series = 0;
  for (int power = 23; power >= 3; power -= 2) series = (series + 1.0 / power) * square;
  const auto e = static_cast<double>(exponent);
  return e * kLn2High + (2 * s + (2 * s * series + e * kLn2Low));
}

}  // namespace weft::kernels::math
