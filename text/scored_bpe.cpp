// SPDX-License-Identifier: Apache-2.0

#include "text/scored_bpe.hpp"

#include "text/internal/merge_neighbours.hpp"
#include "text/unicode.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

namespace weft::text {
namespace {

constexpr TokenId kNoToken = kMaxTokenId + 1;

}  // namespace

ScoredBpe::ScoredBpe(Vocabulary vocabulary, std::optional<TokenId> unknown)
    : TokenModel(std::move(vocabulary)),
      symbols_(this->vocabulary()),
      unknown_(unknown),
      byte_tokens_(this->vocabulary().byte_tokens()) {}

Result<std::shared_ptr<const ScoredBpe>> ScoredBpe::make(Vocabulary vocabulary, const std::vector<float>& scores,
                                                         std::optional<TokenId> unknown) {
  std::shared_ptr<ScoredBpe> made(new ScoredBpe(std::move(vocabulary), unknown));
  const Vocabulary& tokens = made->vocabulary();
  std::vector<float> sorted(scores.begin(), scores.end());
  for (std::size_t id = 0; id < scores.size(); ++id)
    if (std::isnan(scores[id]))
      return fail(Errc::not_finite, "the score of token " + std::to_string(id) + " is not a number");
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  for (TokenId id = 0; id < tokens.size(); ++id) {
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), scores[id], std::greater<>());
    made->ranks_.push_back(static_cast<std::uint32_t>(at - sorted.begin()));
    if (const std::string* const token = tokens.token(id)) made->longest_ = std::max(made->longest_, token->size());
  }
  return std::shared_ptr<const ScoredBpe>(std::move(made));
}

void ScoredBpe::encode(std::string_view fragment, std::vector<TokenId>& ids) const {
  std::vector<Symbol> symbols;
  symbols.reserve(fragment.size());
  for (std::size_t at = 0; at < fragment.size();) {
    const std::size_t begin = at;
    const char32_t c = next_code_point(fragment, at);
    const auto id = symbols_.find(vocabulary(), c, fragment.substr(begin, at - begin));
    append_symbol(symbols, id.value_or(kNoToken), begin, at - begin);
  }
  merge_neighbours(symbols, [&](const Symbol& left, const Symbol& right) -> std::optional<Join> {
    const std::size_t size = std::size_t{left.size} + right.size;
    if (size > longest_) return std::nullopt;
    const auto id = vocabulary().find(fragment.substr(left.begin, size));
    return id ? std::optional(Join{ranks_[*id], *id}) : std::nullopt;
  });
  bool was_unknown = false;
  for (const Symbol& symbol : symbols) {
    if (symbol.size == 0) continue;
    const bool follows_unknown = std::exchange(was_unknown, false);
    if (symbol.id != kNoToken) {
      ids.push_back(symbol.id);
      continue;
    }
    const std::string_view part = fragment.substr(symbol.begin, symbol.size);
    const auto token_of = [&](char byte) { return byte_tokens_[static_cast<unsigned char>(byte)]; };
    if (std::all_of(part.begin(), part.end(), [&](char byte) { return token_of(byte).has_value(); })) {
      for (const char byte : part) ids.push_back(*token_of(byte));
    } else {
      if (unknown_ && !follows_unknown) ids.push_back(*unknown_);
      was_unknown = true;
    }
  }
}

}  // namespace weft::text
