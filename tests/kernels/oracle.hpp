// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/ops/list.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

/// Expected outputs of every operation: its definition (docs/numerics.md, the headers' formulas), element by element,
/// written once for two kinds of numbers. With `float` it gives the bits; with `Bounded` the value in binary64 by libm,
/// and how far the roundings of the same steps may lead from it.
namespace weft::kernels::testing_ops {

/// A number in binary64 and the most that a computation in binary32 may be off; infinity where nothing is known.
struct Bounded {
  double value = 0, error = 0;
  Bounded() = default;
  Bounded(float x) : value(std::fabs(x) < 0x1p-126f ? 0.0 : static_cast<double>(x)) {}
  Bounded(double exact, double off) : value(exact), error(off) {}
};

/// The result of one more rounding to binary32, which flushes; what may overflow is unknown.
inline Bounded rounded(double value, double error, double units = 1) {
  constexpr double kUnit = 0x1.0001p-24, kUnknown = std::numeric_limits<double>::infinity();
  if (!std::isfinite(value)) return {value, error == 0 ? 0 : kUnknown};
  const double size = std::fabs(value) + error;
  if (!(size < 0x1.fffffep127)) return {value, kUnknown};
  if (value == 0 && error == 0) return {value, 0};
  error += units * kUnit * size;
  return {value, std::fabs(value) - error < 0x1p-126 ? error + 0x1p-126 : error};
}
inline double product_error(const Bounded& a, const Bounded& b) {
  if (a.error == 0 && b.error == 0) return 0;
  return std::fabs(a.value) * b.error + std::fabs(b.value) * a.error + a.error * b.error;
}
inline Bounded operator-(const Bounded& a) { return {-a.value, a.error}; }
inline Bounded operator+(const Bounded& a, const Bounded& b) { return rounded(a.value + b.value, a.error + b.error); }
inline Bounded operator-(const Bounded& a, const Bounded& b) { return a + -b; }
inline Bounded operator*(const Bounded& a, const Bounded& b) { return rounded(a.value * b.value, product_error(a, b)); }
inline Bounded operator/(const Bounded& a, const Bounded& b) {
  const double quotient = a.value / b.value;
  if (a.error == 0 && b.error == 0) return rounded(quotient, 0);
  return rounded(quotient, b.error < std::fabs(b.value)
                               ? (a.error + std::fabs(quotient) * b.error) / (std::fabs(b.value) - b.error)
                               : std::numeric_limits<double>::infinity());
}
inline bool operator<(const Bounded& a, const Bounded& b) { return a.value < b.value; }
inline bool operator>(const Bounded& a, const Bounded& b) { return a.value > b.value; }
inline bool operator==(const Bounded& a, const Bounded& b) { return a.value == b.value; }

inline float fused(float a, float b, float c) { return std::fma(a, b, c); }
inline Bounded fused(const Bounded& a, const Bounded& b, const Bounded& c) {
  return rounded(a.value * b.value + c.value, product_error(a, b) + c.error);
}
inline float root(float x) { return std::sqrt(x); }
Bounded root(const Bounded& x);
/// Within two units of the exact function (docs/numerics.md, section 7).
float exponential(float x);
Bounded exponential(const Bounded& x);
float logarithm(float x);
Bounded logarithm(const Bounded& x);
/// A function of kernels/math.hpp; outside of its domain nothing is known.
float applied(Function function, float x);
Bounded applied(Function function, const Bounded& x);
/// The formulas of kernels/activations.def in binary64, by libm.
double formula(Activation activation, double x);
/// An activation, and its slope times dy; v is its input or its result, as kernels/activations.def says. The errors are
/// generous: unary_test.cpp has the tight ones.
float activated(Activation activation, float x);
Bounded activated(Activation activation, const Bounded& x);
float sloped(Activation activation, float v, float dy);
Bounded sloped(Activation activation, const Bounded& v, const Bounded& dy);

inline float magnitude(float x) { return std::fabs(x); }
inline Bounded magnitude(const Bounded& x) { return {std::fabs(x.value), x.error}; }
inline float larger(float x, float top) { return x > top ? x : top; }
inline Bounded larger(const Bounded& x, const Bounded& top) {
  if (std::isnan(x.value)) return top;
  return {std::max(x.value, top.value), std::max(x.error, top.error)};
}
inline bool is_nan(float x) { return std::isnan(x); }
inline bool is_nan(const Bounded& x) { return std::isnan(x.value); }
/// A choice between numbers flushes like arithmetic.
inline float chosen(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
inline Bounded chosen(const Bounded& x) { return x; }
/// The limit where x is beyond it; a NaN stays.
inline float at_least(float limit, float x) { return limit > x ? limit : x; }
inline float at_most(float limit, float x) { return limit < x ? limit : x; }
inline Bounded at_least(double limit, const Bounded& x) { return {limit > x.value ? limit : x.value, x.error}; }
inline Bounded at_most(double limit, const Bounded& x) { return {limit < x.value ? limit : x.value, x.error}; }
/// `of` where x is sure to be above the limit, `otherwise` where it is sure not to be.
inline float if_above(float limit, float x, float of, float otherwise) { return x > limit ? of : otherwise; }
inline Bounded if_above(double limit, const Bounded& x, const Bounded& of, const Bounded& otherwise) {
  if (x.error > 0 && std::fabs(x.value - limit) <= x.error) return {0, std::numeric_limits<double>::infinity()};
  return x.value > limit ? of : otherwise;
}

/// Rule R1: serial chunks of 64. sum = step(sum, k).
template <class T, class Step>
T chunks(std::size_t n, const Step& step) {
  T total = 0.0f;
  for (std::size_t first = 0; first < n; first += 64) {
    T sum = 0.0f;
    for (std::size_t k = first; k < n && k < first + 64; ++k) sum = step(sum, k);
    total = total + sum;
  }
  return total;
}
/// The fold of 64 lanes by halves.
template <class T>
T folded(std::vector<T> lane) {
  for (std::size_t half = 32; half != 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lane[i] = lane[i] + lane[i + half];
  return lane[0];
}
/// Rule R2: 64 strided lanes. lane = step(lane, j).
template <class T, class Step>
T lanes(std::size_t n, const Step& step) {
  std::vector<T> lane(64, T(0.0f));
  for (std::size_t j = 0; j < n; ++j) lane[j % 64] = step(lane[j % 64], j);
  return folded(std::move(lane));
}
/// The largest of n numbers, -inf if there is none; a NaN never wins.
template <class T, class Element>
T largest(std::size_t n, const Element& element) {
  T top = -std::numeric_limits<float>::infinity();
  for (std::size_t j = 0; j < n; ++j) top = larger(element(j), top);
  return top;
}

/// Numbers of an operand, by row and column or by index.
template <class T>
auto numbers(const ConstMatrixView& m) {
  return [m](std::size_t i, std::size_t j) { return T(m.row(i)[j]); };
}
template <class T>
auto numbers(const float* values) {
  return [values](std::size_t i) { return T(values[i]); };
}

/// Outputs as an oracle expects them, where they lie in the table's operands.
template <class T>
class Expected {
 public:
  struct Value {
    const void* at;
    T value;
    bool is_bits;
  };
  void operator()(const float* at, T value) { values.push_back({at, value, false}); }
  void operator()(const MatrixView& m, std::size_t i, std::size_t j, T value) {
    if (m.data) (*this)(m.row(i) + j, value);
  }
  /// A move: every bit counts, and there is nothing to compute.
  void bits(const void* at, std::uint32_t word) {
    if constexpr (std::is_same_v<T, float>) values.push_back({at, std::bit_cast<float>(word), true});
  }
  void move(const MatrixView& m, std::size_t i, std::size_t j, float value) {
    if (m.data) bits(m.row(i) + j, std::bit_cast<std::uint32_t>(value));
  }
  std::vector<Value> values;
  std::optional<bool> answer;
};

#define WEFT_OP(name, Type)                              \
  void expect(const ops::Type& op, Expected<float>& to); \
  void expect(const ops::Type& op, Expected<Bounded>& to);
#include "kernels/ops.def"
#undef WEFT_OP

/// WEFT_ORACLE(Softmax) { ... }: the oracle of an operation `op`, which hands expected values of type T to `to`.
#define WEFT_ORACLE(Type)                                                                 \
  template <class T>                                                                      \
  static void expect_of(const ops::Type& op, Expected<T>& to);                            \
  void expect(const ops::Type& op, Expected<float>& to) { expect_of<float>(op, to); }     \
  void expect(const ops::Type& op, Expected<Bounded>& to) { expect_of<Bounded>(op, to); } \
  template <class T>                                                                      \
  static void expect_of([[maybe_unused]] const ops::Type& op, [[maybe_unused]] Expected<T>& to)

/// visit(i, j) for each element of a matrix.
template <class Visit>
void each_element(const ConstMatrixView& m, const Visit& visit) {
  for (std::size_t i = 0; i < m.rows; ++i)
    for (std::size_t j = 0; j < m.cols; ++j) visit(i, j);
}

}  // namespace weft::kernels::testing_ops
