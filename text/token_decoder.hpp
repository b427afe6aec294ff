// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"
#include "core/result.hpp"

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
};

/// Null for null. @error unsupported: a type that is not known, naming it; parse_failed: another key or kind of value
Result<std::shared_ptr<const TokenDecoder>> make_token_decoder(const Json& json, const std::string& path);

}  // namespace weft::text
