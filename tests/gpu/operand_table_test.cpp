// SPDX-License-Identifier: Apache-2.0
// Needs no device: what shaders of a command graph find in its table or push constants, by the rule that
// gpu/shaders/operands.glsl states.

#include "gpu/internal/operand_table.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace weft::gpu::operand_table_test {
namespace {

using Words = std::vector<std::uint64_t>;
constexpr std::size_t kWords = 5;

std::uint64_t step_of(std::uint64_t bits) {
  return static_cast<std::uint64_t>(static_cast<std::int32_t>(static_cast<std::uint32_t>(bits)));
}

/// Entry that a shader reads from its push constants.
Words pushed_entry(const OperandRun& run, std::size_t i, std::size_t words) {
  const auto& pushed = run.pushed;
  std::vector<std::uint64_t> steps{step_of(pushed[0]), step_of(pushed[0] >> 32), step_of(pushed[1])};
  for (std::size_t at = 2 + words; at < pushed.size(); ++at)
    for (const int half : {0, 32}) steps.push_back(step_of(pushed[at] >> half));
  EXPECT_EQ(pushed[1] >> 32, run.count);
  Words entry(pushed.begin() + 2, pushed.begin() + 2 + static_cast<std::ptrdiff_t>(words));
  std::size_t next = 0;
  for (std::size_t word = 0; word < words; ++word)
    if (run.form.moving >> word & 1u) entry[word] += i * steps.at(next++);
  return entry;
}

Words entry_of(const OperandRun& run, std::size_t i, const std::vector<std::byte>& table, std::size_t words = kWords) {
  if (run.form.is_pushed || run.form.shares == 0) return pushed_entry(run, i, words);
  const auto at = [&](std::size_t word) {
    std::uint64_t value = 0;
    EXPECT_LE(run.place + (word + 1) * 8, table.size());
    std::memcpy(&value, table.data() + run.place + word * 8, 8);
    return value;
  };
  Words entry(words);
  const std::uint32_t moving = run.form.moving, scattered = run.form.scattered;
  std::size_t own = 2 * words + i * static_cast<std::size_t>(std::popcount(scattered));
  for (std::size_t word = 0; word < words; ++word) {
    if ((moving | scattered) == 0)
      entry[word] = at(i * words + word);
    else if (scattered >> word & 1u)
      entry[word] = at(own++);
    else
      entry[word] = at(word) + (moving >> word & 1u ? i * step_of(at(words + word)) : 0);
  }
  return entry;
}

/// The runs, once it is sure that they say what was put in.
std::vector<OperandRun> expect_kept(const Words& entries, std::size_t most = 1000, bool pushes = true) {
  std::vector<std::byte> table(24, std::byte{7});
  const auto runs = tabulate(entries, kWords, {4, most, pushes}, table);
  std::size_t next = 0;
  for (const OperandRun& run : runs) {
    EXPECT_EQ(run.first, next);
    EXPECT_LE(run.count, most);
    EXPECT_GT(run.count, 0u);
    EXPECT_EQ(run.form.shares, run.count > 1 || !pushes ? 4u : 0u);  // one alone is pushed
    EXPECT_TRUE(pushes || !run.form.is_pushed);
    for (std::size_t i = 0; i < run.count; ++i, ++next)
      EXPECT_EQ(entry_of(run, i, table), Words(entries.begin() + static_cast<std::ptrdiff_t>(next * kWords),
                                               entries.begin() + static_cast<std::ptrdiff_t>((next + 1) * kWords)));
  }
  EXPECT_EQ(next * kWords, entries.size());
  return runs;
}

Words cells(std::size_t count) {
  Words entries;
  for (std::size_t i = 0; i < count; ++i)
    for (const std::uint64_t word : Words{i * 16384, i * 256 + (1ull << 40), 0, 7ull << 32 | 64, i * i})
      entries.push_back(word);
  return entries;
}

TEST(OperandTable, KeepsWhatGrowsByAStepAsItsFirstAndTheStep) {
  Words entries = cells(700);
  for (std::size_t i = 0; i < 700; ++i) entries[i * kWords + 4] = (1ull << 33) - (i << 20);
  std::vector<std::byte> table;
  const auto runs = tabulate(entries, kWords, {1, 1000}, table);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].form.moving, 0b10011u);
  EXPECT_TRUE(runs[0].form.is_pushed);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(expect_kept(entries).size(), 1u);
  EXPECT_EQ(expect_kept(entries, 300).size(), 3u);
  EXPECT_EQ(expect_kept(entries, 1000, false).at(0).form.moving, 0b10011u);
  // The first of a chain reads elsewhere.
  entries[0] = 12345;
  EXPECT_EQ(expect_kept(entries).size(), 2u);
  // Cells in blocks of 50: many runs, if they were cut.
  for (std::size_t i = 0; i < 700; ++i) entries[i * kWords + 1] = i / 50 * 100000 + i % 50 * 256;
  const auto one = expect_kept(entries);
  ASSERT_EQ(one.size(), 2u);
  EXPECT_EQ(one[1].form.scattered, 0b00010u);
  // Steps that a shader cannot multiply.
  for (std::size_t i = 0; i < 700; ++i) entries[i * kWords + 1] = i << 31;
  EXPECT_EQ(expect_kept(entries).back().form.scattered, 0b00010u);
}

