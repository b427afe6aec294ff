// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/tokenizer.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace weft::models {

/// Texts that end what may be a repetition, as the tokens of a vocabulary that hold or begin them: a first token, and
/// those that must follow it.
/// @thread any: immutable
class SequenceBreakers {
 public:
  using Tokens = std::vector<text::TokenId>;
  static constexpr std::size_t kMostFollowing = 20;

  explicit SequenceBreakers(std::span<const Tokens> sequences);
  /// @error as Tokenizer::encode @pre no text is empty
  static Result<std::shared_ptr<const SequenceBreakers>> make(const text::Tokenizer& tokenizer,
                                                              std::span<const std::string> texts);

  /// True of a token that holds one of the texts.
  bool is_single(text::TokenId id) const;
  /// Tokens after the last sequence that breaks; all where none does.
  std::size_t unbroken(std::span<const text::TokenId> ids) const;

 private:
  SequenceBreakers() = default;
  std::uint32_t ending(Tokens following);
  void add(text::TokenId first, std::uint32_t ending);
  std::vector<Tokens> endings_{1};  // what may follow a first token, each once; nothing first
  std::unordered_map<text::TokenId, std::vector<std::uint32_t>> by_first_;  // of the first tokens, their endings
};

/// For each token that stood after a run of at least `least` tokens that the text ends with too: the length of the
/// longest such run, at most `most`.
std::unordered_map<text::TokenId, std::size_t> repeated_runs(std::span<const text::TokenId> ids, std::size_t least,
                                                             std::size_t most);

}  // namespace weft::models
