// SPDX-License-Identifier: Apache-2.0

#include "formats/file_system.hpp"
#include "formats/journal.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <signal.h>
#include <unistd.h>

#include "journal_records.hpp"
#include "temporary_directory.hpp"

namespace weft::formats {
namespace {

/// Appends and commits until it is killed; tells the last record promised after each commit.
[[noreturn]] void live(const std::string& directory, std::uint64_t round, int promises) {
  const JournalOptions options{.segment_bytes = 20'000};
  const auto ignore = [](const JournalRecord&) { return Status(); };
  const auto resumed = resume_journal(real_file_system(), directory, {}, ignore, options);
  if (!resumed || !resumed->findings.damages.empty()) ::_exit(1);
  JournalWriter& journal = *resumed->writer;
  for (std::uint64_t group = 0;; ++group) {
    append_to(journal, journal.place().number + 1 + group % 7);
    if (!journal.commit((group + round) % 5 == 0)) ::_exit(2);
    const std::uint64_t written = journal.written();
    if (::write(promises, &written, sizeof written) != sizeof written) ::_exit(3);
  }
}

TEST(Journal, KeepsOnARealDiskWhatAKilledProcessHadWritten) {
  const TemporaryDirectory directory;
  RandomStream random(5, 0, RandomPurpose::test);
  std::uint64_t promised = 0;
  for (std::uint64_t round = 0; round < 25; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(ends[0]);
      live(directory.path(), round, ends[1]);
    }
    ::close(ends[1]);
    // Counted in promises, then a random moment within the next commit.
    std::uint64_t number = 0;
    for (std::uint32_t left = random.next_below(30); left > 0 && ::read(ends[0], &number, sizeof number) > 0; --left) {
      ASSERT_GE(number, promised);
      promised = number;
    }
    ::usleep(random.next_below(2000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child left by itself with " << WEXITSTATUS(status);
    while (::read(ends[0], &number, sizeof number) == sizeof number) promised = std::max(promised, number);
    ::close(ends[0]);
    const JournalFindings findings = read_all(real_file_system(), {}, directory.path());
    ASSERT_GE(findings.end.number, promised) << text_of(findings);
    ASSERT_TRUE(findings.damages.empty()) << text_of(findings);
  }
  EXPECT_GT(promised, 100u);
}

}  // namespace
}  // namespace weft::formats
