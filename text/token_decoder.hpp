// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace weft::text {

/// A step from tokens back to text: a value of tokenizer.json's "decoder". What all steps leave is joined.
/// @thread any: immutable
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
  /// Bytes that it makes of one byte, at most, some bytes for each token aside.
  virtual std::size_t growth() const noexcept = 0;
};

/// Null for null. @error unsupported: a type that is not known, naming it; parse_failed: another key or kind of value;
///        too_large: a step that with those before it makes more than 256 bytes of one, naming it
Result<std::shared_ptr<const TokenDecoder>> make_token_decoder(const Json& json, const std::string& path);

}  // namespace weft::text
