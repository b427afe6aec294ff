// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"
#include "core/result.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace weft::text {

/// A step that rewrites text before it is split: a value of tokenizer.json's "normalizer".
/// @thread any: immutable
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// @pre `fragment` is UTF-8 @error too_large: as Expression
  virtual Result<std::string> apply(std::string_view fragment) const = 0;
};

/// Null for null. @error unsupported: a type that is not known, naming it; parse_failed: another key or kind of value
Result<std::shared_ptr<const Normalizer>> make_normalizer(const Json& json, const std::string& path);

}  // namespace weft::text
