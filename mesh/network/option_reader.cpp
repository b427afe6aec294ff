// SPDX-License-Identifier: Apache-2.0

#include "mesh/network/option_reader.hpp"

#include "mesh/network/network.hpp"
#include "mesh/network/option_names.hpp"

#include "core/near_word.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <sstream>

namespace weft::mesh {
namespace {

/// "at least one is", "at least 4 are": the fewest numbers that a list may have.
std::string least_text(const OptionRow& row) {
  return row.fewest <= 1 ? "at least one is" : "at least " + std::to_string(row.fewest) + " are";
}

/// ", such as "out": 64" for a whole number; what there is to choose from for a choice.
std::string example_of(const OptionRow& row) {
  const std::string key = "\"" + std::string(row.key) + "\": ";
  if (row.kind == OptionKind::whole) {
    const double usual = std::clamp(64.0, std::max(row.low, 1.0), std::max(row.high, 1.0));
    return ", such as " + key + std::to_string(static_cast<std::uint64_t>(usual));
  }
  if (row.kind == OptionKind::choice && !row.names.empty())
    return ", such as " + key + "\"" + std::string(row.names[0]) + "\"";
  return {};
}

std::string show(const OptionValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const std::string* text = std::get_if<std::string>(&value)) return "\"" + *text + "\"";
  std::ostringstream out;
  if (const auto* list = std::get_if<std::vector<double>>(&value)) {
    out << "[";
    for (std::size_t i = 0; i < list->size(); ++i) out << (i ? ", " : "") << (*list)[i];
    out << "]";
  } else {
    out << std::get<double>(value);
  }
  return out.str();
}

std::string joined(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) text.append(text.empty() ? "" : ", ").append(name);
  return text;
}

/// The default of a choice, without its quotes.
std::string_view default_name(const OptionRow& row) {
  const std::string_view json = row.fallback;
  return json.size() >= 2 && json.front() == '"' ? json.substr(1, json.size() - 2) : std::string_view();
}

/// Keys that the network file reads for every layer: `out` and `layers`.
bool is_own_key(const OptionRow& row) { return row.key == "out" || row.kind == OptionKind::layers; }

/// Whole bounds in full, others as streams write them.
std::string bound_text(double bound) {
  std::ostringstream out;
  if (bound == std::floor(bound) && std::fabs(bound) < 1e15)
    out << static_cast<long long>(bound);
  else
    out << bound;
  return out.str();
}

Failure out_of_bounds(const std::string& place, double number, double low, double high) {
  std::ostringstream out;
  out << place << ": " << number << " is outside [" << bound_text(low) << ", " << bound_text(high) << "]";
  return fail(Errc::out_of_range, out.str());
}

}  // namespace

const OptionRow* OptionReader::row_of(std::string_view key) const noexcept {
  const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const OptionRow& row) { return row.key == key; });
  return found == rows_.end() ? nullptr : &*found;
}

bool OptionReader::counts(const OptionRow& row, bool if_unclear) const {
  if (row.only_with.empty()) return true;
  const auto [key, values] = parse_condition(row.only_with);
  const OptionRow* const by = row_of(key);
  if (!by || !counts(*by, if_unclear)) return false;
  const auto given = options_.find(key);
  std::string_view name = default_name(*by);
  if (given != options_.end()) {
    const std::string* const text = std::get_if<std::string>(&given->second);
    if (!text || std::find(by->names.begin(), by->names.end(), *text) == by->names.end()) return if_unclear;
    name = *text;
  }
  return std::find(values.begin(), values.end(), name) != values.end();
}

