// SPDX-License-Identifier: Apache-2.0

#include "cli/adaptation_report.hpp"

#include "cli/text_format.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>

namespace weft::cli {
namespace {

using learning::Adaptation;

std::optional<double> number(const std::optional<std::uint64_t>& value) {
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

struct Figure {
  std::string_view key;
  std::optional<double> (*of)(const Adaptation&);
};
constexpr std::array<Figure, 5> kFigures{{
    {"dip", [](const Adaptation& change) { return std::optional(change.before - change.trough); }},
    {"area", [](const Adaptation& change) { return std::optional(change.area); }},
    {"samples_to_95", [](const Adaptation& change) { return number(change.to_95); }},
    {"samples_to_99", [](const Adaptation& change) { return number(change.to_99); }},
    {"detection_delay", [](const Adaptation& change) { return number(change.delay); }},
}};

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
Json spread_json(const std::optional<learning::Spread>& spread) {
  return spread ? Json{{"mean", spread->mean}, {"sd", spread->deviation}} : Json();
}

}  // namespace

Json adaptation_json(const learning::AdaptationTracker& tracker, const Deadline& deadline) {
  if (tracker.changes().empty()) return nullptr;
  Json changes = Json::array();
  for (const Adaptation& change : tracker.changes())
    changes.push_back({{"at", change.at},
                       {"declared", change.is_declared},
                       {"before", change.before},
                       {"trough", change.trough},
                       {"area", change.area},
                       {"samples_to_95", or_null(change.to_95)},
                       {"samples_to_99", or_null(change.to_99)},
                       {"detection_delay", or_null(change.delay)},
                       {"availability", deadline.answers ? or_null(deadline.answers->of(change.at)) : Json()}});
  Json out{{"changes", std::move(changes)}};
  for (const Figure& figure : kFigures) out[std::string(figure.key)] = spread_json(tracker.spread_of(figure.of));
  out["availability"] = deadline.answers ? spread_json(deadline.answers->spread()) : Json();
  out["deadline"] = deadline.answers ? Json(deadline.seconds) : Json();
  return out;
}

std::optional<std::string> adaptation_text(const learning::AdaptationTracker& tracker, const Deadline& deadline) {
  if (tracker.changes().empty()) return std::nullopt;
  const auto mean = [&](std::size_t figure) { return tracker.spread_of(kFigures[figure].of); };
  const auto whole = [](double value) {
    return grouped(static_cast<std::uint64_t>(std::llround(std::max(value, 0.0))));
  };
  const std::size_t count = tracker.changes().size();
  std::string text = grouped(count) + (count == 1 ? " change; fell by " : " changes, in the mean: fell by ") +
                     percent(mean(0)->mean) + ", " + whole(mean(1)->mean) + " hits lost";
  if (const auto back = mean(2)) text += ", back at 95 % after " + whole(back->mean);
  if (const auto back = mean(3)) text += ", at 99 % after " + whole(back->mean);
  if (const auto delay = mean(4)) text += ", seen after " + whole(delay->mean);
  if (!deadline.answers) return text + "; answers have no deadline without --rate";
  if (const auto met = deadline.answers->spread()) text += ", " + percent(met->mean) + " of answers in time";
  return text;
}

}  // namespace weft::cli
