// SPDX-License-Identifier: Apache-2.0

#include "core/json_reader.hpp"

#include "core/near_word.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace weft {
namespace {

template <class T>
std::string spell(T value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

std::string describe(const Json& value) {
  if (value.is_string()) return in_quotes(value.text());
  if (value.is_array()) return "an array of " + std::to_string(value.size());
  if (value.is_object()) return "an object";
  if (value.is_real()) {
    const std::string text = spell(value.get<double>());
    return text.find_first_not_of("-0123456789") == text.npos ? text + ".0" : text;  // no whole number was written
  }
  if (value.is_natural()) return spell(value.get<std::uint64_t>());
  if (value.is_integer()) return spell(value.get<std::int64_t>());
  if (value.is_bool()) return value.get<bool>() ? "true" : "false";
  return "null";
}

bool is_plain_key(std::string_view key) {
  return !key.empty() && key.size() <= 64 && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

std::string join(const std::string& path, std::string_view key) {
  if (!is_plain_key(key)) return path + "[" + in_quotes(key) + "]";
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

std::string shown(const std::string& path) { return path.empty() ? "top level" : path; }

template <class T>
std::string range(std::string_view kind, T min, T max, T lowest, T highest) {
  std::string text(kind);
  if (min != lowest && max != highest) return text + " from " + spell(min) + " to " + spell(max);
  if (max != highest) return text + " up to " + spell(max);
  return min == lowest ? text : text + " of at least " + spell(min);
}

template <class T>
Result<T> whole(const JsonValue& value, T min, T max) {
  const std::string expected = range<T>("a whole number", min, max, T(-1), std::numeric_limits<T>::max());
  const Json& raw = value.raw();
  if (!raw.is_integer()) return value.unexpected(expected);
  if (!raw.is_natural() && raw.get<std::int64_t>() < 0) return value.unexpected(expected, Errc::out_of_range);
  const auto number = raw.get<std::uint64_t>();
  if (number > max && max == std::numeric_limits<T>::max())  // not in `expected`
    return value.unexpected("a whole number from " + spell(min) + " to " + spell(max), Errc::out_of_range);
  if (number < min || number > max) return value.unexpected(expected, Errc::out_of_range);
  return static_cast<T>(number);
}

template <class T>
Result<T> real(const JsonValue& value, T min, T max) {
  constexpr T kLargest = std::numeric_limits<T>::max();
  const std::string expected = range<T>("a finite number", min, max, -kLargest, kLargest);
  const Json& raw = value.raw();
  if (!raw.is_number()) return value.unexpected(expected);
  const double wide = raw.get<double>();
  if (!std::isfinite(wide) || std::fabs(wide) > double{kLargest}) return value.unexpected(expected, Errc::out_of_range);
  const T number = static_cast<T>(wide);
  if (!(number >= min && number <= max)) return value.unexpected(expected, Errc::out_of_range);
  return number;
}

}  // namespace

std::optional<std::string_view> nearest_name(std::string_view text, const std::vector<std::string_view>& names) {
  return nearest_word(text, names);
}

bool JsonValue::is_null() const noexcept { return value_->is_null(); }
bool JsonValue::is_bool() const noexcept { return value_->is_bool(); }
bool JsonValue::is_number() const noexcept { return value_->is_number(); }
bool JsonValue::is_string() const noexcept { return value_->is_string(); }
bool JsonValue::is_array() const noexcept { return value_->is_array(); }
bool JsonValue::is_object() const noexcept { return value_->is_object(); }

Failure JsonValue::unexpected(std::string_view expected, Errc code, const char* file, int line) const {
  return fail(code, shown(path_) + ": found " + describe(*value_) + ", expected " + std::string(expected), file, line);
}

Failure JsonValue::unknown(std::string_view text, const std::vector<std::string_view>& names) const {
  std::string expected = "one of ";
  for (std::size_t i = 0; i < names.size(); ++i) expected.append(i ? ", " : "").append(names[i]);
  if (const auto near = nearest_name(text, names)) expected.append("; did you mean '").append(*near).append("'?");
  return unexpected(expected, Errc::unknown_name);
}

Result<std::uint32_t> JsonValue::u32(std::uint32_t min, std::uint32_t max) const { return whole(*this, min, max); }
Result<std::uint64_t> JsonValue::u64(std::uint64_t min, std::uint64_t max) const { return whole(*this, min, max); }
Result<float> JsonValue::f32(float min, float max) const { return real(*this, min, max); }
Result<double> JsonValue::f64(double min, double max) const { return real(*this, min, max); }

Result<bool> JsonValue::boolean() const {
  if (!value_->is_bool()) return unexpected("true or false");
  return value_->get<bool>();
}

Result<std::string> JsonValue::string(std::size_t max_size) const {
  if (!value_->is_string()) return unexpected("a string");
  const auto& text = value_->text();
  if (text.size() > max_size)
    return unexpected("a string of at most " + std::to_string(max_size) + " bytes", Errc::out_of_range);
  return text;
}

Result<std::vector<JsonValue>> JsonValue::array(std::size_t min_size, std::size_t max_size) const {
  std::string expected = "an array of " + std::to_string(min_size);
  if (min_size != max_size && max_size != SIZE_MAX) expected += " to " + std::to_string(max_size);
  if (min_size != max_size && max_size == SIZE_MAX) expected.insert(std::strlen("an array of "), "at least ");
  if (!value_->is_array()) return unexpected(min_size == 0 && max_size == SIZE_MAX ? "an array" : expected);
  if (value_->size() < min_size || value_->size() > max_size) return unexpected(expected, Errc::out_of_range);
  std::vector<JsonValue> elements;
  elements.reserve(value_->size());
  for (const Json& element : *value_)
    elements.emplace_back(element, path_ + "[" + std::to_string(elements.size()) + "]");
  return elements;
}

Result<JsonReader> JsonValue::object() const { return JsonReader::open(*value_, path_); }

Result<JsonReader> JsonReader::open(const Json& value, std::string path) {
  if (!value.is_object()) return JsonValue(value, std::move(path)).unexpected("an object");
  return JsonReader(value, std::move(path));
}

std::string JsonReader::path_of(std::string_view key) const { return join(path_, key); }

std::vector<std::string> JsonReader::keys() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : value_->members()) names.push_back(key);
  return names;
}

std::optional<JsonValue> JsonReader::find(std::string_view key) {
  // Sorted, since an object may have many keys; asked for in their own order they go to the end.
  if (const auto place = std::lower_bound(known_.begin(), known_.end(), key); place == known_.end() || *place != key)
    known_.emplace(place, key);
  const Json* const found = value_->find(key);
  if (!found) return std::nullopt;
  return JsonValue(*found, path_of(key));
}

Result<JsonValue> JsonReader::value(std::string_view key) {
  if (auto found = find(key)) return *found;
  // A slip of the hand is both: this key is missing, and a key that nobody asks for is there.
  std::vector<std::string_view> strays;
  for (const auto& [name, member] : value_->members())
    if (!std::binary_search(known_.begin(), known_.end(), name)) strays.push_back(name);
  const auto near = nearest_word(key, strays);
  return fail(Errc::not_found, shown(path_) + ": key " + in_quotes(key) + " is missing" +
                                   (near ? "; there is " + in_quotes(*near) : std::string()));
}

Result<std::uint32_t> JsonReader::u32(std::string_view key, std::uint32_t min, std::uint32_t max) {
  WEFT_TRY(const JsonValue found, value(key));
  return found.u32(min, max);
}
Result<std::uint64_t> JsonReader::u64(std::string_view key, std::uint64_t min, std::uint64_t max) {
  WEFT_TRY(const JsonValue found, value(key));
  return found.u64(min, max);
}
Result<float> JsonReader::f32(std::string_view key, float min, float max) {
  WEFT_TRY(const JsonValue found, value(key));
  return found.f32(min, max);
}
Result<double> JsonReader::f64(std::string_view key, double min, double max) {
  WEFT_TRY(const JsonValue found, value(key));
  return found.f64(min, max);
}
Result<bool> JsonReader::boolean(std::string_view key) {
  WEFT_TRY(const JsonValue found, value(key));
  return found.boolean();
}
Result<std::string> JsonReader::string(std::string_view key, std::size_t max_size) {
  WEFT_TRY(const JsonValue found, value(key));
  return found.string(max_size);
}
Result<std::vector<JsonValue>> JsonReader::array(std::string_view key, std::size_t min_size, std::size_t max_size) {
  WEFT_TRY(const JsonValue found, value(key));
  return found.array(min_size, max_size);
}
Result<JsonReader> JsonReader::object(std::string_view key) {
  WEFT_TRY(const JsonValue found, value(key));
  return found.object();
}

Result<std::uint32_t> JsonReader::u32_or(std::string_view key, std::uint32_t fallback, std::uint32_t min,
                                         std::uint32_t max) {
  if (auto found = find(key)) return found->u32(min, max);
  return fallback;
}
Result<std::uint64_t> JsonReader::u64_or(std::string_view key, std::uint64_t fallback, std::uint64_t min,
                                         std::uint64_t max) {
  if (auto found = find(key)) return found->u64(min, max);
  return fallback;
}
Result<float> JsonReader::f32_or(std::string_view key, float fallback, float min, float max) {
  if (auto found = find(key)) return found->f32(min, max);
  return fallback;
}
Result<double> JsonReader::f64_or(std::string_view key, double fallback, double min, double max) {
  if (auto found = find(key)) return found->f64(min, max);
  return fallback;
}
Result<bool> JsonReader::boolean_or(std::string_view key, bool fallback) {
  if (auto found = find(key)) return found->boolean();
  return fallback;
}
Result<std::string> JsonReader::string_or(std::string_view key, std::string fallback, std::size_t max_size) {
  if (auto found = find(key)) return found->string(max_size);
  return fallback;
}

Status JsonReader::finish() const {
  for (const auto& [key, value] : value_->members()) {
    if (std::binary_search(known_.begin(), known_.end(), key)) continue;
    std::string text = path_of(key) + ": unknown key";
    if (const auto near = nearest_name(key, {known_.begin(), known_.end()}))
      text.append("; did you mean '").append(*near).append("'?");
    return fail(Errc::unknown_name, std::move(text));
  }
  return {};
}

}  // namespace weft
