// SPDX-License-Identifier: Apache-2.0

#include "mesh/network/layer_options.hpp"

#include "mesh/network/network.hpp"
#include "mesh/network/option_names.hpp"

#include "core/json_reader.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <vector>

namespace weft::mesh {
namespace {
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
}  // namespace

const OptionValue* OptionReader::take(std::string_view key) {
  read_.emplace(key, true);
  const auto found = options_.find(key);
  return found == options_.end() ? nullptr : &found->second;
}

Failure OptionReader::wrong_type(std::string_view key, const OptionValue& found, std::string_view expected) const {
  return fail(Errc::parse_failed, object_ + "." + std::string(key) + ": " + show(found) + " where " +
                                      std::string(expected) + " is expected");
}

Result<bool> OptionReader::boolean(std::string_view key, bool otherwise) {
  const OptionValue* value = take(key);
  if (!value) return otherwise;
  if (const bool* flag = std::get_if<bool>(value)) return *flag;
  return wrong_type(key, *value, "true or false");
}

Result<double> OptionReader::number(std::string_view key, double otherwise, double low, double high) {
  const OptionValue* value = take(key);
  if (!value) return otherwise;
  const double* number = std::get_if<double>(value);
  if (!number) return wrong_type(key, *value, "a number");
  if (!std::isfinite(*number) || *number < low || *number > high) {
    std::ostringstream out;
    out << object_ << "." << key << ": " << *number << " is outside [" << low << ", " << high << "]";
    return fail(Errc::out_of_range, out.str());
  }
  return *number;
}

Result<std::size_t> OptionReader::whole(const std::string& place, double number, std::size_t low,
                                        std::size_t high) const {
  std::ostringstream out;
  out << place << ": " << number;
  if (number != std::floor(number)) return fail(Errc::out_of_range, out.str() + " is not a whole number");
  if (!(number >= static_cast<double>(low) && number <= static_cast<double>(high))) {
    out << " is outside [" << low << ", " << high << "]";
    return fail(Errc::out_of_range, out.str());
  }
  return static_cast<std::size_t>(number);
}

Result<std::size_t> OptionReader::integer(std::string_view key, std::size_t otherwise, std::size_t low,
                                          std::size_t high) {
  const OptionValue* value = take(key);
  if (!value) return otherwise;
  const double* number = std::get_if<double>(value);
  if (!number) return wrong_type(key, *value, "a whole number");
  return whole(object_ + "." + std::string(key), *number, low, high);
}

Result<std::vector<std::size_t>> OptionReader::integers(std::string_view key, std::vector<std::size_t> otherwise,
                                                        std::size_t count, std::size_t low, std::size_t high) {
  const OptionValue* value = take(key);
  if (!value) return otherwise;
  const std::string place = object_ + "." + std::string(key);
  if (const double* number = std::get_if<double>(value)) {
    WEFT_TRY(const std::size_t all, whole(place, *number, low, high));
    return std::vector<std::size_t>(std::max<std::size_t>(count, 1), all);
  }
  const auto* list = std::get_if<std::vector<double>>(value);
  if (!list) return wrong_type(key, *value, "a whole number or a list of them");
  if (list->empty() || (count != 0 && list->size() != count))
    return fail(Errc::shape_mismatch, place + ": " + std::to_string(list->size()) + " numbers where " +
                                          (count ? std::to_string(count) + " are" : std::string("at least one is")) +
                                          " expected");
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < list->size(); ++i) {
    WEFT_TRY(const std::size_t number, whole(place + "[" + std::to_string(i) + "]", (*list)[i], low, high));
    numbers.push_back(number);
  }
  return numbers;
}

Result<std::vector<double>> OptionReader::numbers(std::string_view key) {
  const OptionValue* value = take(key);
  if (!value) return std::vector<double>();
  const auto* list = std::get_if<std::vector<double>>(value);
  if (!list) return wrong_type(key, *value, "a list of numbers");
  for (std::size_t i = 0; i < list->size(); ++i)
    if (!std::isfinite((*list)[i]))
      return fail(Errc::out_of_range,
                  object_ + "." + std::string(key) + "[" + std::to_string(i) + "]: not a finite number");
  return *list;
}

Result<std::string> OptionReader::text(std::string_view key, std::string_view otherwise) {
  const OptionValue* value = take(key);
  if (!value) return std::string(otherwise);
  if (const std::string* text = std::get_if<std::string>(value)) return *text;
  return wrong_type(key, *value, "a text");
}

const std::vector<LayerSpec>& OptionReader::layers() {
  static const std::vector<LayerSpec> none;
  has_read_layers_ = true;
  return layers_ ? *layers_ : none;
}

Status OptionReader::finish() const {
  if (layers_ && !layers_->empty() && !has_read_layers_)
    return fail(Errc::unknown_name, object_ + ".layers: only containers (sequential, parallel) hold layers");
  for (const auto& [key, value] : options_) {
    if (read_.contains(key)) continue;
    std::string known;
    std::vector<std::string_view> names;
    for (const auto& [name, was_read] : read_) {
      known += (known.empty() ? "" : ", ") + name;
      names.push_back(name);
    }
    const auto near = meant_option(key, names);
    return fail(Errc::unknown_name, object_ + "." + key + ": this layer type has no such option; it has " +
                                        (known.empty() ? std::string("none") : known) +
                                        (near ? "; did you mean '" + std::string(*near) + "'?" : std::string()));
  }
  return {};
}

}  // namespace weft::mesh
