// SPDX-License-Identifier: Apache-2.0

#include "text/bpe.hpp"

#include "text/internal/merge_neighbours.hpp"
#include "text/unicode.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <utility>

namespace weft::text {
namespace {

std::uint64_t pair_key(TokenId left, TokenId right) { return std::uint64_t{left} << 32 | right; }

}  // namespace

Bpe::Bpe(Vocabulary vocabulary, BpeOptions options)
    : TokenModel(std::move(vocabulary)),
      options_(std::move(options)),
      symbols_(this->vocabulary()),
      byte_tokens_(this->vocabulary().byte_tokens()) {}

Result<std::shared_ptr<const Bpe>> Bpe::make(Vocabulary vocabulary, const std::vector<Merge>& merges,
                                             BpeOptions options) {
  if (merges.size() > kMaxTokens) return fail(Errc::too_large, std::to_string(merges.size()) + " merges, at most 2^21");
  std::shared_ptr<Bpe> bpe(new Bpe(std::move(vocabulary), std::move(options)));
  const Vocabulary& tokens = bpe->vocabulary();
  if (bpe->options_.unknown) {
    bpe->unknown_ = tokens.find(*bpe->options_.unknown);
    if (!bpe->unknown_)
      return fail(Errc::not_found, "unk_token " + in_quotes(*bpe->options_.unknown) + " is not in the vocabulary");
  }
  const std::string_view prefix = bpe->options_.continuing_subword_prefix;
  bpe->merges_.reserve(merges.size());
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto& [left, right] = merges[i];
    std::string_view rest = right;
    if (rest.starts_with(prefix)) rest.remove_prefix(prefix.size());
    const std::string whole = left + std::string(rest);
    const auto a = tokens.find(left), b = tokens.find(right), joined = tokens.find(whole);
    if (!a || !b || !joined)
      return fail(Errc::not_found, "merge " + std::to_string(i) + ": " +
                                       in_quotes(!a   ? left
                                                 : !b ? right
                                                      : whole) +
                                       " is not in the vocabulary");
    // Of a pair that is there twice the later rank counts, as in a map that is filled in order.
    bpe->merges_[pair_key(*a, *b)] = {static_cast<std::uint32_t>(i), *joined};
  }
  return std::shared_ptr<const Bpe>(std::move(bpe));
}

void Bpe::split(std::string_view fragment, std::vector<Symbol>& symbols) const {
  bool was_unknown = false;
  std::string spelled;
  for (std::size_t at = 0; at < fragment.size();) {
    const std::size_t begin = at;
    const char32_t c = next_code_point(fragment, at);
    std::string_view symbol = fragment.substr(begin, at - begin);
    const bool is_spelled = (begin != 0 && !options_.continuing_subword_prefix.empty()) ||
                            (at == fragment.size() && !options_.end_of_word_suffix.empty());
    if (is_spelled) {
      spelled = (begin != 0 ? options_.continuing_subword_prefix : std::string()) + std::string(symbol) +
                (at == fragment.size() ? options_.end_of_word_suffix : std::string());
      symbol = spelled;
    }
    const bool follows_unknown = std::exchange(was_unknown, false);
    const auto add = [&](TokenId id) { append_symbol(symbols, id, begin, at - begin); };
    if (const auto id = is_spelled ? vocabulary().find(symbol) : symbols_.find(vocabulary(), c, symbol)) {
      add(*id);
      continue;
    }
    const auto has_token = [&](char byte) { return byte_tokens_[static_cast<unsigned char>(byte)].has_value(); };
    if (options_.byte_fallback && std::all_of(symbol.begin(), symbol.end(), has_token)) {
      for (const char byte : symbol) add(*byte_tokens_[static_cast<unsigned char>(byte)]);
    } else if (unknown_) {
      if (!(options_.fuse_unknown && follows_unknown)) add(*unknown_);
      was_unknown = true;
    }
  }
}

void Bpe::encode(std::string_view fragment, std::vector<TokenId>& ids) const {
  if (options_.ignore_merges) {
    if (const auto whole = vocabulary().find(fragment)) return ids.push_back(*whole);
  }
  std::vector<Symbol> symbols;
  symbols.reserve(fragment.size());
  split(fragment, symbols);
  merge_neighbours(symbols, [this](const Symbol& left, const Symbol& right) {
    const auto found = merges_.find(pair_key(left.id, right.id));
    return found == merges_.end() ? std::nullopt : std::optional(Join{found->second.rank, found->second.id});
  });
  for (const Symbol& symbol : symbols)
    if (symbol.size != 0) ids.push_back(symbol.id);
}

}  // namespace weft::text
