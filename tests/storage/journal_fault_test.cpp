// SPDX-License-Identifier: Apache-2.0

#include "storage/journal.hpp"

#include <gtest/gtest.h>

#include "journal_records.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/memory_file_system.hpp"
#include "tests/support/recording_file_system.hpp"
#include "tests/thorough.hpp"
#include <atomic>
#include <thread>

namespace weft::storage::journal_fault_test {
namespace {

using enum FaultKind;

constexpr JournalOptions kSmall{.segment_bytes = 400};
const auto ignore = [](const JournalRecord&) { return Status(); };

/// Promises made to one process.
struct Promises {
  JournalPlace checkpoint;    // held elsewhere, durably
  std::uint64_t synced = 0;   // outlives a power cut
  std::uint64_t written = 0;  // outlives the process
  std::uint64_t appended = 0;
};

/// A process: goes on after what it finds, appends and commits in groups, and once hands all to a checkpoint.
void run(FileSystem& files, Promises& promises, std::uint64_t groups, std::uint64_t checkpoint_after) {
  const auto resumed = resume_journal(files, "j", promises.checkpoint, ignore, kSmall);
  if (!resumed) return;
  JournalWriter& journal = *resumed->writer;
  const auto promise = [&] {
    promises.synced = std::max(promises.synced, journal.synced());
    promises.written = std::max(promises.written, journal.written());
    promises.appended = std::max(promises.appended, journal.place().number);
  };
  promise();
  for (std::uint64_t group = 1; group <= groups; ++group) {
    append_to(journal, journal.place().number + 1 + group % 4);
    (void)journal.commit(group % 3 != 0);
    promise();
    if (group != checkpoint_after) continue;
    promises.checkpoint = journal.place();
    journal.forget(promises.checkpoint.number);
    EXPECT_EQ(journal.waiting_bytes(), 0u);
    (void)prune_journal(files, "j", promises.checkpoint.number);
    promise();
  }
}

/// All that was promised is there, and no damage is reported.
void expect_kept(MemoryFileSystem& files, const Promises& promises, std::uint64_t at_least, const std::string& what) {
  const JournalFindings findings = read_all(files, promises.checkpoint);
  EXPECT_GE(findings.end.number, at_least) << what << ": " << text_of(findings);
  EXPECT_LE(findings.end.number, promises.appended) << what;
  EXPECT_TRUE(findings.damages.empty()) << what << ": " << text_of(findings);
}

/// The same for what a further process makes of it, after which the power goes again.
void expect_goes_on(MemoryFileSystem& files, Promises promises, std::uint64_t at_least, std::uint64_t seed,
                    const std::string& what) {
  expect_kept(files, promises, at_least, what);
  run(files, promises, 3, 0);
  files.power_cut(seed + 1000);
  expect_kept(files, promises, promises.synced, what + ", and the next process");
}

struct Trial {
  std::uint64_t calls = 0;
  std::uint64_t struck = 0;
};

/// A process leaves a journal, partly unsynced; the next one meets the fault; then it is killed, or the power goes.
Trial try_fault(const Fault& fault, std::uint64_t checkpoint_after, const std::string& what) {
  MemoryFileSystem memory;
  EXPECT_TRUE(memory.make_directory("j") && memory.sync_directory("."));
  Promises promises;
  run(memory, promises, 6, 0);
  memory.process_crash();
  FaultFileSystem faulty(memory, [&](const std::string& path) { memory.lose_unsynced(path); });
  RecordingFileSystem files(faulty);
  faulty.set(fault);
  run(files, promises, 9, checkpoint_after);
  EXPECT_EQ(files.use_after_failure(), "") << what;
  for (std::uint64_t seed = 0; seed < 12 && !testing::Test::HasFailure(); ++seed) {
    const auto machine = memory.copy();
    machine->power_cut(seed);
    expect_goes_on(*machine, promises, promises.synced, seed, what + ", power cut " + std::to_string(seed));
  }
  memory.process_crash();
  expect_goes_on(memory, promises, promises.written, 0, what + ", killed");
  return {faulty.calls(), faulty.struck()};
}

void try_everywhere(FaultKind kind, std::uint64_t more) {
  for (const std::uint64_t checkpoint_after : {0, 4, 7}) {
    for (std::uint64_t at = first_struck(1);; at += struck_stride(1)) {
      const std::string what = "fault " + std::to_string(static_cast<int>(kind)) + " in calls " + std::to_string(at) +
                               " to " + std::to_string(at + more) + ", checkpoint after " +
                               std::to_string(checkpoint_after);
      const Trial trial = try_fault({kind, at, at + more}, checkpoint_after, what);
      if (testing::Test::HasFailure()) return;
      if (trial.calls >= at) continue;
      EXPECT_GT(at, 40u) << "the faults must have covered a run";
      break;
    }
  }
}

TEST(JournalFaults, KeepsWhatIsPromisedAfterACrashInAnyCall) { try_everywhere(crash, 0); }
TEST(JournalFaults, KeepsWhatIsPromisedWhenTheDiskIsFull) {
  for (const std::uint64_t more : {0, 1, 12}) try_everywhere(no_space, more);
}
TEST(JournalFaults, KeepsWhatIsPromisedWhenCallsFail) {
  for (const std::uint64_t more : {0, 1, 12}) try_everywhere(io_error, more);
}
TEST(JournalFaults, KeepsWhatIsPromisedWhenCallsAreInterruptedOrShort) {
  for (const FaultKind kind : {interrupted, short_write}) try_everywhere(kind, 0);
}
TEST(JournalFaults, KeepsWhatIsPromisedWhenCallsSayTheyFailedAndDidNot) {
  for (const std::uint64_t more : {0, 5}) try_everywhere(late_error, more);
}

TEST(JournalFaults, TellsSectorsThatAPowerCutLostFromDamage) {
  MemoryFileSystem memory;
  ASSERT_TRUE(memory.make_directory("j") && memory.sync_directory("."));
  JournalWriter journal(memory, "j", {});
  append_to(journal, 10);
  ASSERT_TRUE(journal.commit(true));
  append_to(journal, 200);
  ASSERT_TRUE(journal.commit(false));
  std::uint64_t torn = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto machine = memory.copy();
    machine->power_cut(seed);
    const JournalFindings findings = read_all(*machine);
    EXPECT_GE(findings.end.number, 10u);
    EXPECT_TRUE(findings.damages.empty()) << text_of(findings);
    torn += findings.torn_records != 0;
  }
  EXPECT_GT(torn, 5u) << "whole records behind lost sectors";
  ASSERT_TRUE(journal.commit(true));
  append_to(journal, 201);
  ASSERT_TRUE(journal.commit(false));
  ASSERT_TRUE(memory.flip_bit("j/journal-00000000000000000001", 8 * 6000));
  const JournalFindings findings = read_all(memory);
  ASSERT_EQ(findings.damages.size(), 1u) << "the record behind says that this one was on the device";
  EXPECT_NE(findings.damages[0].find("whole records follow"), std::string::npos) << text_of(findings);
}

TEST(JournalFaults, NoticesWhatTheDiskStoredWrongly) {
  std::uint64_t noticed = 0;
  for (std::uint64_t at = 1;; ++at) {
    MemoryFileSystem memory;
    ASSERT_TRUE(memory.make_directory("j"));
    FaultFileSystem files(memory);
    files.set({wrong_bit, at, at, FileOperation::write});
    JournalWriter journal(files, "j", {}, kSmall);
    for (std::uint64_t last = 2; last <= 30; last += 2) {
      append_to(journal, last);
      ASSERT_TRUE(journal.commit(true));
    }
    const JournalFindings findings = read_all(memory);
    if (files.calls() < at) break;
    ASSERT_LT(findings.end.number, 30u);
    EXPECT_NE(findings.torn_bytes + findings.damages.size(), 0u) << "write " << at;
    EXPECT_EQ(findings.damages.empty(), findings.end.number >= 28) << text_of(findings);
    ++noticed;
  }
  EXPECT_GT(noticed, 15u);
}

TEST(JournalFaults, GivesUpADescriptorAtItsFirstFailureAndWritesAllAgain) {
  for (const FileOperation only : {FileOperation::sync, FileOperation::write, FileOperation::sync_directory}) {
    MemoryFileSystem memory;
    ASSERT_TRUE(memory.make_directory("j") && memory.sync_directory("."));
    FaultFileSystem faulty(memory, [&](const std::string& path) { memory.lose_unsynced(path); });
    RecordingFileSystem files(faulty);
    JournalWriter journal(files, "j", {});
    append_to(journal, 3);
    faulty.set({io_error, 1, 4, only});
    for (int failure = 1; failure <= 4; ++failure) {
      append_to(journal, journal.place().number + 1);
      const Status status = journal.commit(true);
      ASSERT_FALSE(status);
      EXPECT_NE(status.error().text().find("Input/output error"), std::string::npos);
      EXPECT_EQ(journal.synced(), 0u);
      EXPECT_EQ(journal.waiting_bytes(), journal.appended_bytes());
    }
    ASSERT_TRUE(journal.commit(true));
    EXPECT_EQ(journal.synced(), 7u);
    EXPECT_EQ(journal.waiting_bytes(), 0u);
    EXPECT_EQ(files.use_after_failure(), "");
    EXPECT_EQ(*memory.list("j"), std::vector<std::string>{"journal-00000000000000000001.4"}) << "no litter";
    memory.power_cut(1);
    EXPECT_EQ(read_all(memory).end.number, 7u);
  }
}

TEST(JournalFaults, KeepsTheFileOfAFailedSyncUntilItsRecordsAreElsewhere) {
  MemoryFileSystem memory;
  ASSERT_TRUE(memory.make_directory("j"));
  FaultFileSystem files(memory);
  JournalWriter journal(files, "j", {});
  append_to(journal, 5);
  ASSERT_TRUE(journal.commit(false));
  EXPECT_EQ(journal.written(), 5u);
  files.set({io_error, 1, 1, FileOperation::sync});
  EXPECT_FALSE(journal.commit(true));
  EXPECT_EQ(read_all(memory).end.number, 5u) << "what was promised to outlive the process";
  files.set({no_space, 2, 2, FileOperation::write});  // the head, but not the records
  EXPECT_FALSE(journal.commit(true));
  EXPECT_EQ(read_all(memory).end.number, 5u);
  ASSERT_TRUE(journal.commit(true));
  EXPECT_EQ(*memory.list("j"), std::vector<std::string>{"journal-00000000000000000001.2"});
  EXPECT_EQ(read_all(memory).end.number, 5u);
}

TEST(JournalFaults, ForgetsWhatACheckpointHoldsWhileTheDiskIsFullAndBeginsBehindIt) {
  MemoryFileSystem memory;
  ASSERT_TRUE(memory.make_directory("j"));
  FaultFileSystem files(memory);
  JournalWriter journal(files, "j", {});
  files.set({no_space, 1, 1'000'000});
  for (std::uint64_t last = 1; last <= 20; ++last) {
    append_to(journal, last);
    EXPECT_FALSE(journal.commit(true));
  }
  const std::uint64_t all = journal.waiting_bytes();
  journal.forget(12);
  EXPECT_LT(journal.waiting_bytes(), all);
  EXPECT_EQ(journal.synced(), 12u);
  files.clear();
  ASSERT_TRUE(journal.commit(true));
  EXPECT_EQ(journal.synced(), 20u);
  EXPECT_EQ(*journal_segments(memory, "j"), std::vector<std::uint64_t>{13});
  EXPECT_EQ(read_all(memory, place_after(12)).end.number, 20u);
  const JournalFindings findings = read_all(memory);
  ASSERT_EQ(findings.damages.size(), 1u);
  EXPECT_NE(findings.damages[0].find("records 1 to 12 are in no segment before it"), std::string::npos);
}

TEST(JournalFaults, ForgettingWhatWasNotWrittenEndsTheOpenSegment) {
  MemoryFileSystem memory;
  ASSERT_TRUE(memory.make_directory("j"));
  JournalWriter journal(memory, "j", {});
  append_to(journal, 5);
  ASSERT_TRUE(journal.commit(true));
  append_to(journal, 9);
  journal.forget(7);
  append_to(journal, 11);
  ASSERT_TRUE(journal.commit(true));
  EXPECT_EQ(*journal_segments(memory, "j"), (std::vector<std::uint64_t>{1, 8}));
  EXPECT_EQ(read_all(memory, place_after(7)).end.number, 11u);
}

TEST(JournalFaults, CommitsOnOneThreadWhileAnotherAppends) {
  MemoryFileSystem memory;
  ASSERT_TRUE(memory.make_directory("j"));
  FaultFileSystem files(memory);
  JournalWriter journal(files, "j", {}, {.segment_bytes = 20'000});
  std::atomic<bool> is_done = false;
  std::thread flusher([&] {
    for (std::uint64_t round = 0; !is_done; ++round) {
      if (round % 7 == 3) files.set({io_error, 1 + round % 4});
      (void)journal.commit(round % 3 == 0);
    }
  });
  std::uint64_t forgotten = 0;
  for (std::uint64_t last = 1; last <= 20'000; ++last) {
    append_to(journal, last);
    if (last % 1000 == 0) {
      forgotten = last / 2;
      journal.forget(forgotten);
    }
    const std::uint64_t synced = journal.synced();  // first: both only grow
    EXPECT_LE(synced, journal.written());
    EXPECT_LE(journal.written(), last);
  }
  is_done = true;
  flusher.join();
  files.clear();
  ASSERT_TRUE(journal.commit(true));
  EXPECT_EQ(journal.synced(), 20'000u);
  EXPECT_EQ(journal.waiting_bytes(), 0u);
  const JournalFindings findings = read_all(memory, place_after(forgotten));
  EXPECT_EQ(findings.end.number, 20'000u) << text_of(findings);
}

}  // namespace
}  // namespace weft::storage::journal_fault_test
