// SPDX-License-Identifier: Apache-2.0

#include "storage/journal.hpp"

#include "storage/internal/journal_frame.hpp"

#include <gtest/gtest.h>

#include "journal_records.hpp"
#include "tests/support/memory_file_system.hpp"
#include "tests/support/recording_file_system.hpp"
#include <cstring>

namespace weft::storage::journal_test {
namespace {

struct Fixture : testing::Test {
  Fixture() { EXPECT_TRUE(files.make_directory("j") && files.sync_directory(".")); }
  /// Records 1 to `last`, in segments of a few hundred bytes.
  void fill(std::uint64_t last, std::uint64_t segment_bytes = 600) {
    JournalWriter journal(files, "j", {}, {.segment_bytes = segment_bytes});
    append_to(journal, last);
    ASSERT_TRUE(journal.commit(true));
  }
  std::size_t size_of(const std::string& path) { return files.read(path, SIZE_MAX)->size(); }
  MemoryFileSystem files;
};
using Journal = Fixture;

TEST_F(Journal, GivesBackWhatWasWrittenOverSegmentsAndFromAnyPlace) {
  fill(100);
  const auto segments = journal_segments(files, "j");
  ASSERT_GT(segments->size(), 5u);
  EXPECT_EQ(segments->front(), 1u);
  for (const std::uint64_t from : {0u, 1u, 37u, 99u, 100u}) {
    const JournalFindings findings = read_all(files, place_after(from));
    EXPECT_EQ(findings.end.number, 100u);
    EXPECT_EQ(findings.torn_bytes, 0u);
    EXPECT_TRUE(findings.damages.empty()) << text_of(findings);
  }
}

TEST_F(Journal, IsEmptyBeforeTheFirstCommitAndOpensNoFile) {
  JournalWriter journal(files, "j", {});
  EXPECT_EQ(journal.append(1, as_bytes("x")).number, 1u);
  EXPECT_TRUE(files.list("j")->empty());
  EXPECT_EQ(read_all(files).end, JournalPlace{});
  const JournalPlace there{7, {1, 2}};
  EXPECT_EQ(read_all(files, JournalPlace{}).records, 0u);
  EXPECT_EQ(read_journal(files, "j", there, [](const JournalRecord&) { return Status(); })->end, there);
}

TEST_F(Journal, CommitsAGroupAtOnceAndCountsWhatWaits) {
  RecordingFileSystem recording(files);
  JournalWriter journal(recording, "j", {});
  const auto calls = [&] {
    std::string text;
    for (const RecordedCall& call : recording.calls())
      text += std::string(text.empty() ? "" : ", ") + std::string(name(call.operation));
    recording.clear();
    return text;
  };
  append_to(journal, 50);
  EXPECT_EQ(journal.waiting_bytes(), journal.appended_bytes());
  EXPECT_EQ(journal.written(), 0u);
  EXPECT_EQ(calls(), "") << "append makes no call";
  ASSERT_TRUE(journal.commit(false));
  EXPECT_EQ(calls(), "list, open, write, write");
  EXPECT_EQ(journal.written(), 50u);
  EXPECT_EQ(journal.synced(), 0u);
  EXPECT_EQ(journal.waiting_bytes(), journal.appended_bytes()) << "not on the device yet";
  append_to(journal, 60);
  ASSERT_TRUE(journal.commit(true));
  EXPECT_EQ(calls(), "write, sync, sync_directory");
  EXPECT_EQ(journal.synced(), 60u);
  EXPECT_EQ(journal.waiting_bytes(), 0u);
  ASSERT_TRUE(journal.commit(true));
  EXPECT_EQ(calls(), "") << "nothing to do";
  append_to(journal, 61);
  ASSERT_TRUE(journal.commit(true));
  EXPECT_EQ(calls(), "write, sync") << "the directory knows of the segment";
  EXPECT_EQ(read_all(files).end, journal.place());
}

TEST_F(Journal, GoesOnAfterAnotherProcess) {
  fill(10);
  JournalWriter journal(files, "j", read_all(files).end, {.segment_bytes = 600});
  append_to(journal, 25);
  ASSERT_TRUE(journal.commit(true));
  EXPECT_EQ(read_all(files).end.number, 25u);
}

TEST_F(Journal, TakesLargeAndEmptyRecords) {
  JournalWriter journal(files, "j", {});
  const std::vector<std::byte> large(std::size_t{3} << 20, std::byte{7});
  const ByteSpan payloads[] = {{}, large, as_bytes("x"), large, {}};
  for (const ByteSpan payload : payloads) journal.append(9, payload);
  ASSERT_TRUE(journal.commit(true));
  EXPECT_EQ(journal.waiting_bytes(), 0u);
  std::size_t i = 0;
  const auto findings = read_journal(files, "j", {}, [&](const JournalRecord& record) {
    EXPECT_TRUE(std::ranges::equal(record.payload, payloads[i++]));
    return Status();
  });
  EXPECT_EQ(i, 5u);
  EXPECT_EQ(findings->end, journal.place());
}

TEST_F(Journal, EndsAtTheErrorOfItsVisitor) {
  fill(10);
  const auto findings = read_journal(files, "j", {}, [&](const JournalRecord& record) {
    return record.number < 5 ? Status() : Status(fail(Errc::interrupted, "enough"));
  });
  EXPECT_EQ(findings.error().code(), Errc::interrupted);
}

TEST_F(Journal, CutsATornTailAtEveryByte) {
  fill(12, 1 << 20);
  const std::string path = "j/journal-00000000000000000001";
  std::vector<std::size_t> ends = {64};
  for (std::uint64_t n = 1; n <= 12; ++n) ends.push_back(ends.back() + 48 + (Expected(n).payload.size() + 7) / 8 * 8);
  ASSERT_EQ(ends.back(), size_of(path));
  for (std::size_t size = 0; size < size_of(path); ++size) {
    const auto cut = files.copy();
    cut->resize(path, size);
    const std::size_t whole =
        size < 64 ? 0 : std::size_t(std::upper_bound(ends.begin(), ends.end(), size) - ends.begin()) - 1;
    JournalFindings findings = read_all(*cut);
    ASSERT_EQ(findings.end.number, whole) << "cut at " << size;
    EXPECT_EQ(findings.torn_bytes, size < 64 ? size : size - ends[whole]);
    EXPECT_TRUE(findings.damages.empty()) << text_of(findings);
    JournalWriter journal(*cut, "j", findings.end);
    append_to(journal, whole + 3);
    ASSERT_TRUE(journal.commit(true));
    findings = read_all(*cut);
    EXPECT_EQ(findings.end.number, whole + 3);
    EXPECT_EQ(findings.torn_bytes, 0u);
    EXPECT_TRUE(findings.damages.empty()) << text_of(findings);
  }
}

TEST_F(Journal, NoticesEveryFlippedBit) {
  JournalWriter journal(files, "j", {}, {.segment_bytes = 300});
  for (std::uint64_t last = 1; last <= 8; ++last) {
    append_to(journal, last);
    ASSERT_TRUE(journal.commit(true));
  }
  const auto names = files.list("j");
  ASSERT_EQ(names->size(), 2u);
  const std::uint64_t second = (*journal_segments(files, "j"))[1];
  for (const std::string& name : *names) {
    for (std::size_t bit = 0; bit < 8 * size_of("j/" + name); ++bit) {
      const auto flipped = files.copy();
      flipped->flip_bit("j/" + name, bit);
      const JournalFindings findings = read_all(*flipped);
      ASSERT_LT(findings.end.number, 8u) << name << " bit " << bit;
      ASSERT_NE(findings.torn_bytes + findings.damages.size(), 0u) << name << " bit " << bit;
      const bool may_be_torn = name == names->back() && findings.end.number + 1 == 8;
      ASSERT_EQ(findings.damages.empty(), may_be_torn) << name << " bit " << bit << ": " << text_of(findings);
      if (name == names->front()) {
        ASSERT_LT(findings.end.number, second);
      }
      if (!findings.damages.empty()) {
        EXPECT_NE(findings.damages[0].find("j/" + name + ": byte "), std::string::npos) << text_of(findings);
      }
    }
  }
}

TEST_F(Journal, NamesAMissingSegment) {
  fill(40);
  const auto segments = journal_segments(files, "j");
  ASSERT_GT(segments->size(), 3u);
  auto names = files.list("j");
  ASSERT_TRUE(files.remove("j/" + (*names)[1]));
  const JournalFindings findings = read_all(files);
  EXPECT_EQ(findings.end.number, (*segments)[1] - 1);
  ASSERT_EQ(findings.damages.size(), 1u);
  EXPECT_EQ(findings.damages[0], "j/" + (*names)[2] + ": byte 0: begins at record " + std::to_string((*segments)[2]) +
                                     ", and records " + std::to_string((*segments)[1]) + " to " +
                                     std::to_string((*segments)[2] - 1) + " are in no segment before it");
}

TEST_F(Journal, RefusesAnotherRun) {
  fill(10, 1 << 20);
  const JournalPlace stranger{4, {1, 2}};
  const auto findings = read_journal(files, "j", stranger, [](const JournalRecord&) { return Status(); });
  EXPECT_EQ(findings->end, stranger);
  ASSERT_EQ(findings->damages.size(), 1u) << text_of(*findings);
  EXPECT_NE(findings->damages[0].find("chain"), std::string::npos) << text_of(*findings);
}

/// Changes a segment's bytes and makes its checksums right again, as no disk does.
void forge(MemoryFileSystem& files, const std::string& path, std::size_t offset, std::uint8_t value) {
  auto bytes = *files.read(path, SIZE_MAX);
  bytes[offset] = std::byte{value};
  SegmentHead segment;
  std::memcpy(&segment, bytes.data(), sizeof segment);
  segment.crc = checksum(segment);
  std::memcpy(bytes.data(), &segment, sizeof segment);
  for (std::size_t at = sizeof segment; at < bytes.size();) {
    FrameHead frame;
    std::memcpy(&frame, bytes.data() + at, sizeof frame);
    const std::size_t size = frame_bytes(frame.length);
    frame.crc = frame_checksum(bytes.data() + at, size);
    std::memcpy(bytes.data() + at, &frame, sizeof frame);
    at += size;
  }
  const auto file = files.open(path, OpenMode::create);
  ASSERT_TRUE((*file)->write(bytes));
}

TEST_F(Journal, SaysWhatIsWrongThoughTheChecksumsAreRight) {
  fill(4, 1 << 20);
  const std::string path = "j/journal-00000000000000000001";
  const std::size_t second = 64 + 48 + (Expected(1).payload.size() + 7) / 8 * 8;
  const struct {
    std::size_t offset;
    std::uint8_t value;
    std::string line;
    std::uint64_t end;
  } cases[] = {
      {8, 2, ": byte 0: version 2, this program reads version 1; 4 whole records follow", 0},
      {12, 1, ": byte 0: bytes of the head that must be zero are not; 4 whole records follow", 0},
      {50, 9, ": byte 0: bytes of the head that must be zero are not; 4 whole records follow", 0},
      {16, 5, ": byte 0: begins at record 5, its name says 1; 4 whole records follow", 0},
      {24, 1,
       ": byte 64: chain 00000000000000010000000000000000 after record 0, where " + std::string(32, '0') +
           " is known; 3 whole records follow",
       0},
      {second + 8, 3, ": byte " + std::to_string(second) + ": record 3 where record 2 belongs; 2 whole records follow",
       1},
      {second + 40, 1, ": byte " + std::to_string(second) + ": bytes that must be zero are not; 2 whole records follow",
       1},
  };
  for (const auto& wrong : cases) {
    const auto copy = files.copy();
    forge(*copy, path, wrong.offset, wrong.value);
    const JournalFindings findings = read_all(*copy);
    EXPECT_EQ(findings.end.number, wrong.end);
    EXPECT_EQ(findings.torn_bytes, 0u);
    EXPECT_EQ(findings.damages, std::vector<std::string>{path + wrong.line});
  }
  const auto copy = files.copy();
  forge(*copy, path, second + 4, 77);  // the kind
  const JournalFindings findings = read_all(*copy);
  ASSERT_EQ(findings.damages.size(), 1u);
  EXPECT_NE(findings.damages[0].find(": chain "), std::string::npos) << text_of(findings);
}

TEST_F(Journal, DoesNotSpliceTwoRunsNorTakeSegmentsUnderOtherNames) {
  fill(40);
  const auto names = *files.list("j");
  const std::uint64_t second = (*journal_segments(files, "j"))[1];
  // A run that differs in its first record, with our second segment behind its first.
  const auto theirs = files.copy();
  for (const std::string& name : names) {
    if (name == names[1]) continue;
    ASSERT_TRUE(theirs->remove("j/" + name));
  }
  JournalWriter stranger(*theirs, "j", {}, {.segment_bytes = 1 << 20});
  stranger.append(Expected(1).kind + 1, Expected(1).payload);
  append_to(stranger, second - 1);
  ASSERT_TRUE(stranger.commit(true));
  std::uint64_t last = 0;
  const auto findings = read_journal(*theirs, "j", {}, [&](const JournalRecord& record) {
    last = record.number;
    return Status();
  });
  EXPECT_EQ(last, second - 1);
  ASSERT_EQ(findings->damages.size(), 1u);
  EXPECT_NE(findings->damages[0].find("j/" + names[1] + ": byte 64: chain "), std::string::npos) << text_of(*findings);
  // Two of ours swapped.
  ASSERT_TRUE(files.rename("j/" + names[1], "j/swap"));
  ASSERT_TRUE(files.rename("j/" + names[2], "j/" + names[1]));
  ASSERT_TRUE(files.rename("j/swap", "j/" + names[2]));
  const JournalFindings swapped = read_all(files);
  EXPECT_EQ(swapped.end.number, second - 1);
  ASSERT_FALSE(swapped.damages.empty());
  EXPECT_NE(swapped.damages[0].find("its name says " + std::to_string(second)), std::string::npos) << text_of(swapped);
}

TEST_F(Journal, PrunesWhatACheckpointHolds) {
  fill(60);
  const auto segments = *journal_segments(files, "j");
  ASSERT_TRUE(prune_journal(files, "j", segments[2] - 1));
  EXPECT_EQ(journal_segments(files, "j")->front(), segments[2]);
  ASSERT_TRUE(prune_journal(files, "j", segments[2]));
  EXPECT_EQ(journal_segments(files, "j")->front(), segments[2]);
  EXPECT_EQ(read_all(files, place_after(segments[2] - 1)).end.number, 60u);
  ASSERT_TRUE(prune_journal(files, "j", 1000));
  EXPECT_EQ(*journal_segments(files, "j"), std::vector{segments.back()});
}

TEST_F(Journal, DoesNotGrowWithEachProcessThatGoesOn) {
  fill(60);
  for (std::uint64_t process = 1; process <= 5; ++process) {
    const auto resumed = resume_journal(files, "j", place_after(20), [](const JournalRecord&) { return Status(); });
    ASSERT_TRUE(resumed && resumed->writer->synced() == 60);
    const auto names = *files.list("j");
    EXPECT_EQ(names.back(), "journal-00000000000000000021." + std::to_string(process));
    for (const std::string& name : names) EXPECT_LE(name.substr(0, 28), "journal-00000000000000000021");
  }
  ASSERT_TRUE(files.flip_bit("j/" + files.list("j")->back(), 5000));
  const auto names = *files.list("j");
  const auto resumed = resume_journal(files, "j", place_after(20), [](const JournalRecord&) { return Status(); });
  EXPECT_FALSE(resumed->findings.damages.empty() && resumed->findings.torn_records == 0);
  EXPECT_EQ(files.list("j")->size(), names.size() + 1) << "what is damaged stays";
}

TEST_F(Journal, PrunesByAgeWhereALaterSegmentBeginsEarlier) {
  fill(60);
  // As resume_journal does before it removes what it has written anew.
  const auto writer = std::make_unique<JournalWriter>(files, "j", place_after(20));
  append_to(*writer, 60);
  ASSERT_TRUE(writer->commit(true));
  ASSERT_TRUE(prune_journal(files, "j", 15));
  EXPECT_EQ(read_all(files, place_after(15)).end.number, 60u);
  ASSERT_TRUE(prune_journal(files, "j", 40));
  EXPECT_EQ(*files.list("j"), std::vector<std::string>{"journal-00000000000000000021.1"});
  append_to(*writer, 70);
  ASSERT_TRUE(writer->commit(true));
  EXPECT_EQ(read_all(files, place_after(20)).end.number, 70u);
}

}  // namespace
}  // namespace weft::storage::journal_test
