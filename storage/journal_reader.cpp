// SPDX-License-Identifier: Apache-2.0

#include "storage/internal/journal_frame.hpp"
#include "storage/journal.hpp"

#include <algorithm>
#include <cstring>

namespace weft::storage {
namespace {

/// Result of reading a segment.
struct ReadSegment {
  SegmentName name;
  bool is_read = false;
  bool is_gone = false;    // removed since it was listed
  std::uint64_t last = 0;  // of the whole records from its start on
  std::string reason;      // why there are no more; empty: it ends with them
  std::uint64_t reason_at = 0;
  std::uint64_t left = 0;   // bytes from there on
  bool is_certain = false;  // no crash leaves this
  std::uint64_t whole_after = 0;
};

class Reader {
 public:
  Reader(FileSystem& files, const std::string& directory, const JournalPlace& from,
         const std::function<Status(const JournalRecord&)>& visit, const JournalOptions& options)
      : files_(files), directory_(directory), visit_(visit), max_record_(options.max_record_bytes), place_(from) {}

  Result<JournalFindings> run() {
    WEFT_TRY(const std::vector<SegmentName> names, list_segments(files_, directory_));
    for (const SegmentName& name : names) segments_.emplace_back().name = name;
    while (ReadSegment* next = candidate()) WEFT_CHECK(read(*next));
    findings_.end = place_;
    judge();
    return std::move(findings_);
  }

 private:
  /// The newest segment not yet read that may hold the next record. Where the newest ends too early, as one does that
  /// a failure cut short, an older one may have more.
  ReadSegment* candidate() {
    for (std::size_t i = segments_.size(); i-- > 0;) {
      ReadSegment& segment = segments_[i];
      if (!segment.is_read && segment.name.first - 1 <= place_.number) return &segment;
    }
    return nullptr;
  }

  Status read(ReadSegment& segment) {
    segment.is_read = true;
    segment.last = segment.name.first - 1;
    const std::uint64_t limit = sizeof(SegmentHead) + kMaxSegmentBytes + frame_bytes(max_record_);
    auto file = files_.read_so_far(directory_ + "/" + to_string(segment.name), limit);
    if (!file && file.error().code() == Errc::not_found) {
      segment.is_gone = true;
      return {};
    }
    if (!file) return fail(std::move(file).error());
    const ByteSpan bytes = *file;
    const auto head = read_head(segment, bytes);
    if (!head) return {};
    JournalPlace at{head->first - 1, head->chain};
    std::uint64_t offset = sizeof *head;
    for (;;) {
      segment.last = at.number;
      if (at.number == place_.number && at.chain != place_.chain) {
        stop(segment, bytes, offset,
             "chain " + to_string(at.chain) + " after record " + std::to_string(at.number) + ", where " +
                 to_string(place_.chain) + " is known",
             true);
        return {};
      }
      if (offset == bytes.size()) return {};
      FrameFound found = find_frame(bytes.subspan(offset), max_record_);
      if (found.head) check_order(at, bytes.subspan(offset), found);
      if (!found.head) {
        stop(segment, bytes, offset, std::move(found.reason), found.is_sealed);
        return {};
      }
      const std::uint64_t size = frame_bytes(found.head->length);
      const ByteSpan payload = bytes.subspan(offset + sizeof(FrameHead), found.head->length);
      at = {found.head->number, found.head->chain};
      offset += size;
      if (at.number <= place_.number) continue;
      WEFT_CHECK(visit_({at.number, found.head->kind, payload}));
      place_ = at;
      ++findings_.records;
      findings_.bytes += size;
    }
  }

  static void check_order(const JournalPlace& at, ByteSpan bytes, FrameFound& found) {
    const FrameHead& head = *found.head;
    if (head.number != at.number + 1) {
      found.reason =
          "record " + std::to_string(head.number) + " where record " + std::to_string(at.number + 1) + " belongs";
    } else if (const Hash128 chain = after(at, head.kind, bytes.subspan(sizeof head, head.length)).chain;
               chain != head.chain) {
      found.reason =
          "chain " + to_string(chain) + ", record " + std::to_string(head.number) + " says " + to_string(head.chain);
    } else {
      return;
    }
    found.head.reset();
  }

  /// The head of a segment whose head is whole and fits its name; otherwise it is stopped at.
  std::optional<SegmentHead> read_head(ReadSegment& segment, ByteSpan bytes) {
    SegmentHead head;
    if (bytes.size() < sizeof head) {
      stop(segment, bytes, 0, std::to_string(bytes.size()) + " bytes, a segment's head takes 64", false);
      return std::nullopt;
    }
    std::memcpy(&head, bytes.data(), sizeof head);
    std::string reason;
    bool is_certain = true;
    if (head.magic != kSegmentMagic || checksum(head) != head.crc) {
      reason = head.magic != kSegmentMagic
                   ? "does not begin as a segment does"
                   : "head has checksum " + std::to_string(checksum(head)) + ", stored " + std::to_string(head.crc);
      is_certain = false;
    } else if (head.version != kSegmentVersion) {
      reason =
          "version " + std::to_string(head.version) + ", this program reads version " + std::to_string(kSegmentVersion);
    } else if (head.first != segment.name.first) {
      reason =
          "begins at record " + std::to_string(head.first) + ", its name says " + std::to_string(segment.name.first);
    } else if (head.flags != 0 || std::ranges::any_of(head.reserved, [](std::byte b) { return b != std::byte{0}; })) {
      reason = "bytes of the head that must be zero are not";
    } else {
      return head;
    }
    stop(segment, bytes, 0, std::move(reason), is_certain);
    return std::nullopt;
  }

