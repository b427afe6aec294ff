// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/packed_words.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace weft::learning {
namespace {

constexpr std::size_t kBlockWords = 64;

bool is_alike(std::span<const std::uint32_t> words) {
  return std::memcmp(words.data(), words.data() + 1, (words.size() - 1) * sizeof(std::uint32_t)) == 0;
}

}  // namespace

void pack_words(std::span<const std::uint32_t> words, std::vector<std::uint64_t>& packed) {
  packed.assign(1, words.size());
  const auto block = [&](std::size_t at) { return words.subspan(at, std::min(kBlockWords, words.size() - at)); };
  for (std::size_t at = 0; at < words.size() && packed.size() * 4 <= words.size();) {
    const std::size_t first = at;
    while (at < words.size() && !is_alike(block(at))) at += block(at).size();
    packed.push_back(at - first);
    for (std::size_t i = first; i < at; i += 2)
      packed.push_back(words[i] | (i + 1 < at ? std::uint64_t{words[i + 1]} << 32 : 0));
    const std::size_t same = at;
    const std::uint32_t word = at < words.size() ? words[at] : 0;
    while (at < words.size() && words[at] == word && is_alike(block(at))) at += block(at).size();
    packed.push_back(at - same);
    packed.push_back(word);
  }
  if (packed.size() * 4 > words.size()) packed.clear();
}

Result<std::vector<std::uint32_t>> unpack_words(std::span<const std::uint64_t> packed, std::size_t count,
                                                std::size_t total) {
  const auto corrupt = [] { return fail(Errc::corrupt, "learner state: packed words contradict their counts"); };
  if (packed.empty()) return corrupt();
  if (packed[0] != total)
    return fail(Errc::shape_mismatch, "learner state: " + std::to_string(packed[0]) + " words where " +
                                          std::to_string(total) + " are expected; network or learning options differ");
  std::vector<std::uint32_t> words;
  words.reserve(count);
  packed = packed.subspan(1);
  for (std::size_t left = total; left > 0 && words.size() < count;) {
    if (packed.size() < 3 || packed[0] > left || packed[0] / 2 + packed[0] % 2 + 3 > packed.size()) return corrupt();
    const std::size_t given = packed[0], pairs = given / 2 + given % 2;
    const std::uint64_t repeated = packed[pairs + 1], word = packed[pairs + 2];
    if (repeated > left - given || given + repeated == 0 || word > UINT32_MAX) return corrupt();
    const std::size_t most = std::min(given, count - words.size());
    for (std::size_t i = 0; i < most; ++i)
      words.push_back(static_cast<std::uint32_t>(packed[1 + i / 2] >> (i % 2 == 0 ? 0 : 32)));
    words.insert(words.end(), std::min<std::size_t>(repeated, count - words.size()), static_cast<std::uint32_t>(word));
    packed = packed.subspan(pairs + 3);
    left -= given + repeated;
  }
  if (words.size() != count || (count == total && !packed.empty())) return corrupt();
  return words;
}

}  // namespace weft::learning
