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
  std::optional<State> step(State state, char byte) const;
  /// The state at the end of `text`.
  std::optional<State> walk(std::string_view text) const;
  /// The value of the text that ends here.
  std::optional<std::uint32_t> value(State state) const {
    return values_[state] == 0 ? std::nullopt : std::optional(values_[state] - 1);
  }

 private:
  std::unordered_map<std::uint64_t, State> steps_;  // by state and byte
  std::vector<std::uint32_t> values_{0};            // of each state: 1 + its value, or 0
};

}  // namespace weft::text