std::string OptionReader::unknown_options() const {
  const auto is_known = [&](const std::string& key) {
    const OptionRow* const row = row_of(key);
    return row && !is_own_key(*row) && counts(*row, true);
  };
  if (std::all_of(options_.begin(), options_.end(), [&](const auto& given) { return is_known(given.first); }))
    return {};
  std::string unknown;
  std::vector<std::string_view> known{"out"}, own;
  for (const OptionRow& row : rows_) {
    if (is_own_key(row) || !counts(row, true)) continue;
    known.push_back(row.key);
    own.push_back(row.key);
  }
  for (const auto& [key, value] : options_) {
    if (is_known(key)) continue;
    const OptionRow* const row = row_of(key);
    unknown += (unknown.empty() ? "" : "; ") + object_ + "." + key + ": this layer type has no such option";
    if (row && !is_own_key(*row)) {
      const OptionCondition condition = parse_condition(row->only_with);
      unknown += " unless " + std::string(condition.key) + " is one of: " + joined(condition.values);
    } else {
      const auto meant = meant_option(key, known);
      if (meant) unknown += "; did you mean '" + std::string(*meant) + "'?";
    }
  }
  std::sort(own.begin(), own.end());
  return unknown + "; it has " + (own.empty() ? "none" : joined(own));
}

Status OptionReader::check_names(std::size_t out) const {
  const std::string unknown = unknown_options();
  std::string problems = unknown;
  for (const OptionRow& row : rows_) {
    const bool is_given = row.key == "out"                 ? out != 0
                          : row.kind == OptionKind::layers ? layers_ && !layers_->empty()
                                                           : options_.contains(row.key);
    if (!row.is_needed || is_given || !counts(row, false)) continue;
    problems += (problems.empty() ? "" : "; ") + object_ + "." + std::string(row.key) + ": needed and not given (" +
                std::string(row.meaning) + ")" + example_of(row);
  }
  if (problems.empty()) return {};
  return fail(unknown.empty() ? Errc::parse_failed : Errc::unknown_name, problems);
}

Result<OptionReader::Found> OptionReader::take(std::string_view key) {
  const OptionRow* const row = row_of(key);
  if (!row || !counts(*row, true)) return undeclared(key, "reads without declaring it");
  read_.emplace(key, true);
  const auto found = options_.find(key);
  return Found{row, found == options_.end() ? nullptr : &found->second};
}

Failure OptionReader::undeclared(std::string_view key, std::string_view what) const {
  return fail(Errc::internal, object_ + "." + std::string(key) + ": an option that the layer type " +
                                  std::string(what) + "; see mesh/network/option.hpp");
}

Failure OptionReader::wrong_type(std::string_view key, const OptionValue& found, std::string_view expected) const {
  return fail(Errc::parse_failed, object_ + "." + std::string(key) + ": " + show(found) + " where " +
                                      std::string(expected) + " is expected");
}

Result<std::string> OptionReader::default_of(const OptionRow& row) const {
  if (row.fallback.empty()) return undeclared(row.key, "does not say what it is when it is not given");
  return row.fallback;
}

Result<bool> OptionReader::boolean(std::string_view key, std::optional<bool> otherwise) {
  WEFT_TRY(const Found found, take(key));
  if (!found.value) {
    if (otherwise) return *otherwise;
    WEFT_TRY(const std::string fallback, default_of(*found.row));
    return fallback == "true";
  }
  if (const bool* flag = std::get_if<bool>(found.value)) return *flag;
  return wrong_type(key, *found.value, "true or false");
}

Result<double> OptionReader::number(std::string_view key, std::optional<double> otherwise) {
  WEFT_TRY(const Found found, take(key));
  if (!found.value) {
    if (otherwise) return *otherwise;
    WEFT_TRY(const std::string fallback, default_of(*found.row));
    return std::strtod(fallback.c_str(), nullptr);
  }
  const double* number = std::get_if<double>(found.value);
  if (!number) return wrong_type(key, *found.value, "a number");
  if (!std::isfinite(*number) || *number < found.row->low || *number > found.row->high)
    return out_of_bounds(object_ + "." + std::string(key), *number, found.row->low, found.row->high);
  return *number;
}

Result<std::size_t> OptionReader::whole(const OptionRow& row, const std::string& place, double number) const {
  if (number != std::floor(number)) {
    std::ostringstream out;
    out << place << ": " << number << " is not a whole number";
    return fail(Errc::out_of_range, out.str());
  }
  if (!(number >= row.low && number <= row.high)) return out_of_bounds(place, number, row.low, row.high);
  return static_cast<std::size_t>(number);
}

