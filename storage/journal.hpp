// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/file_system.hpp"

#include "core/bytes.hpp"
#include "core/result.hpp"
#include "core/state_hash.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weft::storage {

/// One record of a journal. Numbers ascend by one over the whole run, across segments; the first is 1.
struct JournalRecord {
  std::uint64_t number = 0;
  std::uint32_t kind = 0;  ///< the writer's own meaning
  ByteSpan payload;
};

/// Position in a journal: after record `number`, whose chain value is `chain`.
struct JournalPlace {
  std::uint64_t number = 0;
  Hash128 chain{};
  bool operator==(const JournalPlace&) const = default;
};

/// The place after one more record. Its chain value: XXH3-128 over the one before it, number, kind and the XXH3-128 of
/// the payload.
JournalPlace after(const JournalPlace& place, std::uint32_t kind, ByteSpan payload) noexcept;

struct JournalOptions {
  std::uint64_t segment_bytes = std::uint64_t{16} << 20;  ///< a segment that has grown so large is followed by another
  std::uint64_t max_record_bytes = std::uint64_t{1} << 30;
};

/// Writes segments `journal-<first record>` into a directory (docs/formats/journal.md). Records wait in memory until
/// they are on the device: after any failure the descriptor is given up, and `commit` goes on with a new segment that
/// begins with the first record that is not yet synced, so nothing is lost while the process runs.
/// @thread append and the statistics: one thread; commit: one at a time, any thread, also while another appends;
/// forget: any
class JournalWriter {
 public:
  /// Goes on after `place`; what segments hold after it is written anew (`resume_journal`). Opens no file before there
  /// is something to write. `files` must outlive the writer.
  JournalWriter(FileSystem& files, std::string directory, JournalPlace place, JournalOptions options = {});
  ~JournalWriter();
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  /// Takes a record into memory; returns its place. No system call.
  JournalPlace append(std::uint32_t kind, ByteSpan payload);
  /// The last record appended.
  JournalPlace place() const noexcept;

  /// Writes what was appended; with `sync`, waits until it is on the device. One call carries all that waits (group
  /// commit). @error storage: nothing more is acknowledged; the same records are tried again by the next call
  Status commit(bool sync);
  /// The last record that was handed to the system (it outlives this process), and the last one on the device.
  std::uint64_t written() const noexcept;
  std::uint64_t synced() const noexcept;
  /// Bytes of records that are not yet on the device, all held in memory.
  std::uint64_t waiting_bytes() const noexcept;
  /// Bytes of the records appended since `place` that this writer began at, framing counted.
  std::uint64_t appended_bytes() const noexcept;

  /// Forgets the records in memory up to and with `number`, one that was appended: a checkpoint holds them. Those
  /// before it that no segment has are a gap that only readers who start at that checkpoint can pass.
  void forget(std::uint64_t number);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Contents found in a journal's segments.
struct JournalFindings {
  JournalPlace end;                  ///< after the last record that was read
  std::uint64_t records = 0;         ///< handed on
  std::uint64_t bytes = 0;           ///< of them
  std::uint64_t torn_bytes = 0;      ///< after the last whole record of the last segment: what a crash leaves
  std::uint64_t torn_records = 0;    ///< whole records among them, never acknowledged as synced as far as they tell
  std::vector<std::string> damages;  ///< what else is wrong, one line each, naming file, byte and reason
};

/// Reads the records after `from` in order, checking every byte, until the journal ends or is damaged; calls
/// `visit(record)`, which may end it by an error. Bytes that are no whole record at the end of the last segment are a
/// torn tail: what a crash leaves, and no damage. Anything else that does not check is damage: reading ends before it.
/// A journal with no segments ends at `from`.
/// @error storage; whatever visit fails with
Result<JournalFindings> read_journal(FileSystem& files, const std::string& directory, const JournalPlace& from,
                                     const std::function<Status(const JournalRecord&)>& visit,
                                     const JournalOptions& options = {});

/// A journal that was read and is gone on with.
struct ResumedJournal {
  JournalFindings findings;
  std::unique_ptr<JournalWriter> writer;
};

/// Reads a journal to its end and begins a writer there. What was read may have come from the page cache alone, and a
/// power cut would take it: so it is written again and synced before this returns. Where that fails the records wait in
/// memory, and `writer->synced()` tells. Without it, write a checkpoint of `end` before anything is acknowledged.
/// @error as read_journal
Result<ResumedJournal> resume_journal(FileSystem& files, const std::string& directory, const JournalPlace& from,
                                      const std::function<Status(const JournalRecord&)>& visit,
                                      const JournalOptions& options = {});

/// Removes the segments that hold nothing after record `number`. Beside a writer: only after a commit that synced.
Status prune_journal(FileSystem& files, const std::string& directory, std::uint64_t number);
/// First record numbers of the segments, ascending, each once.
Result<std::vector<std::uint64_t>> journal_segments(FileSystem& files, const std::string& directory);

}  // namespace weft::storage
