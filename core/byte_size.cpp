// SPDX-License-Identifier: Apache-2.0

#include "core/byte_size.hpp"

#include <charconv>
#include <cstdio>

namespace weft {

std::string byte_size(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {" KiB", " MiB", " GiB", " TiB"}) {
    value /= 1024;
    unit = next;
    if (value < 1024) break;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return std::string(text) + unit;
}

Result<std::uint64_t> parse_byte_size(std::string_view text) {
  const auto refused = [&] {
    return fail(Errc::invalid_argument,
                "'" + std::string(text) + "' is no size; expected a number above 0 and a unit, such as 512M or 1.5GiB");
  };
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || text.front() == '-') return refused();
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  constexpr std::string_view kUnits = "BKMGT";
  if (!unit.empty()) {
    const auto power = kUnits.find(unit.front());
    if (power == std::string_view::npos) return refused();
    unit.remove_prefix(1);
    if (!unit.empty() && (power == 0 || unit != "iB")) return refused();
    for (std::size_t i = 0; i < power; ++i) value *= 1024;
  }
  if (!(value >= 1) || !(value < 0x1p63)) return refused();
  return static_cast<std::uint64_t>(value);
}

}  // namespace weft
