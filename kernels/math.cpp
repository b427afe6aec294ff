// SPDX-License-Identifier: Apache-2.0

#include "kernels/math.hpp"

#include "kernels/formulas/scalar.hpp"

#include <cmath>
#include <cstdint>

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

}  // namespace weft::kernels::math
