// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft::text {

/// Texts by their beginnings: all that a place of a text begins with are found in one walk from there.
/// @thread any: immutable after the last `add`
class Trie {
 public:
  /// A place reached by the bytes walked so far; the first is where all walks begin.
  using State = std::uint32_t;
  static constexpr State kBegin = 0;

  /// False where that text is there already.
  bool add(std::string_view text, std::uint32_t value);
  /// The state one byte further; nothing where no text goes on so.
  std::optional<State> step(State state, char byte) const {
    const Node& node = nodes_[state];
    if (node.byte == byte && node.next != kBegin) return node.next;
    return node.has_more ? step_further(state, byte) : std::nullopt;
  }
  /// Calls `found(value, end)` for each text that stands at `begin`, the shortest first.
  template <class Found>
  void each_at(std::string_view text, std::size_t begin, const Found& found) const {
    const Node* const nodes = nodes_.data();
    State state = kBegin;
    for (std::size_t at = begin; at < text.size();) {
      const Node& node = nodes[state];
      if (node.byte == text[at] && node.next != kBegin) {
        state = node.next;
      } else {
        const auto other = node.has_more ? step_further(state, text[at]) : std::nullopt;
        if (!other) return;
        state = *other;
      }
      ++at;
      if (nodes[state].value != 0) found(nodes[state].value - 1, at);
    }
  }
  /// The state at the end of `text`.
  std::optional<State> walk(std::string_view text) const;
  /// The value of the text that ends here.
  std::optional<std::uint32_t> value(State state) const {
    return nodes_[state].value == 0 ? std::nullopt : std::optional(nodes_[state].value - 1);
  }

 private:
  std::optional<State> step_further(State state, char byte) const;

  struct Node {
    std::uint32_t value = 0;  // 1 + it, or 0: no text ends here
    State next = kBegin;      // after `byte`, the first way on that was added; kBegin: none
    char byte = 0;
    bool has_more = false;  // ways on, in more_
  };
  std::vector<Node> nodes_{Node()};
  std::unordered_map<std::uint64_t, State> more_;  // by state and byte
};

}  // namespace weft::text
