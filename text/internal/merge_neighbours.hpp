// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/vocabulary.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
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

/// Joins neighbours for as long as `find_join(left, right)` gives a Join, the least rank first, of equals the leftmost.
/// Of n symbols it asks at most 5 n times, and takes n log n steps.
template <class FindJoin>
void merge_neighbours(std::vector<Symbol>& symbols, const FindJoin& find_join) {
  struct Candidate {
    std::uint32_t rank, left, size;  // size: of both together, which tells whether one of them has changed
    TokenId id;
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
  };
  std::vector<Candidate> candidates;
  const auto consider = [&](std::uint32_t left) {
    if (left == kNoSymbol || symbols[left].next == kNoSymbol) return false;
    const Symbol& a = symbols[left];
    const Symbol& b = symbols[a.next];
    const std::optional<Join> join = find_join(a, b);
    if (join) candidates.push_back({join->rank, left, a.size + b.size, join->id});
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
    Symbol& left = symbols[best.left];
    if (left.size == 0 || left.next == kNoSymbol) continue;
    Symbol& right = symbols[left.next];
    if (left.size + right.size != best.size) continue;
    left.id = best.id;
    left.size = best.size;
    left.next = right.next;
    right.size = 0;
    if (left.next != kNoSymbol) symbols[left.next].previous = best.left;
    push(left.previous);
    push(best.left);
  }
}

}  // namespace weft::text
