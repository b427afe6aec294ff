// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace weft::formats {

/// An array of a GGUF file; its alternative's index is the number of the elements' type in the format.
using GgufArray = std::variant<std::vector<std::uint8_t>, std::vector<std::int8_t>, std::vector<std::uint16_t>,
                               std::vector<std::int16_t>, std::vector<std::uint32_t>, std::vector<std::int32_t>,
                               std::vector<float>, std::vector<bool>, std::vector<std::string>, std::monostate,
                               std::vector<std::uint64_t>, std::vector<std::int64_t>, std::vector<double>>;
/// A value of a GGUF file; its alternative's index is the number of its type in the format.
using GgufValue = std::variant<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t,
                               float, bool, std::string, GgufArray, std::uint64_t, std::int64_t, double>;

/// "u32", "string", "array of f32".
std::string type_name(const GgufValue& value);
/// Elements of an array.
std::size_t size(const GgufArray& array) noexcept;

/// Keys and values of a GGUF file, in its order. Getters take every type that holds the value: an integer of any
/// width. A missing key is an error, or in the `_or` forms the fallback. Texts of errors name key, found and expected.
/// @error not_found; parse_failed: another type; out_of_range: a value that is too small or too large
class GgufMetadata {
 public:
  using Pair = std::pair<std::string, GgufValue>;
  const std::vector<Pair>& pairs() const noexcept { return pairs_; }
  std::size_t size() const noexcept { return pairs_.size(); }

  /// A new key at the end, or another value in the old one's place.
  void set(std::string key, GgufValue value);
  /// Null where there is none.
  const GgufValue* find(std::string_view key) const noexcept;
  bool contains(std::string_view key) const noexcept { return find(key) != nullptr; }

  Result<std::uint64_t> natural(std::string_view key, std::uint64_t most = UINT64_MAX) const;
  Result<std::uint64_t> natural_or(std::string_view key, std::uint64_t fallback, std::uint64_t most = UINT64_MAX) const;
  /// f32 or f64, finite.
  Result<double> real(std::string_view key) const;
  Result<double> real_or(std::string_view key, double fallback) const;
  Result<bool> boolean(std::string_view key) const;
  Result<bool> boolean_or(std::string_view key, bool fallback) const;
  Result<std::string> text(std::string_view key) const;
  Result<std::string> text_or(std::string_view key, std::string fallback) const;
  /// An array whose elements have type T.
  template <class T>
  Result<const std::vector<T>*> array(std::string_view key) const {
    WEFT_TRY(const GgufValue* const value, get(key));
    if (const auto* const found = std::get_if<GgufArray>(value))
      if (const auto* const elements = std::get_if<std::vector<T>>(found)) return elements;
    return unexpected(key, *value, type_name(GgufArray(std::vector<T>())));
  }

 private:
  Result<const GgufValue*> get(std::string_view key) const;
  static Failure unexpected(std::string_view key, const GgufValue& found, std::string_view expected);

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>()(text); }
  };
  std::vector<Pair> pairs_;
  std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> index_;
};

}  // namespace weft::formats
