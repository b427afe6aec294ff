// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/tokenizer.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft::models {

/// Texts that end what may be a repetition, by the tokens of a vocabulary that hold or begin them.
/// @thread any: immutable
class SequenceBreakers {
 public:
  using Bytes = std::function<std::string(text::TokenId)>;
  /// `bytes`: those of a token. @pre no text is empty
  SequenceBreakers(std::size_t vocabulary, Bytes bytes, std::span<const std::string> texts);
  SequenceBreakers(const text::Tokenizer& tokenizer, std::span<const std::string> texts)
      : SequenceBreakers(
            tokenizer.size(), [tokenizer](text::TokenId id) { return tokenizer.token_bytes(id); }, texts) {}

  /// True of a token that holds one of the texts.
  bool is_single(text::TokenId id) const;
  /// Tokens after the last ones that hold one of the texts; all where none do.
  std::size_t unbroken(std::span<const text::TokenId> ids) const;

 private:
  std::uint32_t index_of(std::string_view rest);
  Bytes bytes_;
  std::size_t longest_ = 0;                  // bytes of a remainder
  std::vector<std::string> remainders_{""};  // of the texts, what may follow a first token, each once
  std::unordered_map<text::TokenId, std::vector<std::uint32_t>> by_first_;  // the first tokens' remainders
};

/// For each token that stood after a run of at least `least` tokens that the text ends with too: the length of the
/// longest such run, at most `most`.
std::unordered_map<text::TokenId, std::size_t> repeated_runs(std::span<const text::TokenId> ids, std::size_t least,
                                                             std::size_t most);

}  // namespace weft::models
