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
    const auto [at, is_new] = steps_.try_emplace(step_key(state, byte), static_cast<State>(values_.size()));
    if (is_new) values_.push_back(0);
    state = at->second;
  }
  if (values_[state] != 0) return false;
  values_[state] = value + 1;
  return true;
}

std::optional<Trie::State> Trie::step(State state, char byte) const {
  const auto found = steps_.find(step_key(state, byte));
  return found == steps_.end() ? std::nullopt : std::optional(found->second);
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
