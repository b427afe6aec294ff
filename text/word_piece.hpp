// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/token_model.hpp"
#include "text/trie.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::text {

/// The longest token first, from left to right; a word that does not come out even, or is too long, is unknown as a
/// whole.
/// @source Wu et al. 2016, arXiv:1609.08144
class WordPiece final : public TokenModel {
 public:
  struct Options {
    std::string unknown = "[UNK]", prefix = "##";  ///< prefix: of all tokens of a word but the first
    std::size_t max_characters = 100;
    bool whole_words = false;  ///< words that are tokens, and nothing else (WordLevel)
  };
  /// @error not_found: the unknown token is not in the vocabulary
  static Result<std::shared_ptr<const WordPiece>> make(Vocabulary vocabulary, Options options);
  void encode(std::string_view fragment, std::vector<TokenId>& ids) const override;

 private:
  WordPiece(Vocabulary vocabulary, Options options, TokenId unknown);
  Options options_;
  Trie trie_;
  std::optional<Trie::State> inside_;  // the prefix's end
  TokenId unknown_;
};

}  // namespace weft::text
