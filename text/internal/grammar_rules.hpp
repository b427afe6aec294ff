// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/grammar.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weft::text {

/// A set of characters: ranges, ends included, or all others.
struct CharacterSet {
  std::vector<std::pair<char32_t, char32_t>> ranges;
  bool is_negated = false;

  bool has(char32_t c) const noexcept;
  /// True where it has a character of [low, high].
  bool meets(char32_t low, char32_t high) const noexcept;
};

/// A grammar's rules as one row of parts: those of an alternative stand one behind another, then `next` where the rule
/// has another one, or `end`.
struct Grammar::Rules {
  enum class Part : std::uint8_t { character, rule, next, end };
  struct Element {
    Part part = Part::end;
    std::uint32_t index = 0;  // of the set or rule
  };
  std::string source, name;
  std::vector<CharacterSet> sets;
  std::vector<Element> elements;
  std::vector<std::uint32_t> begins;  // of each rule: its first element
  std::uint32_t root = 0;
};

using GrammarPart = Grammar::Rules::Part;

/// Refuses rules that call themselves before they take a character, from which no machine comes back.
Status check_left_recursion(const Grammar::Rules& rules, const std::vector<std::string>& names);

}  // namespace weft::text
