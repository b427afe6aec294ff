// SPDX-License-Identifier: Apache-2.0
// Included before every file of the WebAssembly build (bindings/web/CMakeLists.txt): a fused multiply-add, which the
// machine lacks and libc has as a slow call, and what the compiler's standard library does not have yet.
#pragma once

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <string>
#include <system_error>

namespace weft::web {

inline std::uint64_t bits_of(double x) noexcept { return __builtin_bit_cast(std::uint64_t, x); }

/// a b + c where the sum of binary64 cannot be rounded to binary32 as it is: it stands half way between two floats. The
/// sum is rounded to odd (Boldo and Melquiond 2008), after which a second rounding is the only one.
[[gnu::noinline]] inline float fused_of_odd(double product, double c) noexcept {
  double sum = product + c;
  // The error of the sum, exact (Knuth 1969): the product has 48 bits, so nothing here overflows or is lost.
  const double back = sum - product;
  const double error = (product - (sum - back)) + (c - back);
  if (error != 0 && (bits_of(sum) & 1) == 0) {
    const bool is_away = (error > 0) == (sum > 0);  // the exact sum lies further from zero
    sum = __builtin_bit_cast(double, bits_of(sum) + (is_away ? 1 : std::uint64_t(-1)));
  }
  return static_cast<float>(sum);
}

/// round(a b + c) of binary32, rounded once. Narrowing makes zeros of subnormal results (flush_floats.py).
[[gnu::always_inline]] inline float fused(float a, float b, float c) noexcept {
  const double product = static_cast<double>(a) * static_cast<double>(b), wide = static_cast<double>(c);
  const double sum = product + wide;
  // Half way between two floats, where the sum's own rounding may have led. So is the number below which x86 takes a
  // result for tiny.
  if (__builtin_expect((bits_of(sum) & 0x1fffffffu) == 0x10000000u, 0)) return fused_of_odd(product, wide);
  return static_cast<float>(sum);
}

}  // namespace weft::web

namespace std {
#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 14000
template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}
#endif
#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 15000
/// Algorithms over whole ranges, of those that the rooms call.
namespace ranges {
template <class Range, class Predicate>
bool all_of(Range&& range, Predicate predicate) {
  return std::all_of(std::begin(range), std::end(range), std::ref(predicate));
}
template <class Range, class Predicate>
bool any_of(Range&& range, Predicate predicate) {
  return std::any_of(std::begin(range), std::end(range), std::ref(predicate));
}
template <class Range, class T>
auto find(Range&& range, const T& value) {
  return std::find(std::begin(range), std::end(range), value);
}
}  // namespace ranges
#endif

inline float weft_fma(float a, float b, float c) noexcept { return weft::web::fused(a, b, c); }
inline double weft_fma(double a, double b, double c) noexcept { return std::fma(a, b, c); }

#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 200000
/// The fewest digits that are read as the same number.
inline to_chars_result to_chars(char* first, char* last, double value) {
  char text[40];
  int size = 0;
  for (int digits = 1; digits <= 17; ++digits) {
    size = snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, nullptr) == value) break;
  }
  if (size > last - first) return {last, errc::value_too_large};
  memcpy(first, text, static_cast<size_t>(size));
  return {first + size, errc()};
}
inline to_chars_result to_chars(char* first, char* last, double value, chars_format, int precision) {
  const int size = snprintf(first, static_cast<size_t>(last - first), "%.*g", precision, value);
  return size < last - first ? to_chars_result{first + size, errc()} : to_chars_result{last, errc::value_too_large};
}
/// Numbers as strtod reads them; what it takes beyond from_chars (spaces, a plus, hexadecimal) is refused.
inline from_chars_result from_chars(const char* first, const char* last, double& value,
                                    chars_format = chars_format::general) {
  const char* digits = first;
  if (digits != last && *digits == '-') ++digits;
  if (digits == last || !((*digits >= '0' && *digits <= '9') || *digits == '.')) return {first, errc::invalid_argument};
  const string text(first, static_cast<size_t>(last - first));
  if (text.find_first_of("xX") != string::npos) return {first, errc::invalid_argument};
  char* end = nullptr;
  const double read = strtod(text.c_str(), &end);
  if (end == text.c_str()) return {first, errc::invalid_argument};
  if (std::isinf(read)) return {first + (end - text.c_str()), errc::result_out_of_range};
  value = read;
  return {first + (end - text.c_str()), errc()};
}
#endif
}  // namespace std
#define fma weft_fma
