// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/vocabulary.hpp"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft::text {

inline constexpr std::uint32_t kNoSymbol = UINT32_MAX;

/// A part of a fragment and its neighbours; size 0: joined with the one on its left.
struct Symbol {
  TokenId id = 0;
  std::uint32_t begin = 0, size = 0;  // bytes of the fragment
  std::uint32_t previous = kNoSymbol, next = kNoSymbol;
};
inline void append_symbol(std::vector<Symbol>& symbols, TokenId id, std::size_t begin, std::size_t size) {
  const auto at = static_cast<std::uint32_t>(symbols.size());
  if (at != 0) symbols.back().next = at;
  symbols.push_back({id, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(size),
                     at == 0 ? kNoSymbol : at - 1, kNoSymbol});
}

/// A token that two neighbours make, and when: the least rank first.
struct Join {
  std::uint32_t rank;
  TokenId id;
};

/// Joins a symbol with the one on its right, which is there.
inline void join_with_next(std::vector<Symbol>& symbols, std::uint32_t at, TokenId id) {
  Symbol& left = symbols[at];
  Symbol& right = symbols[left.next];
  left.id = id;
  left.size += right.size;
  left.next = right.next;
  right.size = 0;
  if (left.next != kNoSymbol) symbols[left.next].previous = at;
}

/// The join of a pair of neighbours, if they have one. `left`: the pair's left symbol, or kNoSymbol.
template <class FindJoin>
std::optional<Join> join_at(const std::vector<Symbol>& symbols, std::uint32_t left, FindJoin& find_join) {
  if (left == kNoSymbol || symbols[left].size == 0 || symbols[left].next == kNoSymbol) return std::nullopt;
  return find_join(symbols[left], symbols[symbols[left].next]);
}

/// Joins of a short text: a heap of all candidates.
template <class FindJoin>
void merge_few(std::vector<Symbol>& symbols, const FindJoin& find_join) {
  struct Candidate {
    std::uint32_t rank, left, size;  // size: of both together, which tells whether one of them has changed
    TokenId id;
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
  };
  std::vector<Candidate> candidates;
  const auto consider = [&](std::uint32_t left) {
    const std::optional<Join> join = join_at(symbols, left, find_join);
    if (join) candidates.push_back({join->rank, left, symbols[left].size + symbols[symbols[left].next].size, join->id});
    return join.has_value();
  };
  const auto push = [&](std::uint32_t left) {
    if (consider(left)) std::push_heap(candidates.begin(), candidates.end(), std::greater<>());
  };
  for (std::uint32_t i = 0; i + 1 < symbols.size(); ++i) consider(i);
  std::make_heap(candidates.begin(), candidates.end(), std::greater<>());
  while (!candidates.empty()) {
    std::pop_heap(candidates.begin(), candidates.end(), std::greater<>());
    const Candidate best = candidates.back();
    candidates.pop_back();
    const Symbol& left = symbols[best.left];
    if (left.size == 0 || left.next == kNoSymbol || left.size + symbols[left.next].size != best.size) continue;
    join_with_next(symbols, best.left, best.id);
    push(left.previous);
    push(best.left);
  }
}

/// Places of a long text where neighbours may be joined, the least rank first, of equals the leftmost: a list a rank,
/// which is nearly always in order as it comes. A heap of a million candidates leaves the caches at every step.
class JoinPlaces {
 public:
  struct Place {
    std::uint32_t rank, left;
    auto operator<=>(const Place&) const = default;
  };
  void push(const Place& place) {
    if (has_rank_ && place.rank <= rank_) {
      early_.push_back(place);
      std::push_heap(early_.begin(), early_.end(), std::greater<>());
      return;
    }
    if (!last_ || last_rank_ != place.rank) {
      const auto [found, is_new] = lists_.try_emplace(place.rank);
      if (is_new) {
        ranks_.push_back(place.rank);
        std::push_heap(ranks_.begin(), ranks_.end(), std::greater<>());
      }
      last_ = &found->second;
      last_rank_ = place.rank;
    }
    last_->push_back(place.left);
  }
  bool empty() const noexcept { return at_ == list_.size() && early_.empty() && ranks_.empty(); }
  Place pop() {
    if (at_ == list_.size() && early_.empty()) begin_list();
    if (at_ < list_.size() && (early_.empty() || Place{rank_, list_[at_]} < early_.front()))
      return {rank_, list_[at_++]};
    std::pop_heap(early_.begin(), early_.end(), std::greater<>());
    const Place least = early_.back();
    early_.pop_back();
    return least;
  }

