// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/sampler.hpp"

#include "text/grammar.hpp"
#include "text/tokenizer.hpp"

#include "core/result.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace weft::models {

/// Bytes of a vocabulary's tokens, looked up once each. @thread one at a time
class TokenBytes {
 public:
  explicit TokenBytes(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  /// Bytes of a token that is text; none of a special one.
  const std::string& of(text::TokenId id);

 private:
  const text::Tokenizer& tokenizer_;
  std::vector<std::optional<std::string>> known_;
};

/// Tokens that may come next in a text under a grammar; without one all.
/// @thread one at a time; `bytes` outlives it
class TokenConstraint {
 public:
  TokenConstraint(const std::optional<text::Grammar>& grammar, TokenBytes& bytes) : bytes_(bytes) {
    if (grammar) state_.emplace(*grammar), name_ = grammar->name();
  }
  bool is_on() const noexcept { return state_.has_value(); }
  /// `ends`: tokens that end a text, which come where it is whole. Null without a grammar. @pre this stays where it is
  Sampler::Mask mask(std::function<bool(text::TokenId)> ends);
  /// @error as GrammarState::take
  Status take(text::TokenId id) { return state_ ? state_->take(bytes_.of(id)) : Status(); }
  /// Reasons that keep tokens out, to be told where none is left: the grammar's name, and its limit where it was met.
  /// Empty without a grammar.
  std::string described() const;
  /// Nothing may follow.
  bool is_closed() const { return state_ && state_->is_closed(); }

 private:
  TokenBytes& bytes_;
  std::optional<text::GrammarState> state_;
  std::string name_;
};

}  // namespace weft::models
