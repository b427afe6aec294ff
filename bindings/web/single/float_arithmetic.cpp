// SPDX-License-Identifier: Apache-2.0
// Scalar arithmetic of binary32 as docs/numerics.md has it: flush_floats.py makes each such instruction of the module a
// call of one of these. Only here do they stay instructions.

#include <cmath>
#include <cstddef>

namespace {

// Tiny after rounding to 24 bits, as x86 looks: what lies nearer to 2^-126 than to the float below it becomes 2^-126.
float narrowed(double x) noexcept {
  return std::fabs(x) < 0x1p-126 - 0x1p-151 ? static_cast<float>(std::copysign(0.0, x)) : static_cast<float>(x);
}
// For sums, which are multiples of 2^-149, and operands.
float flushed(float x) noexcept { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

}  // namespace

extern "C" {

float weft_web_add(float a, float b) { return flushed(a + b); }
float weft_web_sub(float a, float b) { return flushed(a - b); }
// Products of binary64 are exact; its quotients, rounded again, are those of binary32 (Figueroa 1995).
float weft_web_mul(float a, float b) { return narrowed(static_cast<double>(a) * static_cast<double>(b)); }
float weft_web_div(float a, float b) { return narrowed(static_cast<double>(a) / static_cast<double>(b)); }
float weft_web_sqrt(float x) { return std::sqrt(flushed(x)); }
float weft_web_narrowed(double x) { return narrowed(x); }

/// Numbers that come from outside: subnormal ones become zeros of their sign.
void weft_web_flush(float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] = flushed(values[i]);
}
}
