// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace weft::text {

/// Bytes of a text that is encoded, and of what a step of a tokenizer makes of it, at most.
inline constexpr std::size_t kMostText = std::size_t{64} << 20;
/// @error too_large: a step has made more than `most` bytes
Status check_made_text(std::size_t made, std::size_t most = kMostText);

/// A step that rewrites text before it is split: a value of tokenizer.json's "normalizer".
/// @thread any: immutable
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// @pre `fragment` is UTF-8 @error too_large: as Expression; more than kMostText bytes. Both name the step.
  virtual Result<std::string> apply(std::string_view fragment) const = 0;
};

/// Null for null. @error unsupported: a type that is not known, naming it; parse_failed: another key or kind of value
Result<std::shared_ptr<const Normalizer>> make_normalizer(const Json& json, const std::string& path);

}  // namespace weft::text
