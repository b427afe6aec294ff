// SPDX-License-Identifier: Apache-2.0

#include "text/vocabulary.hpp"

#include "core/printable.hpp"

#include <utility>

namespace weft::text {

Status Vocabulary::add(std::string token, TokenId id) {
  if (token.size() > kMaxTokenSize)
    return fail(Errc::too_large, "a token of " + std::to_string(token.size()) + " bytes, at most 65536");
  if (id > kMaxTokenId)
    return fail(Errc::too_large, "token " + in_quotes(token) + ": id " + std::to_string(id) + ", at most 2^24 - 1");
  if (ids_.size() >= kMaxTokens) return fail(Errc::too_large, "more than 2^21 tokens");
  if (const std::string* const other = this->token(id))
    return fail(Errc::duplicate_name,
                "id " + std::to_string(id) + " stands for " + in_quotes(*other) + " and for " + in_quotes(token));
  const auto [at, is_new] = ids_.emplace(std::move(token), id);
  if (!is_new)
    return fail(Errc::duplicate_name, "token " + in_quotes(at->first) + " has the ids " + std::to_string(at->second) +
                                          " and " + std::to_string(id));
  if (id >= tokens_.size()) tokens_.resize(std::size_t{id} + 1);
  tokens_[id] = &at->first;
  return {};
}

std::optional<TokenId> Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::array<std::optional<TokenId>, 256> Vocabulary::byte_tokens() const {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::array<std::optional<TokenId>, 256> ids;
  for (std::size_t i = 0; i < 256; ++i) ids[i] = find(std::string("<0x") + kDigits[i / 16] + kDigits[i % 16] + ">");
  return ids;
}

}  // namespace weft::text
