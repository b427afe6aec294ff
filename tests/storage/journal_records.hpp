// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/journal.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::storage {

/// The record of a number, so that any other in its place shows.
struct Expected {
  explicit Expected(std::uint64_t number) : kind(static_cast<std::uint32_t>(number % 5)) {
    RandomStream random(number, 0, RandomPurpose::test);
    payload.resize(random.next_below(40));
    for (auto& b : payload) b = static_cast<std::byte>(random.next_u32());
  }
  std::uint32_t kind;
  std::vector<std::byte> payload;
};

inline JournalPlace place_after(std::uint64_t number) {
  JournalPlace place;
  while (place.number < number) {
    const Expected next(place.number + 1);
    place = after(place, next.kind, next.payload);
  }
  return place;
}

inline void append_to(JournalWriter& journal, std::uint64_t last) {
  while (journal.place().number < last) {
    const Expected next(journal.place().number + 1);
    journal.append(next.kind, next.payload);
  }
}

/// Reads all and checks each record against what was written.
inline JournalFindings read_all(FileSystem& files, const JournalPlace& from = {}, const std::string& directory = "j") {
  std::uint64_t number = from.number;
  const auto findings = read_journal(files, directory, from, [&](const JournalRecord& record) {
    const Expected expected(++number);
    EXPECT_EQ(record.number, number);
    EXPECT_EQ(record.kind, expected.kind);
    EXPECT_TRUE(std::ranges::equal(record.payload, expected.payload)) << "record " << number;
    return Status();
  });
  EXPECT_TRUE(findings) << findings.error().text();
  if (!findings) return {};
  EXPECT_EQ(findings->end.number, number);
  EXPECT_EQ(findings->end, place_after(number));
  EXPECT_EQ(findings->records, number - from.number);
  return *findings;
}

inline std::string text_of(const JournalFindings& findings) {
  std::string text = "ends at " + std::to_string(findings.end.number) + ", torn " + std::to_string(findings.torn_bytes);
  for (const std::string& line : findings.damages) text += "; " + line;
  return text;
}

}  // namespace weft::storage