Result<std::size_t> OptionReader::integer(std::string_view key, std::optional<std::size_t> otherwise) {
  WEFT_TRY(const Found found, take(key));
  if (!found.value) {
    if (otherwise) return *otherwise;
    WEFT_TRY(const std::string fallback, default_of(*found.row));
    return static_cast<std::size_t>(std::strtod(fallback.c_str(), nullptr));
  }
  const double* number = std::get_if<double>(found.value);
  if (!number) return wrong_type(key, *found.value, "a whole number");
  return whole(*found.row, object_ + "." + std::string(key), *number);
}

Result<std::vector<std::size_t>> OptionReader::integers(std::string_view key, std::size_t count,
                                                        std::optional<std::vector<std::size_t>> otherwise) {
  WEFT_TRY(const Found found, take(key));
  if (!found.value) {
    if (otherwise) return *std::move(otherwise);
    WEFT_TRY(const std::string fallback, default_of(*found.row));
    return std::vector<std::size_t>{static_cast<std::size_t>(std::strtod(fallback.c_str(), nullptr))};
  }
  const std::string place = object_ + "." + std::string(key);
  if (const double* number = std::get_if<double>(found.value); number && found.row->is_one_for_all) {
    WEFT_TRY(const std::size_t all, whole(*found.row, place, *number));
    return std::vector<std::size_t>(std::max<std::size_t>(count, 1), all);
  }
  const auto* list = std::get_if<std::vector<double>>(found.value);
  if (!list)
    return wrong_type(key, *found.value,
                      found.row->is_one_for_all ? "a whole number or a list of them" : "a list of whole numbers");
  if (list->size() < std::max<std::size_t>(found.row->fewest, 1) || list->size() > found.row->most ||
      (count != 0 && list->size() != count))
    return fail(Errc::shape_mismatch, place + ": " + std::to_string(list->size()) + " numbers where " +
                                          (count ? std::to_string(count) + " are" : least_text(*found.row)) +
                                          " expected");
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < list->size(); ++i) {
    WEFT_TRY(const std::size_t number, whole(*found.row, place + "[" + std::to_string(i) + "]", (*list)[i]));
    numbers.push_back(number);
  }
  return numbers;
}

Result<std::vector<double>> OptionReader::numbers(std::string_view key) {
  WEFT_TRY(const Found found, take(key));
  if (!found.value) return std::vector<double>();
  const auto* list = std::get_if<std::vector<double>>(found.value);
  if (!list) return wrong_type(key, *found.value, "a list of numbers");
  for (std::size_t i = 0; i < list->size(); ++i)
    if (!std::isfinite((*list)[i]))
      return fail(Errc::out_of_range,
                  object_ + "." + std::string(key) + "[" + std::to_string(i) + "]: not a finite number");
  return *list;
}

Result<std::string> OptionReader::text(std::string_view key) {
  WEFT_TRY(const Found found, take(key));
  if (!found.value) {
    WEFT_CHECK(default_of(*found.row));
    return std::string(default_name(*found.row));
  }
  const std::string* const text = std::get_if<std::string>(found.value);
  if (!text) return wrong_type(key, *found.value, "a text");
  const auto& names = found.row->names;
  if (std::find(names.begin(), names.end(), *text) != names.end()) return *text;
  return fail(Errc::unknown_name, object_ + "." + std::string(key) + ": no " + std::string(key) + " '" + *text +
                                      "'; known are " + joined(names) + did_you_mean(*text, names));
}

const std::vector<LayerSpec>& OptionReader::layers() {
  static const std::vector<LayerSpec> none;
  has_read_layers_ = true;
  return layers_ ? *layers_ : none;
}

Status OptionReader::finish() const {
  if (layers_ && !layers_->empty() && !has_read_layers_)
    return fail(Errc::unknown_name, object_ + ".layers: only containers (sequential, parallel) hold layers");
  for (const auto& [key, value] : options_)
    if (!read_.contains(key)) return undeclared(key, "declares and does not read");
  return {};
}

}  // namespace weft::mesh
