// SPDX-License-Identifier: Apache-2.0

#include "storage/file_system.hpp"
#include "storage/journal.hpp"

#include <gtest/gtest.h>

#include "journal_records.hpp"
#include "tests/support/killed_process.hpp"
#include "tests/support/temporary_directory.hpp"

namespace weft::storage::journal_kill_test {
namespace {

TEST(JournalKill, KeepsOnARealDiskWhatAKilledProcessHadWritten) {
  const TemporaryDirectory directory;
  RandomStream random(5, 0, RandomPurpose::test);
  std::uint64_t promised = 0;
  for (std::uint64_t round = 0; round < 25; ++round) {
    const auto run = [&](auto promise) {
      const auto ignore = [](const JournalRecord&) { return Status(); };
      const JournalOptions options{.segment_bytes = 20'000};
      const auto resumed = resume_journal(real_file_system(), directory.path(), {}, ignore, options);
      if (!resumed || !resumed->findings.damages.empty()) ::_exit(1);
      JournalWriter& journal = *resumed->writer;
      for (std::uint64_t group = 0;; ++group) {
        append_to(journal, journal.place().number + 1 + group % 7);
        if (!journal.commit((group + round) % 5 == 0)) ::_exit(2);
        promise(journal.written());
      }
    };
    promised = std::max(promised, run_until_killed(random, 30, 2000, run));
    const JournalFindings findings = read_all(real_file_system(), {}, directory.path());
    ASSERT_GE(findings.end.number, promised) << text_of(findings);
    ASSERT_TRUE(findings.damages.empty()) << text_of(findings);
  }
  EXPECT_GT(promised, 100u);
}

}  // namespace
}  // namespace weft::storage::journal_kill_test
