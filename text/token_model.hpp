// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/vocabulary.hpp"

#include <string_view>
#include <utility>
#include <vector>

namespace weft::text {

/// Makes tokens of a fragment: a value of tokenizer.json's "model".
/// @thread any: immutable
class TokenModel {
 public:
  explicit TokenModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~TokenModel() = default;
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;

  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }
  /// Appends the ids of a fragment. @pre UTF-8, not empty
  virtual void encode(std::string_view fragment, std::vector<TokenId>& ids) const = 0;

 private:
  Vocabulary vocabulary_;
};

}  // namespace weft::text
