// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"
#include "core/result.hpp"
#include "core/shape.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::bridge {

/// "2x1x3".
std::string spelled(const Shape& shape);

/// The fields of a JSON object that others write: keys that nobody asks for are left alone, and null is as good as
/// absent. Errors name the object: "layer 0: weights has 2 numbers, expected 3". The JSON must outlive this view.
/// @error parse_failed: another kind of value; out_of_range, shape_mismatch
class Fields {
 public:
  /// `object`: "layer 0", or empty. What is no object has no fields.
  Fields(const Json& json, std::string object) : json_(&json), object_(std::move(object)) {}

  const std::string& object() const noexcept { return object_; }
  /// The value of a key, or nothing.
  const Json* find(std::string_view key) const noexcept;
  Result<std::string> text(std::string_view key, std::string fallback = {}) const;
  Result<bool> flag(std::string_view key) const;
  /// A whole number from 0 to `most`, also written as 4.0.
  Result<std::size_t> whole(std::string_view key, std::size_t fallback, std::size_t most = kMostExtent) const;
  /// A whole number from 1 to `most`; absent it is an error.
  Result<std::size_t> extent(std::string_view key, std::size_t most = kMostExtent) const;
  /// As many numbers as `shape` has places, rounded to the nearest float32.
  /// @error not_finite: a number past what float32 holds
  Result<std::vector<float>> numbers(std::string_view key, const Shape& shape) const;
  /// The same; absent or an empty list: none.
  Result<std::vector<float>> numbers_or_none(std::string_view key, const Shape& shape) const;

  /// "layer 0: " and the text.
  Failure failure(Errc code, const std::string& text, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) const;

  static constexpr std::size_t kMostExtent = std::size_t{1} << 24;

 private:
  const Json* json_;
  std::string object_;
};

}  // namespace weft::bridge
