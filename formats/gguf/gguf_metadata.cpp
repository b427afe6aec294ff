// SPDX-License-Identifier: Apache-2.0

#include "formats/gguf/gguf_metadata.hpp"

#include "core/printable.hpp"

#include <cmath>
#include <optional>
#include <type_traits>

namespace weft::formats {
namespace {

constexpr std::string_view kTypeNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                           "bool", "string", "array", "u64", "i64", "f64"};
static_assert(std::variant_size_v<GgufValue> == std::size(kTypeNames));
static_assert(std::variant_size_v<GgufArray> == std::size(kTypeNames));

/// A value of an integer type that is not negative.
std::optional<std::uint64_t> as_natural(const GgufValue& value) {
  return std::visit(
      [](const auto& held) -> std::optional<std::uint64_t> {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
          if (held >= 0) return static_cast<std::uint64_t>(held);
        }
        return std::nullopt;
      },
      value);
}

std::string shown(const GgufValue& value) {
  const std::string type = type_name(value);
  return std::visit(
      [&](const auto& held) {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, std::string>)
          return in_quotes(held);
        else if constexpr (std::is_same_v<T, GgufArray>)
          return type;
        else if constexpr (std::is_same_v<T, bool>)
          return std::string(held ? "true" : "false");
        else
          return type + " " + std::to_string(held);
      },
      value);
}

}  // namespace

std::string type_name(const GgufValue& value) {
  const auto* const array = std::get_if<GgufArray>(&value);
  return array ? "array of " + std::string(kTypeNames[array->index()]) : std::string(kTypeNames[value.index()]);
}

std::size_t size(const GgufArray& array) noexcept {
  return std::visit(
      [](const auto& elements) -> std::size_t {
        if constexpr (std::is_same_v<std::decay_t<decltype(elements)>, std::monostate>)
          return 0;
        else
          return elements.size();
      },
      array);
}

void GgufMetadata::set(std::string key, GgufValue value) {
  const auto [at, is_new] = index_.try_emplace(key, pairs_.size());
  if (is_new)
    pairs_.emplace_back(std::move(key), std::move(value));
  else
    pairs_[at->second].second = std::move(value);
}

const GgufValue* GgufMetadata::find(std::string_view key) const noexcept {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &pairs_[found->second].second;
}

Result<const GgufValue*> GgufMetadata::get(std::string_view key) const {
  if (const GgufValue* const found = find(key)) return found;
  return fail(Errc::not_found, "metadata " + in_quotes(key) + ": is not in the file");
}

Failure GgufMetadata::unexpected(std::string_view key, const GgufValue& found, std::string_view expected) {
  return fail(Errc::parse_failed,
              "metadata " + in_quotes(key) + ": found " + shown(found) + ", expected " + std::string(expected));
}

Result<std::uint64_t> GgufMetadata::natural(std::string_view key, std::uint64_t most) const {
  WEFT_TRY(const GgufValue* const value, get(key));
  const auto found = as_natural(*value);
  if (!found) return unexpected(key, *value, "a whole number");
  if (*found <= most) return *found;
  return fail(Errc::out_of_range,
              "metadata " + in_quotes(key) + ": found " + std::to_string(*found) + ", at most " + std::to_string(most));
}

Result<double> GgufMetadata::real(std::string_view key) const {
  WEFT_TRY(const GgufValue* const value, get(key));
  std::optional<double> found;
  if (const auto* const narrow = std::get_if<float>(value)) found = *narrow;
  if (const auto* const wide = std::get_if<double>(value)) found = *wide;
  if (found && std::isfinite(*found)) return *found;
  return unexpected(key, *value, "a finite number, f32 or f64");
}

Result<bool> GgufMetadata::boolean(std::string_view key) const {
  WEFT_TRY(const GgufValue* const value, get(key));
  if (const auto* const found = std::get_if<bool>(value)) return *found;
  return unexpected(key, *value, "a bool");
}

Result<std::string> GgufMetadata::text(std::string_view key) const {
  WEFT_TRY(const GgufValue* const value, get(key));
  if (const auto* const found = std::get_if<std::string>(value)) return *found;
  return unexpected(key, *value, "a string");
}

Result<std::uint64_t> GgufMetadata::natural_or(std::string_view key, std::uint64_t fallback, std::uint64_t most) const {
  return contains(key) ? natural(key, most) : fallback;
}
Result<double> GgufMetadata::real_or(std::string_view key, double fallback) const {
  return contains(key) ? real(key) : fallback;
}
Result<bool> GgufMetadata::boolean_or(std::string_view key, bool fallback) const {
  return contains(key) ? boolean(key) : fallback;
}
Result<std::string> GgufMetadata::text_or(std::string_view key, std::string fallback) const {
  return contains(key) ? text(key) : fallback;
}

}  // namespace weft::formats
