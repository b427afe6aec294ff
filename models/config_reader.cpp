// SPDX-License-Identifier: Apache-2.0

#include "models/config_reader.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <cmath>

namespace weft::models {
namespace {
constexpr std::size_t kMostTold = 20;
}

Failure Problems::failure(Errc code, const std::string& object) const {
  std::string text = object + ": " + texts_.front();
  for (std::size_t i = 1; i < std::min(texts_.size(), kMostTold); ++i) text += "; " + texts_[i];
  if (texts_.size() > kMostTold) text += "; and " + std::to_string(texts_.size() - kMostTold) + " more";
  return fail(code, text);
}

const Json* ConfigReader::find(std::string_view key) const {
  asked_.emplace(key);
  const Json* const found = config_.is_object() ? config_.find(key) : nullptr;
  return found && !found->is_null() ? found : nullptr;
}

bool ConfigReader::has(std::string_view key) const { return find(key) != nullptr; }

bool ConfigReader::is_null(std::string_view key) const {
  asked_.emplace(key);
  const Json* const found = config_.is_object() ? config_.find(key) : nullptr;
  return found && found->is_null();
}

void ConfigReader::wrong(std::string_view key, const Json& found, std::string_view expected) {
  refuse(key, "found " + printable(found.dump(), 60) + ", expected " + std::string(expected));
}

std::size_t ConfigReader::size(std::string_view key, std::optional<std::size_t> fallback, std::size_t most,
                               std::size_t least) {
  const Json* const found = find(key);
  if (!found) {
    if (!fallback) refuse(key, "is not there");
    return fallback.value_or(1);
  }
  if (found->is_natural()) {
    const auto value = found->get<std::size_t>();
    if (value >= least && value <= most) return value;
  }
  wrong(key, *found, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return fallback.value_or(1);
}

double ConfigReader::number(std::string_view key, double fallback) {
  const Json* const found = find(key);
  if (!found) return fallback;
  if (found->is_number()) {
    const auto value = found->get<double>();
    if (std::isfinite(value) && value > 0) return value;
  }
  refuse_value(key, "found " + printable(found->dump(), 60) + ", expected a positive number");
  return fallback;
}

bool ConfigReader::flag(std::string_view key, bool fallback) {
  const Json* const found = find(key);
  if (!found) return fallback;
  if (found->is_bool()) return found->get<bool>();
  wrong(key, *found, "true or false");
  return fallback;
}

std::string ConfigReader::text(std::string_view key, std::string fallback) {
  const Json* const found = find(key);
  if (!found) return fallback;
  if (found->is_string()) return found->text();
  wrong(key, *found, "a text");
  return fallback;
}

std::vector<double> ConfigReader::numbers(std::string_view key) {
  std::vector<double> values;
  const Json* const found = find(key);
  if (!found) return values;
  const auto is_positive = [](const Json& each) {
    return each.is_number() && std::isfinite(each.get<double>()) && each.get<double>() > 0;
  };
  if (!found->is_array() || !std::all_of(found->begin(), found->end(), is_positive)) {
    wrong(key, *found, "a list of positive numbers");
    return values;
  }
  for (const Json& each : *found) values.push_back(each.get<double>());
  return values;
}

std::vector<std::string> ConfigReader::texts(std::string_view key) {
  std::vector<std::string> values;
  const Json* const found = find(key);
  if (!found) return values;
  if (!found->is_array() || !std::all_of(found->begin(), found->end(), [](const Json& e) { return e.is_string(); })) {
    wrong(key, *found, "a list of texts");
    return values;
  }
  for (const Json& each : *found) values.push_back(each.text());
  return values;
}

const Json* ConfigReader::object(std::string_view key) {
  const Json* const found = find(key);
  if (!found || found->is_object()) return found;
  wrong(key, *found, "an object");
  return nullptr;
}

void ConfigReader::take(const ConfigReader& other) {
  for (const std::string& text : other.problems().texts()) problems_.add(text);
  notes_.insert(notes_.end(), other.notes_.begin(), other.notes_.end());
  of_values_ += other.of_values_;
}

std::vector<std::string> ConfigReader::unread() const {
  std::vector<std::string> keys;
  if (!config_.is_object()) return keys;
  for (const auto& [key, value] : config_.members())
    if (!asked_.contains(key)) keys.push_back(key);
  return keys;
}

const Json* ConfigReader::find_unread(std::string_view key) const {
  if (!asked_.emplace(key).second || !config_.is_object()) return nullptr;
  const Json* const found = config_.find(key);
  return found && !found->is_null() ? found : nullptr;
}

void ConfigReader::refuse_given(std::string_view key, const std::string& why) {
  const Json* const found = find(key);
  if (!found || (found->is_bool() && !found->get<bool>()) || (found->is_number() && found->get<double>() == 0)) return;
  refuse(key, printable(found->dump(), 60) + ": " + why);
}

}  // namespace weft::models
