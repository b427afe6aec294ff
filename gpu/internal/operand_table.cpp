// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/operand_table.hpp"

#include <algorithm>
#include <bit>

namespace weft::gpu {
namespace {

// Entries of a run that is worth a dispatch and a shader of its own.
constexpr std::size_t kLong = 64;
// Dispatches cost more than words in a table: a word that would cut entries into more runs goes there.
std::size_t most_runs(std::size_t entries) noexcept { return 2 + entries / 8192; }
constexpr std::uint32_t kAll = ~0u;  // words: the table has them of each entry

class Entries {
 public:
  Entries(std::span<const std::uint64_t> values, std::size_t words) : values_(values), words_(words) {}
  std::size_t count() const noexcept { return values_.size() / words_; }
  std::size_t words() const noexcept { return words_; }
  std::uint64_t at(std::size_t entry, std::size_t word) const noexcept { return values_[entry * words_ + word]; }
  std::uint64_t step(std::size_t entry, std::size_t word) const noexcept {
    return at(entry + 1, word) - at(entry, word);
  }
  /// True when a word grows from `entry` to the next by the same signed step of 32 bits as since `first`.
  bool goes_on(std::size_t first, std::size_t entry, std::size_t word) const noexcept {
    const std::uint64_t from_first = step(first, word);
    return from_first == step(entry, word) && from_first + 0x80000000u <= UINT32_MAX;
  }

 private:
  std::span<const std::uint64_t> values_;
  std::size_t words_;
};

void append(std::vector<std::byte>& table, std::uint64_t word) {
  const auto bytes = std::as_bytes(std::span(&word, 1));
  table.insert(table.end(), bytes.begin(), bytes.end());
}

/// Words that would cut the entries into many runs.
std::uint32_t scattered_words(const Entries& entries, std::size_t most) {
  std::uint32_t scattered = 0;
  for (std::size_t word = 0; word < entries.words(); ++word) {
    std::size_t runs = 1;
    for (std::size_t first = 0, i = 0; i + 1 < entries.count(); ++i)
      if (!entries.goes_on(first, i, word)) first = i + 1, ++runs;
    if (runs > most) scattered |= 1u << word;
  }
  return scattered;
}

std::size_t run_from(const Entries& entries, std::size_t first, std::size_t most, std::uint32_t scattered) {
  std::size_t count = 1;
  for (; count < most && first + count < entries.count(); ++count)
    for (std::size_t word = 0; word < entries.words(); ++word)
      if (!(scattered >> word & 1u) && !entries.goes_on(first, first + count - 1, word)) return count;
  return count;
}

/// Runs in which words grow by a step; what lies between long ones is one run.
std::vector<OperandRun> cut(const Entries& entries, std::size_t most, std::uint32_t scattered) {
  std::vector<OperandRun> runs;
  for (std::size_t first = 0; first < entries.count();) {
    const std::size_t count = run_from(entries, first, most, scattered);
    const bool is_short = count < kLong;
    if (is_short && !runs.empty() && runs.back().form.scattered == kAll && runs.back().count + count <= most)
      runs.back().count += count;
    else
      runs.push_back({first, count, {0, 0, is_short ? kAll : scattered}, 0});
    first += count;
  }
  return runs;
}

void write(const Entries& entries, OperandRun& run, std::vector<std::byte>& table) {
  run.place = table.size();
  std::uint32_t scattered = run.form.scattered;
  const auto moves = [&](std::size_t word) { return !(scattered >> word & 1u) && entries.step(run.first, word) != 0; };
  if (scattered == 0) {  // entries that agree in all have no word of either kind, by which shaders tell the forms apart
    bool is_moving = false;
    for (std::size_t word = 0; word < entries.words(); ++word) is_moving = is_moving || moves(word);
    if (!is_moving) scattered = kAll;
  }
  if (scattered != kAll) {
    for (std::size_t word = 0; word < entries.words(); ++word) append(table, entries.at(run.first, word));
    for (std::size_t word = 0; word < entries.words(); ++word) {
      if (moves(word)) run.form.moving |= 1u << word;
      append(table, moves(word) ? entries.step(run.first, word) : 0);
    }
  }
  for (std::size_t i = run.first; i < run.first + run.count; ++i)
    for (std::size_t word = 0; word < entries.words(); ++word)
      if (scattered >> word & 1u) append(table, entries.at(i, word));
  if (scattered == kAll) run.form.scattered = 0;
}

/// Stores a run of constant steps without a table: its first entry and the steps, as gpu/shaders/operands.glsl reads
/// them. False when they do not fit.
bool push(const Entries& entries, OperandRun& run, std::uint32_t scattered) {
  constexpr std::size_t kBefore = 2, kStepsBefore = 3;  // words that are no entry's, and the steps they hold
  const std::size_t capacity = kStepsBefore + 2 * (run.pushed.size() - kBefore - entries.words());
  if (run.count > 1 && scattered != 0) return false;
  std::vector<std::uint32_t> steps;
  for (std::size_t word = 0; word < entries.words(); ++word) {
    if (run.count > 1 && entries.step(run.first, word) != 0) {
      run.form.moving |= 1u << word;
      steps.push_back(static_cast<std::uint32_t>(entries.step(run.first, word)));
    }
    run.pushed[kBefore + word] = entries.at(run.first, word);
  }
  if (steps.size() > capacity) {
    run.form.moving = 0;
    return false;
  }
  run.pushed[1] = static_cast<std::uint64_t>(run.count) << 32;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (i == 2)
      run.pushed[1] |= steps[i];
    else
      run.pushed[i < 2 ? 0 : kBefore + entries.words() + (i - 3) / 2] |= std::uint64_t{steps[i]}
                                                                         << (i < 2 ? i : i - 3) % 2 * 32;
  }
  run.form.scattered = 0;
  run.form.is_pushed = run.count > 1;
  return true;
}

}  // namespace

std::vector<OperandRun> tabulate(std::span<const std::uint64_t> values, std::size_t words, const OperandLimits& limits,
                                 std::vector<std::byte>& table) {
  const Entries entries(values, words);
  const std::size_t most = limits.most;
  const std::uint32_t scattered = entries.count() < kLong ? kAll : scattered_words(entries, most_runs(entries.count()));
  std::vector<OperandRun> runs;
  // Entries that are regular in less than half of their words are not worth a shader.
  if (2 * static_cast<std::size_t>(std::popcount(scattered)) <= words)
    runs = cut(entries, most, scattered);
  else
    for (std::size_t first = 0; first < entries.count(); first += most)
      runs.push_back({first, std::min(most, entries.count() - first), {0, 0, kAll}, 0});
  for (OperandRun& run : runs) {
    if (limits.pushes && push(entries, run, run.form.scattered)) {
      run.form.shares = run.form.is_pushed ? limits.shares : 0;
      continue;
    }
    write(entries, run, table);
    run.form.shares = limits.shares;
  }
  return runs;
}

}  // namespace weft::gpu
