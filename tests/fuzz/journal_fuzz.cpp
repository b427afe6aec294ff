// SPDX-License-Identifier: Apache-2.0

#include "storage/internal/journal_frame.hpp"
#include "storage/journal.hpp"

#include "core/assert.hpp"

#include "tests/support/memory_file_system.hpp"
#include <algorithm>
#include <cstring>
#include <vector>

namespace {

using namespace weft;
using namespace weft::storage;

/// Makes checksums and chain of a segment right, so that mutations pass beyond them.
void seal(std::vector<std::byte>& bytes) {
  SegmentHead segment;
  if (bytes.size() < sizeof segment) return;
  std::memcpy(&segment, bytes.data(), sizeof segment);
  segment.crc = checksum(segment);
  std::memcpy(bytes.data(), &segment, sizeof segment);
  JournalPlace place{segment.first - 1, segment.chain};
  for (std::size_t at = sizeof segment; bytes.size() - at >= sizeof(FrameHead);) {
    FrameHead frame;
    std::memcpy(&frame, bytes.data() + at, sizeof frame);
    const std::uint64_t size = frame_bytes(frame.length);
    if (size > bytes.size() - at) return;
    const ByteSpan frame_now(bytes.data() + at, size);
    place = after(place, frame.kind, frame_now.subspan(sizeof frame, frame.length));
    frame.chain = place.chain;
    std::memcpy(bytes.data() + at, &frame, sizeof frame);
    frame.crc = frame_checksum(bytes.data() + at, size);
    std::memcpy(bytes.data() + at, &frame, sizeof frame);
    at += size;
  }
}

/// Segments one after another: first record (1 byte), generation (1), size (2), bytes.
void put_segments(FileSystem& files, ByteSpan input, bool is_sealed) {
  while (input.size() >= 4) {
    const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(input[i]); };
    const SegmentName name{byte(1) % 4, byte(0) + 1};
    const std::size_t size = std::min<std::size_t>(byte(2) + 256 * byte(3), input.size() - 4);
    std::vector<std::byte> bytes(input.begin() + 4, input.begin() + 4 + static_cast<std::ptrdiff_t>(size));
    input = input.subspan(4 + size);
    if (is_sealed) seal(bytes);
    const auto file = files.open("j/" + to_string(name), OpenMode::create);
    WEFT_ASSERT(file && (*file)->write(bytes), "no file");
  }
}

/// Every record handed on goes on where the one before ended, and a run goes on from any ruin.
void check(ByteSpan input, bool is_sealed) {
  MemoryFileSystem files;
  WEFT_ASSERT(files.make_directory("j").has_value(), "no directory");
  put_segments(files, input, is_sealed);
  const JournalOptions options{.max_record_bytes = 4096};
  JournalPlace place;
  const auto visit = [&](const JournalRecord& record) -> weft::Status {
    volatile std::byte sink{};
    for (const std::byte b : record.payload) sink = b;  // a sanitizer sees bytes outside the file
    (void)sink;
    WEFT_ASSERT(record.payload.size() <= 4096, "a record that is too large");
    const JournalPlace next = after(place, record.kind, record.payload);
    WEFT_ASSERT(next.number == record.number, "records out of order");
    place = next;
    return {};
  };
  const auto findings = read_journal(files, "j", {}, visit, options);
  WEFT_ASSERT(findings.has_value(), findings ? "" : findings.error().text());
  WEFT_ASSERT(findings->end == place && findings->records == place.number, "an end that was not reached");
  const JournalPlace end = std::exchange(place, JournalPlace());
  auto resumed = resume_journal(files, "j", {}, visit, options);
  WEFT_ASSERT(resumed && resumed->findings.end == end, "two readings differ");
  const JournalPlace next = resumed->writer->append(7, as_bytes("a record that no input has"));
  WEFT_ASSERT(resumed->writer->commit(true).has_value(), "cannot go on");
  place = {};
  const auto again = read_journal(files, "j", {}, visit, options);
  WEFT_ASSERT(again && again->end == next, "the journal did not go on");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteSpan input{reinterpret_cast<const std::byte*>(data), size};
  check(input, false);
  check(input, true);
  return 0;
}
