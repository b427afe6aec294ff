// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/token_model.hpp"
#include "text/trie.hpp"

#include "core/result.hpp"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::text {

/// The most likely split of a fragment into tokens, each with its own probability.
/// @source Kudo 2018, arXiv:1804.10959, section 3
class Unigram final : public TokenModel {
 public:
  struct Options {
    std::optional<TokenId> unknown = std::nullopt;
    bool byte_fallback = false;
    std::vector<bool> is_left_out{};  // by id: tokens that no text is split into; empty: none
    std::optional<double> least =
        std::nullopt;  // score of a character without a token, plus 10; none: the least of all
  };
  /// Tokens by id with their log probabilities. @error duplicate_name, too_large, out_of_range: the unknown token's id
  static Result<std::shared_ptr<const Unigram>> make(const std::vector<std::pair<std::string, double>>& tokens,
                                                     const Options& options);
  void encode(std::string_view fragment, std::vector<TokenId>& ids) const override;

 private:
  struct Best;
  Unigram(Vocabulary vocabulary, std::vector<double> scores);
  /// Of each place in the fragment.
  std::vector<Best> search(std::string_view fragment) const;

  std::vector<double> scores_;
  double unknown_score_ = 0;
  Trie trie_;
  std::optional<TokenId> unknown_;
  bool byte_fallback_ = false;
  std::array<std::optional<TokenId>, 256> byte_tokens_;
};

}  // namespace weft::text
