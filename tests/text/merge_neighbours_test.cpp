// SPDX-License-Identifier: Apache-2.0

#include "text/internal/merge_neighbours.hpp"

#include "text/bpe.hpp"
#include "text/scored_bpe.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace weft::text::merge_neighbours_test {
namespace {

using Rules = std::map<std::pair<TokenId, TokenId>, Join>;

std::vector<Symbol> symbols_of(const std::vector<TokenId>& ids) {
  std::vector<Symbol> symbols;
  for (std::size_t i = 0; i < ids.size(); ++i) append_symbol(symbols, ids[i], i, 1);
  return symbols;
}
std::vector<TokenId> ids_of(const std::vector<Symbol>& symbols) {
  std::vector<TokenId> ids;
  for (const Symbol& symbol : symbols)
    if (symbol.size != 0) ids.push_back(symbol.id);
  return ids;
}
auto by(const Rules& rules, std::size_t& asked) {
  return [&rules, &asked](const Symbol& left, const Symbol& right) {
    ++asked;
    const auto found = rules.find({left.id, right.id});
    return found == rules.end() ? std::nullopt : std::optional(found->second);
  };
}
/// The definition, in quadratic time: the pair of the least rank, of equals the leftmost, until none is left.
std::vector<TokenId> merge_plainly(std::vector<TokenId> ids, const Rules& rules) {
  for (;;) {
    std::size_t best = ids.size();
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = rules.find({ids[i], ids[i + 1]});
      if (found == rules.end()) continue;
      if (best == ids.size() || found->second.rank < rules.at({ids[best], ids[best + 1]}).rank) best = i;
    }
    if (best == ids.size()) return ids;
    ids[best] = rules.at({ids[best], ids[best + 1]}).id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(MergeNeighbours, DoesWhatTheDefinitionSays) {
  std::mt19937 random(7);
  for (int round = 0; round < 540; ++round) {
    Rules rules;
    const auto below = [&](TokenId end) { return static_cast<TokenId>(random() % end); };
    for (TokenId id = 4; id < 24; ++id) rules[{below(id), below(id)}] = {below(12), id};
    // Long texts go another way.
    std::vector<TokenId> ids(round < 500 ? random() % 60 : 513 + random() % 200);
    for (TokenId& id : ids) id = below(4);
    std::size_t asked = 0;
    std::vector<Symbol> symbols = symbols_of(ids);
    merge_neighbours(symbols, by(rules, asked));
    EXPECT_EQ(ids_of(symbols), merge_plainly(ids, rules)) << "round " << round;
  }
}

/// Powers of two of one letter: every symbol is joined again and again.
TEST(MergeNeighbours, AsksFiveTimesASymbolAtMost) {
  Rules rules;
  for (TokenId id = 0; id < 30; ++id) rules[{id, id}] = {id, id + 1};
  for (const std::size_t size : {std::size_t{1000}, std::size_t{1} << 16, std::size_t{1} << 20}) {
    std::vector<Symbol> symbols = symbols_of(std::vector<TokenId>(size, 0));
    std::size_t asked = 0;
    merge_neighbours(symbols, by(rules, asked));
    EXPECT_LE(asked, 5 * size);
    std::size_t bits = 0;
    for (std::size_t rest = size; rest != 0; rest &= rest - 1) ++bits;
    EXPECT_EQ(ids_of(symbols).size(), bits);
  }
}

TEST(MergeNeighbours, TakesAMebibyteOfOneLetter) {
  const std::string text(std::size_t{1} << 20, 'a');
  std::vector<std::string> tokens{"a"};
  std::vector<Bpe::Merge> merges;
  for (int i = 0; i < 6; ++i) {
    merges.emplace_back(tokens.back(), tokens.back());
    tokens.push_back(tokens.back() + tokens.back());
  }
  Vocabulary vocabulary, same;
  std::vector<float> scores;
  for (const std::string& token : tokens) {
    ASSERT_TRUE(vocabulary.add(token, static_cast<TokenId>(scores.size())));
    ASSERT_TRUE(same.add(token, static_cast<TokenId>(scores.size())));
    scores.push_back(-static_cast<float>(scores.size()));
  }
  std::vector<TokenId> ids, scored;
  (*Bpe::make(std::move(vocabulary), merges, {}))->encode(text, ids);
  (*ScoredBpe::make(std::move(same), scores, std::nullopt))->encode(text, scored);
  EXPECT_EQ(ids, std::vector<TokenId>(text.size() / 64, 6));
  EXPECT_EQ(scored, ids);
}

}  // namespace
}  // namespace weft::text::merge_neighbours_test
