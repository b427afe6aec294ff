// SPDX-License-Identifier: Apache-2.0

#include "bridge/fields.hpp"

#include "core/printable.hpp"

#include <cfloat>
#include <cmath>
#include <optional>
#include <utility>

namespace weft::bridge {
namespace {

constexpr std::size_t kMostNumbers = std::size_t{1} << 31;

std::string shown_value(const Json& value) {
  if (value.is_array()) return "a list of " + std::to_string(value.size());
  if (value.is_object()) return "an object";
  return printable(value.dump());
}

/// A whole number that is not negative, also written with a fraction of zero.
std::optional<std::size_t> whole_of(const Json& value) {
  if (value.is_natural()) return value.get<std::size_t>();
  if (value.is_integer()) {
    const auto number = value.get<std::int64_t>();
    return number >= 0 ? std::optional<std::size_t>(static_cast<std::size_t>(number)) : std::nullopt;
  }
  if (!value.is_real()) return std::nullopt;
  const double number = value.get<double>();
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (!(number >= 0 && number <= kExact) || number != std::floor(number)) return std::nullopt;
  return static_cast<std::size_t>(number);
}

}  // namespace

std::string spelled(const Shape& shape) {
  std::string text;
  for (const std::size_t extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

Failure Fields::failure(Errc code, const std::string& text, const char* file, int line) const {
  return fail(code, (object_.empty() ? "" : object_ + ": ") + text, file, line);
}

const Json* Fields::find(std::string_view key) const noexcept {
  const Json* const found = json_->find(key);
  return found && !found->is_null() ? found : nullptr;
}

Result<std::string> Fields::text(std::string_view key, std::string fallback) const {
  const Json* const found = find(key);
  if (!found) return fallback;
  if (found->is_string()) return found->text();
  return failure(Errc::parse_failed, std::string(key) + " is " + shown_value(*found) + ", expected a string");
}

Result<bool> Fields::flag(std::string_view key) const {
  const Json* const found = find(key);
  if (!found) return false;
  if (found->is_bool()) return found->get<bool>();
  return failure(Errc::parse_failed, std::string(key) + " is " + shown_value(*found) + ", expected true or false");
}

Result<std::size_t> Fields::whole(std::string_view key, std::size_t fallback, std::size_t most) const {
  const Json* const found = find(key);
  if (!found) return fallback;
  const auto number = whole_of(*found);
  if (number && *number <= most) return *number;
  return failure(
      found->is_number() ? Errc::out_of_range : Errc::parse_failed,
      std::string(key) + " is " + shown_value(*found) + ", expected a whole number from 0 to " + std::to_string(most));
}

Result<std::size_t> Fields::extent(std::string_view key, std::size_t most) const {
  const Json* const found = find(key);
  const auto number = found ? whole_of(*found) : std::nullopt;
  if (number && *number >= 1 && *number <= most) return *number;
  return failure(!found || found->is_number() ? Errc::out_of_range : Errc::parse_failed,
                 std::string(key) + (found ? " is " + shown_value(*found) : " is missing") +
                     ", expected a whole number from 1 to " + std::to_string(most));
}

Result<std::vector<float>> Fields::numbers(std::string_view key, const Shape& shape) const {
  const std::string field(key);
  std::size_t count = 1;
  for (const std::size_t extent : shape) {
    if (extent != 0 && count > kMostNumbers / extent)
      return failure(Errc::too_large,
                     field + ": " + spelled(shape) + " numbers are more than " + std::to_string(kMostNumbers));
    count *= extent;
  }
  const Json* const found = find(key);
  const std::string expected = (shape.size() > 1 ? spelled(shape) + " = " : "") + std::to_string(count);
  if (found && !found->is_array())
    return failure(Errc::parse_failed, field + " is " + shown_value(*found) + ", expected a list of numbers");
  if (!found || found->size() != count)
    return failure(Errc::shape_mismatch,
                   field + " has " + std::to_string(found ? found->size() : 0) + " numbers, expected " + expected);
  std::vector<float> values;
  values.reserve(count);
  for (const Json& each : *found) {
    if (!each.is_number())
      return failure(Errc::parse_failed,
                     field + "[" + std::to_string(values.size()) + "] is " + shown_value(each) + ", expected a number");
    const double value = each.get<double>();
    if (!(std::fabs(value) <= double{FLT_MAX}))
      return failure(Errc::not_finite, field + "[" + std::to_string(values.size()) + "] is " + shown_value(each) +
                                           ", more than a float32 holds");
    values.push_back(static_cast<float>(value));
  }
  return values;
}

Result<std::vector<float>> Fields::numbers_or_none(std::string_view key, const Shape& shape) const {
  const Json* const found = find(key);
  if (!found || (found->is_array() && found->empty())) return std::vector<float>();
  return numbers(key, shape);
}

}  // namespace weft::bridge
