// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/math_constants.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>

/// The formulas of kernels/formulas/*.inc for single floats: the words that they are written in, then they themselves.
/// vector-inl.hpp has the words for vectors, gpu/shaders/functions.glsl for shaders; docs/howto/write-a-formula.md
/// says what each means.
namespace weft::kernels::formulas {

using namespace constants;

using Real = float;
#define WEFT_FORMULA inline
#define WEFT_INOUT(name) Real& name
#define WEFT_TABLE(name, size) const float(&name)[size]
#define WEFT_LENGTH(table) static_cast<int>(std::size(table))
#define WEFT_UNROLLED
#define WEFT_BITS std::uint32_t
#define WEFT_SELECT(condition, a, b) ((condition) ? (a) : (b))
#define WEFT_ZERO_OR(condition, a) ((condition) ? 0.0f : (a))
#define WEFT_OR_ZERO(condition, a) ((condition) ? (a) : 0.0f)
#define WEFT_SHIFT_LEFT(u, count) ((u) << (count))
#define WEFT_SHIFT_RIGHT_SIGNED(u, count) static_cast<std::uint32_t>(static_cast<std::int32_t>(u) >> (count))

inline float real(float, float constant) noexcept { return constant; }
inline float add(float a, float b) noexcept { return a + b; }
inline float sub(float a, float b) noexcept { return a - b; }
inline float mul(float a, float b) noexcept { return a * b; }
inline float divide(float a, float b) noexcept { return a / b; }
inline float divide_by_successor(float m) noexcept { return m / (m + 1.0f); }
inline float root(float x) noexcept { return std::sqrt(x); }
inline float fused(float a, float b, float c) noexcept { return std::fma(a, b, c); }
inline float negated_fused(float a, float b, float c) noexcept { return std::fma(-a, b, c); }

inline bool is_less(float a, float b) noexcept { return a < b; }
inline bool is_greater(float a, float b) noexcept { return a > b; }
inline bool is_at_most(float a, float b) noexcept { return a <= b; }
inline bool is_at_least(float a, float b) noexcept { return a >= b; }
inline bool is_nan(float x) noexcept { return x != x; }
// A tie returns x; so does a NaN, since no comparison with it holds.
inline float at_most(float limit, float x) noexcept { return limit < x ? limit : x; }
inline float at_least(float limit, float x) noexcept { return limit > x ? limit : x; }

inline float nan_of(float y) noexcept { return y; }
inline float keep_nan(float, float y) noexcept { return y; }
inline float cheap_keep_nan(float, float y) noexcept { return y; }
inline float magnitude_of(float x) noexcept { return std::fabs(x); }
inline float cheap_magnitude_of(float x) noexcept { return std::fabs(x); }
inline float negated(float x) noexcept { return -x; }
inline float with_sign(float magnitude, float sign) noexcept { return std::copysign(magnitude, sign); }
inline float sign_of(float x) noexcept { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f; }
// Multiplying by 1 would not do: compilers take it away.
inline float chosen(float x) noexcept { return std::fabs(x) < kSmallestNormal ? std::copysign(0.0f, x) : x; }

inline std::uint32_t bits(float x) noexcept { return std::bit_cast<std::uint32_t>(x); }
inline float from_bits(std::uint32_t u) noexcept { return std::bit_cast<float>(u); }
inline float from_signed(std::uint32_t u) noexcept { return static_cast<float>(static_cast<std::int32_t>(u)); }
inline std::uint32_t add_bits(std::uint32_t u, std::uint32_t v) noexcept { return u + v; }
inline std::uint32_t sub_bits(std::uint32_t u, std::uint32_t v) noexcept { return u - v; }
inline std::uint32_t and_bits(std::uint32_t u, std::uint32_t v) noexcept { return u & v; }
inline std::uint32_t xor_bits(std::uint32_t u, std::uint32_t v) noexcept { return u ^ v; }
inline float flipped(float y, std::uint32_t u) noexcept { return from_bits(bits(y) ^ u); }
inline bool is_odd(std::uint32_t u) noexcept { return (u & 1) != 0; }

#include "kernels/formulas/clip.inc"
#include "kernels/formulas/math.inc"
// Activations are made of those.
#include "kernels/formulas/activations.inc"
// Losses of values too.
#define WEFT_LOSS_FORMULAS
#include "kernels/formulas/losses.def"
#undef WEFT_LOSS_FORMULAS

#include "kernels/formulas/end.inc"

}  // namespace weft::kernels::formulas
