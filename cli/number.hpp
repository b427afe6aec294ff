// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <CLI/CLI.hpp>

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace weft::cli {

/// Refuses what is not a plain decimal whole number from `least` to `most`: signs, hexadecimal, an exponent, overflow.
/// A leading zero is dropped, so that no reader takes it for octal. @return why not, or nothing
std::string check_whole(std::string& text, std::uint64_t least, std::uint64_t most);
/// Refuses what is not a finite decimal number from `least` to `most`. @return why not, or nothing
std::string check_real(std::string& text, double least, double most);

/// Of --threads.
inline constexpr std::uint64_t kMostThreads = 4096;

/// "0.001", "1e-09", "18446744073709551615".
std::string shown(double value);

namespace detail {
template <class T>
struct Number {
  using type = T;
};
template <class T>
struct Number<std::optional<T>> {
  using type = T;
};
}  // namespace detail

template <class T>
concept WholeNumber =
    std::unsigned_integral<typename detail::Number<T>::type> && !std::same_as<typename detail::Number<T>::type, bool>;
template <class T>
concept RealNumber = std::floating_point<typename detail::Number<T>::type>;

/// Only numbers from `least` to `most`, both written plainly; the message shows the value and the range.
CLI::Option* in_range(CLI::Option* option, std::uint64_t least, std::uint64_t most);
CLI::Option* in_range(CLI::Option* option, double least, double most);

/// The rule for every number of type T, before a range of its own.
template <class T>
void expect_plain_number(CLI::Option* option) {
  using Limits = std::numeric_limits<typename detail::Number<T>::type>;
  if constexpr (WholeNumber<T>)
    in_range(option, std::uint64_t{0}, std::uint64_t{Limits::max()});
  else if constexpr (RealNumber<T>)
    in_range(option, double{Limits::lowest()}, double{Limits::max()});
}

}  // namespace weft::cli
