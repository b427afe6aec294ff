// SPDX-License-Identifier: Apache-2.0
// Every binary32 input of every transcendental function against libm's binary64 one. Prints the largest distance from
// the correctly rounded (and flushed) value in ulp, where it stands, and the largest error before rounding.
//   kernels_math_ulp_bench [function ...]      WEFT_ISA chooses the code; about two minutes a function and core.

#include "kernels/float_environment.hpp"
#include "kernels/isa.hpp"
#include "kernels/math_rows.hpp"

#include "core/aligned_buffer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string_view>

namespace {

using namespace weft;
using kernels::Function;

double reference(Function function, double x) {
  switch (function) {
    case Function::exp:
      return std::exp(x);
    case Function::expm1_nonpositive:
      return std::expm1(x);
    case Function::log:
      return std::log(x);
    case Function::log1p_unit:
      return std::log1p(x);
    case Function::tanh:
      return std::tanh(x);
    case Function::sigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case Function::erf:
      return std::erf(x);
    case Function::sin:
      return std::fabs(x) <= 0x1p20 ? std::sin(x) : std::numeric_limits<double>::quiet_NaN();
    case Function::cos:
      return std::fabs(x) <= 0x1p20 ? std::cos(x) : std::numeric_limits<double>::quiet_NaN();
  }
  return 0;
}

bool in_domain(Function function, float x) {
  if (function == Function::expm1_nonpositive) return !(x > 0.0f);
  if (function == Function::log1p_unit) return !(x < 0.0f || x > 1.0f);
  return true;
}

float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
// Counts floats: zeros are one value, the subnormals between them and the normals are none.
std::int64_t place(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::int64_t size = bits & 0x7fffffffu, normal = size < 0x00800000 ? 0 : size - 0x007fffff;
  return bits >> 31 ? -normal : normal;
}

struct Worst {
  std::int64_t distance = 0;
  float at = 0;
  double error = 0;
  float error_at = 0;
  std::uint64_t inexact = 0, wrong_kind = 0, checked = 0;
  float wrong_at = 0;
};

void compare(Function function, float x, float y, Worst& worst) {
  const double exact = reference(function, static_cast<double>(flushed(x)));
  const float rounded = flushed(static_cast<float>(exact));
  ++worst.checked;
  const bool nan = std::isnan(rounded);
  if (nan != std::isnan(y) || (!nan && std::isinf(rounded) != std::isinf(y)) ||
      (y == 0.0f && rounded == 0.0f && std::signbit(y) != std::signbit(rounded))) {
    if (worst.wrong_kind++ == 0) worst.wrong_at = x;
    return;
  }
  if (nan || y == rounded) return;
  ++worst.inexact;
  if (const std::int64_t distance = std::llabs(place(y) - place(rounded)); distance > worst.distance) {
    worst.distance = distance;
    worst.at = x;
  }
  const double ulp = std::ldexp(1.0, std::max(std::ilogb(rounded), -126) - 23);
  if (const double error = std::fabs(static_cast<double>(y) - exact) / ulp; error > worst.error) {
    worst.error = error;
    worst.error_at = x;
  }
}

Worst check(Function function) {
  constexpr std::size_t kBlock = 1 << 16;
  AlignedBuffer<float> x(kBlock), y(kBlock);
  Worst worst;
  for (std::uint64_t start = 0; start < std::uint64_t{1} << 32; start += kBlock) {
    for (std::size_t i = 0; i < kBlock; ++i) x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(start + i));
    {
      const kernels::FlushSubnormals flush;
      kernels::apply(function, {x.data(), 1, kBlock, kBlock}, {y.data(), 1, kBlock, kBlock});
    }
    for (std::size_t i = 0; i < kBlock; ++i)
      if (in_domain(function, x[i])) compare(function, x[i], y[i], worst);
  }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t largest = 0;
  std::uint64_t wrong = 0;
  for (int f = 0; f < kernels::kFunctionCount; ++f) {
    const auto function = static_cast<Function>(f);
    if (argc > 1 && std::none_of(argv + 1, argv + argc, [&](std::string_view a) { return a == name(function); }))
      continue;
    const Worst worst = check(function);
    std::printf(
        "{\"function\":\"%s\",\"isa\":\"%s\",\"inputs\":%llu,\"max_ulp\":%lld,\"at\":\"%a\",\"max_error_ulp\":%.4f,"
        "\"error_at\":\"%a\",\"correctly_rounded\":%.5f,\"wrong_kind\":%llu,\"wrong_at\":\"%a\"}\n",
        name(function).data(), name(kernels::active_isa()).data(), static_cast<unsigned long long>(worst.checked),
        static_cast<long long>(worst.distance), worst.at, worst.error, worst.error_at,
        1.0 - static_cast<double>(worst.inexact) / static_cast<double>(worst.checked),
        static_cast<unsigned long long>(worst.wrong_kind), worst.wrong_at);
    std::fflush(stdout);
    largest = std::max(largest, worst.distance);
    wrong += worst.wrong_kind;
  }
  return largest <= 2 && wrong == 0 ? 0 : 1;
}
