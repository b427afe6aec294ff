// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/symbol_table.hpp"
#include "text/token_model.hpp"

#include "core/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace weft::text {

/// Neighbours joined wherever both together spell a token, the token of the highest score first, of equals the
/// leftmost: what llama.cpp does with SentencePiece's vocabularies. What is no token in the end becomes tokens of its
/// bytes, or where the vocabulary has none the unknown token, one for neighbours that are both unknown. Time: n log n
/// in a fragment's length.
class ScoredBpe final : public TokenModel {
 public:
  /// A score for each id. @error not_finite: a score that is no number, naming its token
  static Result<std::shared_ptr<const ScoredBpe>> make(Vocabulary vocabulary, const std::vector<float>& scores,
                                                       std::optional<TokenId> unknown);
  void encode(std::string_view fragment, std::vector<TokenId>& ids) const override;

 private:
  ScoredBpe(Vocabulary vocabulary, std::optional<TokenId> unknown);
  SymbolTable symbols_;
  std::optional<TokenId> unknown_;
  std::vector<std::uint32_t> ranks_;  // of each id: 0 is the highest score
  std::size_t longest_ = 0;           // bytes of a token
  std::array<std::optional<TokenId>, 256> byte_tokens_;
};

}  // namespace weft::text
