// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
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

}  // namespace weft::cli