 private:
  void begin_list() {
    std::pop_heap(ranks_.begin(), ranks_.end(), std::greater<>());
    rank_ = ranks_.back();
    ranks_.pop_back();
    has_rank_ = true;
    const auto found = lists_.find(rank_);
    list_ = std::move(found->second);
    lists_.erase(found);
    last_ = nullptr;
    at_ = 0;
    if (!std::is_sorted(list_.begin(), list_.end())) std::sort(list_.begin(), list_.end());
  }

  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> lists_;  // of ranks above rank_
  std::vector<std::uint32_t>* last_ = nullptr;                           // the list of last_rank_
  std::uint32_t last_rank_ = 0;
  std::vector<std::uint32_t> ranks_;  // of lists_, a heap
  std::vector<std::uint32_t> list_;   // of rank_, from at_ on
  std::size_t at_ = 0;
  std::uint32_t rank_ = 0;
  bool has_rank_ = false;
  std::vector<Place> early_;  // of rank_ or a lesser one, that came when list_ had begun; a heap
};

/// Answers of `find_join` about pairs of tokens, the last ones: a long text asks about the same pairs again and again.
template <class FindJoin>
class RememberedJoins {
 public:
  explicit RememberedJoins(const FindJoin& find_join) : find_join_(find_join), entries_(kEntries) {}
  std::optional<Join> operator()(const Symbol& left, const Symbol& right) {
    // Symbols that are no tokens are told apart by their texts alone.
    if (left.id > kMaxTokenId || right.id > kMaxTokenId) return find_join_(left, right);
    Entry& entry = entries_[(left.id * 0x9E3779B1u ^ right.id * 0x85EBCA6Bu) >> (32 - kBits)];
    if (entry.left != left.id || entry.right != right.id) entry = {left.id, right.id, find_join_(left, right)};
    return entry.join;
  }

 private:
  static constexpr unsigned kBits = 12;
  static constexpr std::size_t kEntries = std::size_t{1} << kBits;
  struct Entry {
    TokenId left = kMaxTokenId + 1, right = 0;
    std::optional<Join> join;
  };
  const FindJoin& find_join_;
  std::vector<Entry> entries_;
};

/// Joins of a long text. A place counts where the pair that is there now has its rank: what pair was there when it was
/// pushed does not matter.
template <class FindJoin>
void merge_many(std::vector<Symbol>& symbols, const FindJoin& find_join) {
  RememberedJoins<FindJoin> remembered(find_join);
  JoinPlaces places;
  const auto consider = [&](std::uint32_t left) {
    if (const auto join = join_at(symbols, left, remembered)) places.push({join->rank, left});
  };
  for (std::uint32_t i = 0; i + 1 < symbols.size(); ++i) consider(i);
  while (!places.empty()) {
    const JoinPlaces::Place best = places.pop();
    const auto join = join_at(symbols, best.left, remembered);
    if (!join || join->rank != best.rank) continue;
    join_with_next(symbols, best.left, join->id);
    consider(symbols[best.left].previous);
    consider(best.left);
  }
}

/// Joins neighbours for as long as `find_join(left, right)` gives a Join, the least rank first, of equals the leftmost.
/// Of n symbols it asks at most 5 n times, of a long text fewer, and takes n log n steps. Pairs of equal ids have equal
/// joins, where both ids are at most kMaxTokenId.
template <class FindJoin>
void merge_neighbours(std::vector<Symbol>& symbols, const FindJoin& find_join) {
  constexpr std::size_t kFew = 512;
  symbols.size() <= kFew ? merge_few(symbols, find_join) : merge_many(symbols, find_join);
}

}  // namespace weft::text
