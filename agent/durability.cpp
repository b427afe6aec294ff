// SPDX-License-Identifier: Apache-2.0

#include "agent/durability.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>

namespace weft::agent {
namespace {

using std::chrono::nanoseconds;

struct Unit {
  std::string_view name;
  nanoseconds length;
};
constexpr std::array kUnits{Unit{"ms", std::chrono::milliseconds(1)}, Unit{"s", std::chrono::seconds(1)},
                            Unit{"min", std::chrono::minutes(1)}};
constexpr nanoseconds kShortest = std::chrono::milliseconds(1), kLongest = std::chrono::hours(1);

std::optional<nanoseconds> parse_length(std::string_view text) {
  std::uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const Unit& known : kUnits)
    if (unit == known.name && count <= kLongest / known.length) return count * known.length;
  return std::nullopt;
}

}  // namespace

Result<Durability> parse_durability(std::string_view text) {
  Durability durability;
  constexpr std::string_view kInterval = "interval";
  if (text == kInterval) return durability;
  if (text == "tick" || text == "checkpoint") {
    durability.mode = text == "tick" ? Durability::Mode::tick : Durability::Mode::checkpoint;
    return durability;
  }
  if (text.starts_with("interval=")) {
    const auto length = parse_length(text.substr(kInterval.size() + 1));
    if (length && *length >= kShortest && *length <= kLongest) {
      durability.interval = *length;
      return durability;
    }
  }
  return fail(Errc::invalid_argument, "'" + std::string(text) +
                                          "' is no durability; give tick, checkpoint, or interval=LENGTH with a length "
                                          "from 1ms to 60min, such as 500ms or 2s");
}

std::string to_string(const Durability& durability) {
  switch (durability.mode) {
    case Durability::Mode::tick:
      return "tick";
    case Durability::Mode::checkpoint:
      return "checkpoint";
    case Durability::Mode::interval:
      break;
  }
  for (std::size_t i = kUnits.size(); i-- > 0;)
    if (durability.interval % kUnits[i].length == nanoseconds(0))
      return "interval=" + std::to_string(durability.interval / kUnits[i].length) + std::string(kUnits[i].name);
  return "interval=" + std::to_string(durability.interval.count()) + "ns";
}

}  // namespace weft::agent