TEST(OperandTable, HasTheStepsThatDoNotFitBesideTheFirst) {
  constexpr std::size_t kMostWords = 14;  // all that push constants hold: three steps have room
  for (const std::size_t moving : {3u, 4u}) {
    Words entries;
    for (std::size_t i = 0; i < 100; ++i)
      for (std::size_t word = 0; word < kMostWords; ++word)
        entries.push_back((word << 40) + (word < moving ? i * (word + 1) * 64 : 0));
    std::vector<std::byte> table;
    const auto runs = tabulate(entries, kMostWords, {1, 1000}, table);
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0].form.is_pushed, moving == 3);
    EXPECT_EQ(table.size(), moving == 3 ? 0 : 2 * kMostWords * 8);
    EXPECT_EQ(runs[0].form.moving, (1u << moving) - 1);
    for (std::size_t i = 0; i < 100; ++i)
      EXPECT_EQ(entry_of(runs[0], i, table, kMostWords),
                Words(entries.begin() + static_cast<std::ptrdiff_t>(i * kMostWords),
                      entries.begin() + static_cast<std::ptrdiff_t>((i + 1) * kMostWords)));
  }
}

TEST(OperandTable, HasAWordThatGoesItsOwnWayForEachEntry) {
  const Words entries = cells(500);  // the last word
  const auto runs = expect_kept(entries);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].form.moving, 0b00011u);
  EXPECT_EQ(runs[0].form.scattered, 0b10000u);
}

TEST(OperandTable, OfEqualEntriesHasThemWhole) {
  Words entries;
  for (int i = 0; i < 100; ++i) entries.insert(entries.end(), {1, 2, 3, 4, 5});
  EXPECT_EQ(expect_kept(entries).size(), 1u);
}

TEST(OperandTable, OfFewOrIrregularEntriesHasThemWhole) {
  EXPECT_EQ(expect_kept(cells(1)).at(0).form.shares, 0u);
  for (const std::size_t count : {2u, 63u}) {
    const auto runs = expect_kept(cells(count));
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0].form.moving | runs[0].form.scattered, 0u);
  }
  RandomStream random(5, 0, RandomPurpose::test);
  Words entries(400 * kWords);
  for (std::uint64_t& word : entries) word = random.next_below(1u << 30);
  EXPECT_EQ(expect_kept(entries).size(), 1u);
  EXPECT_EQ(expect_kept(entries, 150).size(), 3u);
}

TEST(OperandTable, KeepsRandomMixturesOfRuns) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomStream random(seed, 0, RandomPurpose::test);
    Words entries, entry(kWords), step(kWords);
    const std::uint32_t pieces = 1 + random.next_below(12);
    for (std::uint32_t piece = 0; piece < pieces; ++piece) {
      for (std::size_t word = 0; word < kWords; ++word) {
        if (random.next_below(3) == 0)
          entry[word] = std::uint64_t{random.next_below(1u << 30)} << random.next_below(33);
        step[word] = random.next_below(2) ? 0 : std::uint64_t{random.next_below(1u << 30)} << random.next_below(4);
      }
      const std::uint32_t count = 1 + random.next_below(random.next_below(2) ? 300 : 8);
      for (std::uint32_t i = 0; i < count; ++i) {
        if (seed % 3 == 0) entry[2] = random.next_below(1000);
        entries.insert(entries.end(), entry.begin(), entry.end());
        for (std::size_t word = 0; word < kWords; ++word) entry[word] += step[word];
      }
    }
    expect_kept(entries, seed % 2 ? 1000 : 90, seed % 5 != 0);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace weft::gpu::operand_table_test
