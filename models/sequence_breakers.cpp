// SPDX-License-Identifier: Apache-2.0

#include "models/sequence_breakers.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace weft::models {

SequenceBreakers::SequenceBreakers(std::size_t vocabulary, Bytes bytes, std::span<const std::string> texts)
    : bytes_(std::move(bytes)) {
  struct Text {
    std::string_view text;
    std::vector<std::optional<std::uint32_t>> remainders;  // by the bytes before them
  };
  std::array<std::vector<Text>, 256> by_first_byte;
  for (const std::string& text : texts)
    by_first_byte[static_cast<unsigned char>(text.front())].push_back(
        {text, std::vector<std::optional<std::uint32_t>>(text.size() + 1)});
  for (std::size_t i = 0; i < vocabulary; ++i) {
    const auto id = static_cast<text::TokenId>(i);
    const std::string all = bytes_(id);
    for (std::size_t at = 0; at < all.size(); ++at)
      for (auto& [text, remainders] : by_first_byte[static_cast<unsigned char>(all[at])]) {
        const std::string_view here = std::string_view(all).substr(at, text.size());
        const bool is_whole = here == text;
        // The rest of a text that no token holds comes in the next ones.
        if (!is_whole && (at + here.size() < all.size() || !text.starts_with(here) || all.find(text) != all.npos))
          continue;
        auto& rest = remainders[here.size()];
        if (!rest) rest = index_of(text.substr(here.size()));
        longest_ = std::max(longest_, text.size() - here.size());
        std::vector<std::uint32_t>& own = by_first_[id];
        if (std::find(own.begin(), own.end(), *rest) == own.end()) own.push_back(*rest);
      }
  }
}

std::uint32_t SequenceBreakers::index_of(std::string_view rest) {
  const auto at = std::find(remainders_.begin(), remainders_.end(), rest);
  const auto index = static_cast<std::uint32_t>(at - remainders_.begin());
  if (at == remainders_.end()) remainders_.emplace_back(rest);
  return index;
}

bool SequenceBreakers::is_single(text::TokenId id) const {
  const auto found = by_first_.find(id);
  return found != by_first_.end() && std::find(found->second.begin(), found->second.end(), 0u) != found->second.end();
}

std::size_t SequenceBreakers::unbroken(std::span<const text::TokenId> ids) const {
  // Bytes that the last `known` tokens begin with: where a token in front of them may begin a text, one more token's.
  std::string following;
  std::size_t known = 0;
  const auto follow = [&](std::size_t after) {
    if (after == known + 1) {
      following.insert(0, bytes_(ids[ids.size() - after]));
    } else if (after != known) {
      following.clear();
      for (std::size_t i = 0; i < after && following.size() < longest_; ++i)
        following += bytes_(ids[ids.size() - after + i]);
    }
    following.resize(std::min(following.size(), longest_));
    known = after;
  };
  for (std::size_t after = 0; after < ids.size(); ++after) {
    const auto found = by_first_.find(ids[ids.size() - 1 - after]);
    if (found == by_first_.end()) continue;
    follow(after);
    std::optional<std::size_t> longest;
    for (const std::uint32_t index : found->second)
      if (following.starts_with(remainders_[index])) longest = std::max(longest.value_or(0), remainders_[index].size());
    if (!longest) continue;
    std::size_t tokens = 0;
    for (std::size_t bytes = 0; bytes < *longest; ++tokens) bytes += bytes_(ids[ids.size() - after + tokens]).size();
    return after - tokens;
  }
  return ids.size();
}

std::unordered_map<text::TokenId, std::size_t> repeated_runs(std::span<const text::TokenId> ids, std::size_t least,
                                                             std::size_t most) {
  std::unordered_map<text::TokenId, std::size_t> longest;
  // Lengths by the Z algorithm, from the end: those inside the run that reaches furthest are known by its beginning.
  const std::size_t count = ids.size();
  const auto from_end = [&](std::size_t i) { return ids[count - 1 - i]; };
  std::vector<std::size_t> lengths(count, 0);
  std::size_t begin = 0, end = 0;  // of that run
  for (std::size_t k = 1; k < count; ++k) {
    std::size_t length = k < end ? std::min(lengths[k - begin], end - k) : 0;
    while (k + length < count && from_end(length) == from_end(k + length)) ++length;
    lengths[k] = length;
    if (k + length > end) begin = k, end = k + length;
    if (const std::size_t run = std::min(length, most); run >= least) {
      std::size_t& known = longest.try_emplace(from_end(k - 1), run).first->second;
      known = std::max(known, run);
    }
  }
  return longest;
}

}  // namespace weft::models
