// SPDX-License-Identifier: Apache-2.0

#include "models/sequence_breakers.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace weft::models {

SequenceBreakers::SequenceBreakers(std::span<const Tokens> sequences) {
  for (const Tokens& each : sequences)
    if (!each.empty()) add(each.front(), ending(Tokens(each.begin() + 1, each.end())));
}

std::uint32_t SequenceBreakers::ending(Tokens following) {
  const auto known = std::find(endings_.begin(), endings_.end(), following);
  const auto index = static_cast<std::uint32_t>(known - endings_.begin());
  if (known == endings_.end()) endings_.push_back(std::move(following));
  return index;
}

void SequenceBreakers::add(text::TokenId first, std::uint32_t ending) {
  auto& known = by_first_[first];
  if (std::find(known.begin(), known.end(), ending) == known.end()) known.push_back(ending);
}

Result<std::shared_ptr<const SequenceBreakers>> SequenceBreakers::make(const text::Tokenizer& tokenizer,
                                                                       std::span<const std::string> texts) {
  const std::shared_ptr<SequenceBreakers> made(new SequenceBreakers());
  struct Text {
    std::string_view text;
    std::vector<std::optional<std::uint32_t>> endings;  // by the bytes before them
  };
  std::array<std::vector<Text>, 256> by_first_byte;
  for (const std::string& text : texts)
    by_first_byte[static_cast<unsigned char>(text.front())].push_back(
        {text, std::vector<std::optional<std::uint32_t>>(text.size())});
  for (std::size_t i = 0; i < tokenizer.size(); ++i) {
    const auto id = static_cast<text::TokenId>(i);
    const std::string bytes = tokenizer.token_bytes(id);
    for (std::size_t at = 0; at < bytes.size(); ++at)
      for (auto& [text, endings] : by_first_byte[static_cast<unsigned char>(bytes[at])]) {
        const std::string_view rest = std::string_view(bytes).substr(at);
        if (rest.starts_with(text)) made->add(id, 0);
        if (rest.size() >= text.size() || !text.starts_with(rest) || bytes.find(text) != bytes.npos) continue;
        auto& ending = endings[rest.size()];  // the rest of the text comes in the next tokens
        if (!ending) {
          const text::EncodeOptions plain{.add_special = false, .parse_special = false};
          WEFT_TRY(Tokens following, tokenizer.encode(text.substr(rest.size()), plain));
          following.resize(std::min(following.size(), kMostFollowing));
          ending = made->ending(std::move(following));
        }
        made->add(id, *ending);
      }
  }
  return std::shared_ptr<const SequenceBreakers>(made);
}

bool SequenceBreakers::is_single(text::TokenId id) const {
  const auto found = by_first_.find(id);
  return found != by_first_.end() && std::find(found->second.begin(), found->second.end(), 0u) != found->second.end();
}

std::size_t SequenceBreakers::unbroken(std::span<const text::TokenId> ids) const {
  for (std::size_t after = 0; after < ids.size(); ++after) {
    const auto found = by_first_.find(ids[ids.size() - 1 - after]);
    if (found == by_first_.end()) continue;
    const auto rest = ids.last(after);
    std::optional<std::size_t> longest;
    for (const std::uint32_t index : found->second)
      if (const Tokens& each = endings_[index];
          each.size() <= after && std::equal(each.begin(), each.end(), rest.begin()))
        longest = std::max(longest.value_or(0), each.size());
    if (longest) return after - *longest;
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
