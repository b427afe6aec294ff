// SPDX-License-Identifier: Apache-2.0

#include "learning/drift/adaptation.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::learning {

void AdaptationTracker::begin(std::uint64_t at, bool is_declared, double accuracy) {
  if (changes_.size() == kMost) changes_.erase(changes_.begin());
  Adaptation change;
  change.at = at;
  change.is_declared = is_declared;
  change.before = accuracy;
  change.trough = accuracy;
  changes_.push_back(change);
}

void AdaptationTracker::declare(double accuracy) { begin(scores_, true, accuracy); }

void AdaptationTracker::detect(double accuracy) {
  if (changes_.empty() || changes_.back().to_99) return begin(scores_, false, accuracy);
  Adaptation& last = changes_.back();
  if (last.is_declared && !last.delay) last.delay = scores_ - last.at;
}

void AdaptationTracker::add(bool hit, double accuracy) {
  ++scores_;
  if (changes_.empty()) return;
  Adaptation& last = changes_.back();
  last.trough = std::min(last.trough, accuracy);
  if (last.to_99) return;
  last.area += last.before - (hit ? 1.0 : 0.0);
  const std::uint64_t since = scores_ - last.at;
  if (since < window_) return;
  if (!last.to_95 && accuracy >= 0.95 * last.before) last.to_95 = since;
  if (accuracy >= 0.99 * last.before) last.to_99 = since;
}

std::optional<Spread> spread_of_values(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const auto count = static_cast<double>(values.size());
  const double mean = sum / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return Spread{mean, values.size() > 1 ? std::sqrt(squares / (count - 1)) : 0.0};
}

std::optional<Spread> AdaptationTracker::spread_of(std::optional<double> (*number)(const Adaptation&)) const {
  std::vector<double> values;
  for (const Adaptation& change : changes_)
    if (const auto value = number(change)) values.push_back(*value);
  return spread_of_values(values);
}

Json AdaptationTracker::save() const {
  Json all = Json::array();
  for (const Adaptation& change : changes_) {
    Json one{{"at", change.at},
             {"declared", change.is_declared},
             {"before", change.before},
             {"trough", change.trough},
             {"area", change.area}};
    for (const auto& [key, value] :
         {std::pair("to_95", change.to_95), {"to_99", change.to_99}, {"delay", change.delay}})
      if (value) one[key] = *value;
    all.push_back(std::move(one));
  }
  return {{"scores", scores_}, {"changes", std::move(all)}};
}

Status AdaptationTracker::load(const JsonValue& value) {
  WEFT_TRY(JsonReader reader, value.object());
  WEFT_TRY(const std::uint64_t scores, reader.u64("scores"));
  WEFT_TRY(const auto list, reader.array("changes", 0, kMost));
  std::vector<Adaptation> changes;
  for (const JsonValue& each : list) {
    WEFT_TRY(JsonReader one, each.object());
    Adaptation change;
    WEFT_TRY(change.at, one.u64("at", 0, scores));
    WEFT_TRY(change.is_declared, one.boolean("declared"));
    WEFT_TRY(change.before, one.f64("before", 0.0, 1.0));
    WEFT_TRY(change.trough, one.f64("trough", 0.0, 1.0));
    WEFT_TRY(change.area, one.f64("area"));
    for (const auto& [key, to] :
         {std::pair("to_95", &change.to_95), {"to_99", &change.to_99}, {"delay", &change.delay}})
      if (const auto found = one.find(key)) {
        WEFT_TRY(*to, found->u64(0, scores));
      }
    WEFT_CHECK(one.finish());
    changes.push_back(change);
  }
  WEFT_CHECK(reader.finish());
  scores_ = scores;
  changes_ = std::move(changes);
  return {};
}

}  // namespace weft::learning
