// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"
#include "core/result.hpp"

#include <cfloat>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace weft {

class JsonReader;

/// One value and the path that leads to it ("layers[3].dtype"). Each getter checks kind and range; each error names
/// the path, what was found and what is expected. The JSON must outlive this view.
/// @error parse_failed: another kind of value; out_of_range: outside [min, max]; unknown_name: no such name
class JsonValue {
 public:
  JsonValue(const Json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  const Json& raw() const noexcept { return *value_; }
  const std::string& path() const noexcept { return path_; }
  bool is_null() const noexcept;
  bool is_bool() const noexcept;
  bool is_number() const noexcept;
  bool is_string() const noexcept;
  bool is_array() const noexcept;
  bool is_object() const noexcept;

  Result<std::uint32_t> u32(std::uint32_t min = 0, std::uint32_t max = UINT32_MAX) const;
  Result<std::uint64_t> u64(std::uint64_t min = 0, std::uint64_t max = UINT64_MAX) const;
  /// A finite number, rounded to the nearest float; bounds are inclusive and checked after rounding.
  Result<float> f32(float min = -FLT_MAX, float max = FLT_MAX) const;
  Result<double> f64(double min = -DBL_MAX, double max = DBL_MAX) const;
  Result<bool> boolean() const;
  Result<std::string> string(std::size_t max_size = 4096) const;
  /// The elements, each with its path.
  Result<std::vector<JsonValue>> array(std::size_t min_size = 0, std::size_t max_size = SIZE_MAX) const;
  Result<JsonReader> object() const;
  /// The result of `parse` (string_view -> optional<E>) on a string; an empty one lists `names` in the error.
  template <class Parse>
  auto one_of(Parse&& parse, const std::vector<std::string_view>& names) const
      -> Result<typename std::invoke_result_t<Parse, std::string_view>::value_type> {
    WEFT_TRY(const std::string text, string());
    if (auto found = parse(std::string_view(text))) return *found;
    return unknown(text, names);
  }

  /// A failure spelled as the getters spell theirs: "<path>: found <value>, expected <expected>".
  Failure unexpected(std::string_view expected, Errc code = Errc::parse_failed, const char* file = __builtin_FILE(),
                     int line = __builtin_LINE()) const;

 private:
  Failure unknown(std::string_view text, const std::vector<std::string_view>& names) const;
  const Json* value_;
  std::string path_;
};

/// Walks one object: each key is asked for by name, then `finish` refuses the keys that nobody asked for.
///   WEFT_TRY(auto layer, value.object());
///   WEFT_TRY(const auto out, layer.u32("out", 1, 65536));
///   WEFT_TRY(const auto scale, layer.f32_or("scale", 1.0f));
///   WEFT_CHECK(layer.finish());
/// Plain getters: a missing key is an error (not_found). `_or` getters: a missing key is the fallback; null is not.
class JsonReader {
 public:
  /// @error parse_failed when `value` is not an object
  static Result<JsonReader> open(const Json& value, std::string path = "");

  const std::string& path() const noexcept { return path_; }
  /// The path of a key of this object.
  std::string path_of(std::string_view key) const;
  /// Every key present, sorted (for objects whose keys are free names, such as ports).
  std::vector<std::string> keys() const;
  /// The value of a key, or nothing; marks the key as known.
  std::optional<JsonValue> find(std::string_view key);
  Result<JsonValue> value(std::string_view key);

  Result<std::uint32_t> u32(std::string_view key, std::uint32_t min = 0, std::uint32_t max = UINT32_MAX);
  Result<std::uint64_t> u64(std::string_view key, std::uint64_t min = 0, std::uint64_t max = UINT64_MAX);
  Result<float> f32(std::string_view key, float min = -FLT_MAX, float max = FLT_MAX);
  Result<double> f64(std::string_view key, double min = -DBL_MAX, double max = DBL_MAX);
  Result<bool> boolean(std::string_view key);
  Result<std::string> string(std::string_view key, std::size_t max_size = 4096);
  Result<std::vector<JsonValue>> array(std::string_view key, std::size_t min_size = 0, std::size_t max_size = SIZE_MAX);
  Result<JsonReader> object(std::string_view key);
  template <class Parse>
  auto one_of(std::string_view key, Parse&& parse, const std::vector<std::string_view>& names)
      -> Result<typename std::invoke_result_t<Parse, std::string_view>::value_type> {
    WEFT_TRY(const JsonValue found, value(key));
    return found.one_of(std::forward<Parse>(parse), names);
  }

  Result<std::uint32_t> u32_or(std::string_view key, std::uint32_t fallback, std::uint32_t min = 0,
                               std::uint32_t max = UINT32_MAX);
  Result<std::uint64_t> u64_or(std::string_view key, std::uint64_t fallback, std::uint64_t min = 0,
                               std::uint64_t max = UINT64_MAX);
  Result<float> f32_or(std::string_view key, float fallback, float min = -FLT_MAX, float max = FLT_MAX);
  Result<double> f64_or(std::string_view key, double fallback, double min = -DBL_MAX, double max = DBL_MAX);
  Result<bool> boolean_or(std::string_view key, bool fallback);
  Result<std::string> string_or(std::string_view key, std::string fallback, std::size_t max_size = 4096);
  template <class Parse, class T>
  Result<T> one_of_or(std::string_view key, T fallback, Parse&& parse, const std::vector<std::string_view>& names) {
    if (auto found = find(key)) return found->one_of(std::forward<Parse>(parse), names);
    return fallback;
  }

  /// @error unknown_name: a key that no getter asked for; names its path and, when one is near, the key meant
  Status finish() const;

 private:
  JsonReader(const Json& value, std::string path) : value_(&value), path_(std::move(path)) {}
  const Json* value_;
  std::string path_;
  std::vector<std::string> known_;
};

/// The name nearest to `text`, when it is near enough to be a slip of the hand (at most 2 edits, 1 in 3 letters).
std::optional<std::string_view> nearest_name(std::string_view text, const std::vector<std::string_view>& names);

}  // namespace weft
