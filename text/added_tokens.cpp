// SPDX-License-Identifier: Apache-2.0

#include "text/added_tokens.hpp"

#include "text/unicode.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace weft::text {
namespace {

bool is_word_before(std::string_view text, std::size_t at) { return at != 0 && is_word(previous_code_point(text, at)); }
bool is_word_after(std::string_view text, std::size_t at) {
  return at != text.size() && is_word(next_code_point(text, at));
}

}  // namespace

Status AddedTokens::add(const AddedToken& token) {
  if (token.content.empty()) return fail(Errc::invalid_argument, "an added token without content");
  if (token.content.size() > kMaxContent)
    return fail(Errc::too_large, "added token " + in_quotes(token.content) + ": " +
                                     std::to_string(token.content.size()) + " bytes, at most 4096");
  if (!contents_.add(token.content, static_cast<std::uint32_t>(tokens_.size())))
    return fail(Errc::duplicate_name, "added token " + in_quotes(token.content) + " is there twice");
  tokens_.push_back(token);
  beginnings_.set(static_cast<unsigned char>(token.content.front()));
  return {};
}

const AddedToken* AddedTokens::longest_at(std::string_view text, std::size_t at, bool finds_special) const {
  const AddedToken* found = nullptr;
  std::optional<Trie::State> state = Trie::kBegin;
  for (std::size_t i = at; i < text.size(); ++i) {
    state = contents_.step(*state, text[i]);
    if (!state) break;
    const auto index = contents_.value(*state);
    if (index && (finds_special || !tokens_[*index].special)) found = &tokens_[*index];
  }
  return found;
}

std::vector<AddedTokens::Match> AddedTokens::find(std::string_view text, bool finds_special) const {
  std::vector<Match> matches;
  if (tokens_.empty()) return matches;
  for (std::size_t at = 0; at < text.size();) {
    const bool may_begin = beginnings_[static_cast<unsigned char>(text[at])];
    const AddedToken* const token = may_begin ? longest_at(text, at, finds_special) : nullptr;
    if (!token) {
      ++at;
      continue;
    }
    const std::size_t content_begin = at, content_end = at + token->content.size();
    std::size_t begin = content_begin, end = content_end;
    at = end;
    if (token->single_word && (is_word_before(text, begin) || is_word_after(text, end))) continue;
    const std::size_t least = matches.empty() ? 0 : matches.back().end;
    if (token->lstrip)
      for (std::size_t i = begin; i > least && is_white_space(previous_code_point(text, i));) begin = i;
    if (token->rstrip)
      for (std::size_t i = end; i < text.size() && is_white_space(next_code_point(text, i));) end = i;
    begin = std::max(begin, least);
    at = std::max(at, end);
    matches.push_back({begin, end, token->id, token->special, content_begin, content_end});
  }
  return matches;
}

}  // namespace weft::text
