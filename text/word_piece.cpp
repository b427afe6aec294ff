// SPDX-License-Identifier: Apache-2.0

#include "text/word_piece.hpp"

#include "text/unicode.hpp"

#include "core/printable.hpp"

#include <utility>

namespace weft::text {

Result<std::shared_ptr<const WordPiece>> WordPiece::make(Vocabulary vocabulary, Options options) {
  const auto unknown = vocabulary.find(options.unknown);
  if (!unknown) return fail(Errc::not_found, "unk_token " + in_quotes(options.unknown) + " is not in the vocabulary");
  return std::shared_ptr<const WordPiece>(new WordPiece(std::move(vocabulary), std::move(options), *unknown));
}

WordPiece::WordPiece(Vocabulary vocabulary, Options options, TokenId unknown)
    : TokenModel(std::move(vocabulary)), options_(std::move(options)), unknown_(unknown) {
  if (options_.whole_words) return;
  const Vocabulary& tokens = this->vocabulary();
  for (TokenId id = 0; id < tokens.size(); ++id)
    if (const std::string* const token = tokens.token(id)) trie_.add(*token, id);
  inside_ = trie_.walk(options_.prefix);
}

void WordPiece::encode(std::string_view fragment, std::vector<TokenId>& ids) const {
  if (options_.whole_words) return ids.push_back(vocabulary().find(fragment).value_or(unknown_));
  std::size_t characters = 0;
  for (std::size_t at = 0; at < fragment.size() && characters <= options_.max_characters; ++characters)
    (void)next_code_point(fragment, at);
  if (characters > options_.max_characters) return ids.push_back(unknown_);
  const std::size_t before = ids.size();
  for (std::size_t begin = 0; begin < fragment.size();) {
    std::optional<Trie::State> state = begin == 0 ? Trie::kBegin : inside_;
    std::size_t end = begin;
    std::optional<TokenId> longest;
    for (std::size_t i = begin; state && i < fragment.size();) {
      state = trie_.step(*state, fragment[i++]);
      if (const auto id = state ? trie_.value(*state) : std::nullopt) longest = id, end = i;
    }
    if (!longest) {
      ids.resize(before);
      return ids.push_back(unknown_);
    }
    ids.push_back(*longest);
    begin = end;
  }
}

}  // namespace weft::text
