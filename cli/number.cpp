// SPDX-License-Identifier: Apache-2.0

#include "cli/number.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace weft::cli {
namespace {

std::string range(const std::string& kind, const std::string& least, const std::string& most) {
  return "expected " + kind + " from " + least + " to " + most;
}

}  // namespace

std::string shown(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string check_whole(std::string& text, std::uint64_t least, std::uint64_t most) {
  const std::string wanted = range("a whole number", std::to_string(least), std::to_string(most));
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec == std::errc::result_out_of_range && read.ptr == end) return "'" + text + "' is too large; " + wanted;
  if (read.ec != std::errc() || read.ptr != end) return "'" + text + "' is not a whole number; " + wanted;
  if (value < least || value > most) return "'" + text + "' is out of range; " + wanted;
  text = std::to_string(value);
  return {};
}

std::string check_real(std::string& text, double least, double most) {
  const bool is_bounded = most < std::numeric_limits<float>::max();
  const std::string wanted = is_bounded ? range("a number", shown(least), shown(most)) : "expected a finite number";
  const char* const begin = text.data() + (text.starts_with('+') && !text.starts_with("+-") ? 1 : 0);
  const char* const end = text.data() + text.size();
  double value = 0;
  const auto read = std::from_chars(begin, end, value);
  if (read.ec == std::errc::result_out_of_range && read.ptr == end)
    return "'" + text + "' is beyond what a number holds; " + wanted;
  if (read.ec != std::errc() || read.ptr != end) return "'" + text + "' is not a number; " + wanted;
  if (!std::isfinite(value)) return "'" + text + "' is not finite; " + wanted;
  if (value < least || value > most) return "'" + text + "' is out of range; " + wanted;
  text = shown(value == 0 ? 0.0 : value);
  return {};
}

}  // namespace weft::cli
