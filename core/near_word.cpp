// SPDX-License-Identifier: Apache-2.0

#include "core/near_word.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace weft {
namespace {

std::string folded(std::string_view word) {
  std::string out(word);
  for (char& c : out) c = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

/// Letters left out, added, replaced or swapped with their neighbour (optimal string alignment).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::array<std::size_t, 3>> rows(b.size() + 1);  // of j: two rows ago, one ago, now
  for (std::size_t j = 0; j <= b.size(); ++j) rows[j] = {0, 0, j};
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (auto& row : rows) row = {row[1], row[2], 0};
    rows[0][2] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = rows[j - 1][1] + (a[i - 1] != b[j - 1]);
      rows[j][2] = std::min({rows[j][1] + 1, rows[j - 1][2] + 1, changed});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        rows[j][2] = std::min(rows[j][2], rows[j - 2][0] + 1);
    }
  }
  return rows[b.size()][2];
}

}  // namespace

std::optional<std::string_view> nearest_word(std::string_view given, std::span<const std::string_view> known) {
  constexpr std::size_t kLongest = 64;
  if (given.empty() || given.size() > kLongest) return std::nullopt;
  const std::string wanted = folded(given);
  std::optional<std::string_view> nearest;
  std::size_t best = SIZE_MAX;
  for (const std::string_view word : known) {
    if (word.size() > kLongest) continue;
    const std::string candidate = folded(word);
    const bool is_abbreviation = wanted.size() >= 3 && candidate.starts_with(wanted);
    const std::size_t away = is_abbreviation ? 1 : distance(wanted, candidate);
    const std::size_t most = std::max<std::size_t>(1, std::max(wanted.size(), candidate.size()) / 3);
    if (away > most || away >= best || away >= std::min(wanted.size(), candidate.size())) continue;
    best = away;
    nearest = word;
  }
  return nearest;
}

std::string did_you_mean(std::string_view given, std::span<const std::string_view> known) {
  const auto nearest = nearest_word(given, known);
  return nearest ? "; did you mean '" + std::string(*nearest) + "'?" : std::string();
}

}  // namespace weft