  /// Notes where the whole records end, and looks for more behind: one that was written when the missing record was
  /// already on the device proves that no crash left this.
  void stop(ReadSegment& segment, ByteSpan bytes, std::uint64_t offset, std::string reason, bool is_certain) {
    segment.reason = std::move(reason);
    segment.reason_at = offset;
    segment.left = bytes.size() - offset;
    segment.is_certain = is_certain;
    // Checksums over false beginnings cost at most a few times the segment; more of them are reported as damage.
    std::uint64_t effort = 16 * bytes.size();
    const std::uint64_t most = segment.last + bytes.size() / sizeof(FrameHead);
    for (std::uint64_t at = offset + 8; at + sizeof(FrameHead) <= bytes.size(); at += 8) {
      FrameHead head;
      std::memcpy(&head, bytes.data() + at, sizeof head);
      const std::uint64_t size = frame_bytes(head.length);
      if (head.number <= segment.last || head.number > most || size > bytes.size() - at) continue;
      if (size > effort) {
        segment.is_certain = true;
        return;
      }
      effort -= size;
      if (!find_frame(bytes.subspan(at), max_record_).head) continue;
      ++segment.whole_after;
      if (head.synced > segment.last) segment.is_certain = true;
      at += size - 8;
    }
  }

  /// After the last record: which segments ought to have gone on?
  void judge() {
    const ReadSegment* later = nullptr;
    for (const ReadSegment& segment : segments_)
      if (!segment.is_gone && segment.name.first - 1 > place_.number &&
          (!later || segment.name.first < later->name.first))
        later = &segment;
    for (const ReadSegment& segment : segments_) {
      if (!segment.is_read || segment.reason.empty() || segment.last < place_.number) continue;
      if (later || segment.is_certain) {
        damage(segment, segment.reason_at, segment.reason);
      } else {
        findings_.torn_bytes += segment.left;
        findings_.torn_records += segment.whole_after;
      }
    }
    if (!later) return;
    const std::uint64_t first = place_.number + 1, last = later->name.first - 1;
    damage(*later, 0,
           "begins at record " + std::to_string(later->name.first) + ", and " +
               (first == last ? "record " + std::to_string(first) + " is"
                              : "records " + std::to_string(first) + " to " + std::to_string(last) + " are") +
               " in no segment before it");
  }

  void damage(const ReadSegment& segment, std::uint64_t offset, const std::string& reason) {
    std::string line = directory_ + "/" + to_string(segment.name) + ": byte " + std::to_string(offset) + ": " + reason;
    if (segment.whole_after != 0) line += "; " + std::to_string(segment.whole_after) + " whole records follow";
    findings_.damages.push_back(std::move(line));
  }

  FileSystem& files_;
  const std::string& directory_;
  const std::function<Status(const JournalRecord&)>& visit_;
  std::uint64_t max_record_;
  JournalPlace place_;
  JournalFindings findings_;
  std::vector<ReadSegment> segments_;
};

}  // namespace

Result<JournalFindings> read_journal(FileSystem& files, const std::string& directory, const JournalPlace& from,
                                     const std::function<Status(const JournalRecord&)>& visit,
                                     const JournalOptions& options) {
  return Reader(files, directory, from, visit, options).run();
}

Status prune_journal(FileSystem& files, const std::string& directory, std::uint64_t number) {
  WEFT_TRY(const std::vector<SegmentName> segments, list_segments(files, directory));
  // Records of one after `number` are also in a newer one that begins no later than there.
  std::size_t keep = segments.size();
  while (keep > 0 && segments[keep - 1].first - 1 > number) --keep;
  bool is_any = false;
  for (std::size_t i = 0; i + 1 < keep; ++i) {
    WEFT_CHECK(files.remove(directory + "/" + to_string(segments[i])));  // the oldest first: what is left has no gap
    is_any = true;
  }
  return is_any ? files.sync_directory(directory) : Status();
}

Result<std::vector<std::uint64_t>> journal_segments(FileSystem& files, const std::string& directory) {
  WEFT_TRY(const std::vector<SegmentName> segments, list_segments(files, directory));
  std::vector<std::uint64_t> firsts;
  for (const SegmentName& segment : segments) firsts.push_back(segment.first);
  std::sort(firsts.begin(), firsts.end());
  firsts.erase(std::unique(firsts.begin(), firsts.end()), firsts.end());
  return firsts;
}

Result<ResumedJournal> resume_journal(FileSystem& files, const std::string& directory, const JournalPlace& from,
                                      const std::function<Status(const JournalRecord&)>& visit,
                                      const JournalOptions& options) {
  constexpr std::uint64_t kMostWaiting = std::uint64_t{16} << 20;
  WEFT_TRY(const std::vector<SegmentName> before, list_segments(files, directory));
  ResumedJournal resumed;
  resumed.writer = std::make_unique<JournalWriter>(files, directory, from, options);
  JournalWriter& writer = *resumed.writer;
  const auto carry = [&](const JournalRecord& record) -> Status {
    WEFT_CHECK(visit(record));
    writer.append(record.kind, record.payload);
    // A failure loses nothing: the records wait on.
    if (writer.waiting_bytes() > kMostWaiting) (void)writer.commit(true);
    return {};
  };
  WEFT_TRY(resumed.findings, read_journal(files, directory, from, carry, options));
  if (!writer.commit(true)) return resumed;
  // All that these held is in the new segments now; a process that dies at each start must not fill the disk. Where
  // something was wrong they stay, for analysis.
  if (!resumed.findings.damages.empty() || resumed.findings.torn_records != 0) return resumed;
  for (const SegmentName& name : before)
    if (name.first > from.number) (void)files.remove(directory + "/" + to_string(name));
  return resumed;
}

}  // namespace weft::storage
