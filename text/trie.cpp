// SPDX-License-Identifier: Apache-2.0

#include "text/trie.hpp"

namespace weft::text {
namespace {

std::uint64_t step_key(Trie::State state, char byte) {
  return std::uint64_t{state} << 8 | static_cast<unsigned char>(byte);
}

}  // namespace

bool Trie::add(std::string_view text, std::uint32_t value) {
  State state = kBegin;
  for (const char byte : text) {
    const auto next = static_cast<State>(nodes_.size());
    if (const auto known = step(state, byte)) {
      state = *known;
      continue;
    }
    if (Node& node = nodes_[state]; node.next == kBegin) {
      node.next = next;
      node.byte = byte;
    } else {
      node.has_more = true;
      more_.emplace(step_key(state, byte), next);
    }
    nodes_.emplace_back();
    state = next;
  }
  if (nodes_[state].value != 0) return false;
  nodes_[state].value = value + 1;
  return true;
}

std::optional<Trie::State> Trie::step_further(State state, char byte) const {
  const auto found = more_.find(step_key(state, byte));
  return found == more_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Trie::State> Trie::walk(std::string_view text) const {
  State state = kBegin;
  for (const char byte : text) {
    const auto next = step(state, byte);
    if (!next) return std::nullopt;
    state = *next;
  }
  return state;
}

}  // namespace weft::text
