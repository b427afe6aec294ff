// SPDX-License-Identifier: Apache-2.0

#include "text/unigram.hpp"

#include "text/unicode.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace weft::text {
namespace {

constexpr double kUnknownPenalty = 10.0;

}  // namespace

/// The best way to reach a place in a fragment.
struct Unigram::Best {
  double score = -std::numeric_limits<double>::infinity();
  std::uint32_t begin = 0;  // texts have less than 2^32 bytes
  TokenId id = kUnknown;

  static constexpr TokenId kUnknown = kMaxTokenId + 1;
};

Unigram::Unigram(Vocabulary vocabulary, std::vector<double> scores)
    : TokenModel(std::move(vocabulary)), scores_(std::move(scores)), byte_tokens_(this->vocabulary().byte_tokens()) {}

Result<std::shared_ptr<const Unigram>> Unigram::make(const std::vector<std::pair<std::string, double>>& tokens,
                                                     const Options& options) {
  Vocabulary vocabulary;
  std::vector<double> scores;
  Trie trie;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [token, score] : tokens) {
    const auto id = static_cast<TokenId>(scores.size());
    WEFT_CHECK(vocabulary.add(token, id));
    if (!token.empty() && (options.is_left_out.empty() || !options.is_left_out[id])) trie.add(token, id);
    scores.push_back(score);
    least = std::min(least, score);
  }
  if (options.unknown && *options.unknown >= tokens.size())
    return fail(Errc::out_of_range, "unk_id: found " + std::to_string(*options.unknown) + ", there are " +
                                        std::to_string(tokens.size()) + " tokens");
  std::shared_ptr<Unigram> made(new Unigram(std::move(vocabulary), std::move(scores)));
  made->unknown_score_ = options.least.value_or(least) - kUnknownPenalty;
  made->trie_ = std::move(trie);
  made->unknown_ = options.unknown;
  made->byte_fallback_ = options.byte_fallback;
  return std::shared_ptr<const Unigram>(std::move(made));
}

std::vector<Unigram::Best> Unigram::search(std::string_view fragment) const {
  std::vector<Best> best(fragment.size() + 1);
  best[0].score = 0.0;
  for (std::size_t begin = 0; begin < fragment.size();) {
    std::size_t after = begin;
    (void)next_code_point(fragment, after);
    bool has_single = false;
    const double before = best[begin].score;
    trie_.each_at(fragment, begin, [&](TokenId id, std::size_t end) {
      if (const double score = before + scores_[id]; score > best[end].score)
        best[end] = {score, static_cast<std::uint32_t>(begin), id};
      has_single |= end == after;
    });
    if (!has_single) {
      const double score = before + unknown_score_;
      if (score > best[after].score) best[after] = {score, static_cast<std::uint32_t>(begin), Best::kUnknown};
    }
    begin = after;
  }
  return best;
}

void Unigram::encode(std::string_view fragment, std::vector<TokenId>& ids) const {
  const std::vector<Best> best = search(fragment);
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  for (std::size_t end = fragment.size(); end != 0; end = best[end].begin) parts.emplace_back(best[end].begin, end);
  std::reverse(parts.begin(), parts.end());
  bool was_unknown = false;
  for (const auto& [begin, end] : parts) {
    const bool follows_unknown = std::exchange(was_unknown, false);
    if (best[end].id != Best::kUnknown) {
      ids.push_back(best[end].id);
      continue;
    }
    const std::string_view part = fragment.substr(begin, end - begin);
    const auto has_token = [&](char byte) { return byte_tokens_[static_cast<unsigned char>(byte)].has_value(); };
    if (byte_fallback_ && std::all_of(part.begin(), part.end(), has_token)) {
      for (const char byte : part) ids.push_back(*byte_tokens_[static_cast<unsigned char>(byte)]);
    } else if (unknown_) {
      if (!follows_unknown) ids.push_back(*unknown_);
      was_unknown = true;
    }
  }
}

}  // namespace weft::text
