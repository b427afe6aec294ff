// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/symbol_table.hpp"
#include "text/token_model.hpp"

#include "core/result.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft::text {

struct Symbol;

struct BpeOptions {
  std::optional<std::string> unknown;     ///< token of what the vocabulary has not; without it, that vanishes
  std::string continuing_subword_prefix;  ///< before every symbol of a fragment but the first
  std::string end_of_word_suffix;         ///< after the last
  bool fuse_unknown = false;              ///< unknown neighbours are one token
  bool byte_fallback = false;             ///< unknown symbols as tokens "<0xHH>", if all of their bytes have one
  bool ignore_merges = false;             ///< a fragment that is a token is that token
};

/// Pairs of neighbours joined in the order of their rank, with the options of the Rust tokenizers. Time: n log n in a
/// fragment's length.
/// @source Sennrich et al. 2016, arXiv:1508.07909
class Bpe final : public TokenModel {
 public:
  using Merge = std::pair<std::string, std::string>;
  /// @error not_found: a merge of which a part or the whole is no token, naming its number; the unknown token;
  ///        too_large: more than 2^21 merges
  static Result<std::shared_ptr<const Bpe>> make(Vocabulary vocabulary, const std::vector<Merge>& merges,
                                                 BpeOptions options);
  void encode(std::string_view fragment, std::vector<TokenId>& ids) const override;

 private:
  struct Merged {
    std::uint32_t rank;
    TokenId id;
  };
  Bpe(Vocabulary vocabulary, BpeOptions options);
  void split(std::string_view fragment, std::vector<Symbol>& symbols) const;

  BpeOptions options_;
  SymbolTable symbols_;
  std::optional<TokenId> unknown_;
  std::array<std::optional<TokenId>, 256> byte_tokens_;
  std::unordered_map<std::uint64_t, Merged> merges_;  // by both ids
};

}  // namespace weft::text
