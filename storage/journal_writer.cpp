// SPDX-License-Identifier: Apache-2.0

#include "storage/internal/journal_frame.hpp"
#include "storage/journal.hpp"

#include "core/assert.hpp"
#include "core/out_of_memory.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

namespace weft::storage {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{256} << 10;
constexpr std::size_t kSpareChunks = 8;

FrameHead head_at(const std::byte* frame) {
  FrameHead head;
  std::memcpy(&head, frame, sizeof head);
  return head;
}

/// Whole frames one after another, as a segment has them save for checksum and `synced`, set when they are written.
struct Chunk {
  Chunk(std::size_t size, const JournalPlace& place) : bytes(size), last(place.number), released{0, place} {
    written = released;
  }
  /// Offset of a frame, and the journal's place before it.
  struct Spot {
    std::size_t offset = 0;
    JournalPlace before;
  };
  /// The spot of the first record after `number`, from a spot before it.
  Spot walk(Spot spot, std::uint64_t number) const {
    while (spot.offset < used && spot.before.number < number) {
      const FrameHead head = head_at(bytes.data() + spot.offset);
      spot = {spot.offset + frame_bytes(head.length), {head.number, head.chain}};
    }
    return spot;
  }

  ByteBuffer bytes;
  std::size_t used = 0;
  std::uint64_t last;
  Spot released;  // what is before it is on the device, or forgotten
  Spot written;   // where the last commit ended: saves the walk
};

/// Bytes to be written by one commit.
struct Extent {
  Chunk* chunk;
  Chunk::Spot from;
  std::size_t end;
};

struct OpenSegment {
  SegmentName name;
  std::unique_ptr<File> file;
  std::uint64_t bytes = 0;
  JournalPlace end;               // after the last record in it
  bool is_entry_synced = false;   // the directory knows of it for good
  bool has_been_written = false;  // a commit that ended well is in it
};

}  // namespace

struct JournalWriter::Parts {
  Parts(FileSystem& file_system, std::string path, const JournalPlace& begin, const JournalOptions& given)
      : files(file_system),
        directory(std::move(path)),
        options(given),
        place(begin),
        on_device(begin.number),
        written(begin.number),
        synced(begin.number) {
    options.segment_bytes = std::min(options.segment_bytes, kMaxSegmentBytes);
    options.max_record_bytes = std::min<std::uint64_t>(options.max_record_bytes, UINT32_MAX);
  }

  std::string path_of(const SegmentName& name) const { return directory + "/" + to_string(name); }
  Chunk& room_for(std::size_t size);
  Status try_commit(bool sync);
  void collect_regions();
  Status write(const Extent& extent);
  Status start_segment(const JournalPlace& before);
  Status sync_segment();
  Status finish_segment();
  void abandon_segment();
  void remove_superseded();
  void release();

  FileSystem& files;
  const std::string directory;
  JournalOptions options;

  // The appending thread's.
  JournalPlace place;
  std::uint64_t appended = 0;

  // The committing thread's.
  std::optional<OpenSegment> segment;
  std::optional<SegmentName> newest;    // made or found in the directory; nothing: not looked yet
  std::vector<std::string> superseded;  // given up, holding nothing synced: removed once their records are
  std::vector<Extent> extents;
  std::uint64_t on_device;  // the last record whose segment was synced, its name too

  mutable std::mutex mutex;  // guards the rest
  std::vector<std::unique_ptr<Chunk>> waiting, spare;
  std::uint64_t waiting_bytes = 0;
  std::uint64_t written, synced;
  bool is_committing = false;  // while it is, no chunk goes away
};

JournalPlace after(const JournalPlace& place, std::uint32_t kind, ByteSpan payload) noexcept {
  struct {
    Hash128 before;
    std::uint64_t number, kind;
    Hash128 payload;
  } link{place.chain, place.number + 1, kind, hash_bytes(payload.data(), payload.size())};
  static_assert(sizeof link == 48);
  return {place.number + 1, hash_bytes(&link, sizeof link)};
}

JournalWriter::JournalWriter(FileSystem& files, std::string directory, JournalPlace place, JournalOptions options)
    : parts_(std::make_unique<Parts>(files, std::move(directory), place, options)) {}

JournalWriter::~JournalWriter() = default;

JournalPlace JournalWriter::append(std::uint32_t kind, ByteSpan payload) {
  Parts& p = *parts_;
  WEFT_ASSERT(payload.size() <= p.options.max_record_bytes, p.directory + ": a record of " +
                                                                std::to_string(payload.size()) + " bytes, at most " +
                                                                std::to_string(p.options.max_record_bytes));
  const std::size_t size = frame_bytes(payload.size());
  const JournalPlace next = after(p.place, kind, payload);
  FrameHead head;
  head.length = static_cast<std::uint32_t>(payload.size());
  head.kind = kind;
  head.number = next.number;
  head.chain = next.chain;
  {
    const std::lock_guard lock(p.mutex);
    Chunk& chunk = p.room_for(size);
    std::byte* frame = chunk.bytes.data() + chunk.used;
    std::memcpy(frame, &head, sizeof head);
    if (!payload.empty()) std::memcpy(frame + sizeof head, payload.data(), payload.size());
    std::memset(frame + sizeof head + payload.size(), 0, size - sizeof head - payload.size());
    chunk.used += size;
    chunk.last = next.number;
    p.waiting_bytes += size;
  }
  p.appended += size;
  p.place = next;
  return next;
}

Chunk& JournalWriter::Parts::room_for(std::size_t size) {
  if (!waiting.empty() && waiting.back()->bytes.size() - waiting.back()->used >= size) return *waiting.back();
  std::unique_ptr<Chunk> chunk;
  if (size <= kChunkBytes && !spare.empty()) {
    chunk = std::move(spare.back());
    spare.pop_back();
    chunk->used = 0;
    chunk->last = place.number;
    chunk->released = chunk->written = {0, place};
  } else {
    chunk = std::make_unique<Chunk>(std::max(size, kChunkBytes), place);
  }
  waiting.push_back(std::move(chunk));
  return *waiting.back();
}

JournalPlace JournalWriter::place() const noexcept { return parts_->place; }

std::uint64_t JournalWriter::written() const noexcept {
  const std::lock_guard lock(parts_->mutex);
  return parts_->written;
}

std::uint64_t JournalWriter::synced() const noexcept {
  const std::lock_guard lock(parts_->mutex);
  return parts_->synced;
}

std::uint64_t JournalWriter::waiting_bytes() const noexcept {
  const std::lock_guard lock(parts_->mutex);
  return parts_->waiting_bytes;
}

std::uint64_t JournalWriter::appended_bytes() const noexcept { return parts_->appended; }

void JournalWriter::forget(std::uint64_t number) {
  Parts& p = *parts_;
  const std::lock_guard lock(p.mutex);
  p.synced = std::max(p.synced, number);
  p.written = std::max(p.written, number);
  p.release();
}

Status JournalWriter::commit(bool sync) {
  Parts& p = *parts_;
  Status status = or_out_of_memory([&] {
    p.collect_regions();
    return p.try_commit(sync);
  });
  if (!status) p.abandon_segment();
  {
    const std::lock_guard lock(p.mutex);
    if (status && p.segment) p.written = std::max(p.written, p.segment->end.number);
    p.synced = std::max(p.synced, p.on_device);
    p.written = std::max(p.written, p.synced);
    p.is_committing = false;
    p.release();
  }
  if (status && sync) p.remove_superseded();
  return status;
}

/// Collects the bytes to write now: all after the open segment's end or, without one, all that is not yet on the
/// device.
void JournalWriter::Parts::collect_regions() {
  extents.clear();
  const std::lock_guard lock(mutex);
  is_committing = true;
  // Numbers in a segment have no gaps: what was forgotten before it was written ends it.
  if (segment && segment->end.number < synced) segment.reset();
  const std::uint64_t done = segment ? segment->end.number : synced;
  for (const auto& chunk : waiting) {
    if (chunk->last <= done) continue;
    const Chunk::Spot near = chunk->written.before.number <= done ? chunk->written : chunk->released;
    extents.push_back({chunk.get(), chunk->walk(near, done), chunk->used});
  }
}

Status JournalWriter::Parts::try_commit(bool sync) {
  for (const Extent& extent : extents) WEFT_CHECK(write(extent));
  if (sync && segment) WEFT_CHECK(sync_segment());
  if (segment) segment->has_been_written = true;
  return {};
}

Status JournalWriter::Parts::write(const Extent& extent) {
  Chunk::Spot spot = extent.from;
  while (spot.offset < extent.end) {
    if (segment && segment->bytes >= options.segment_bytes) WEFT_CHECK(finish_segment());
    if (!segment) WEFT_CHECK(start_segment(spot.before));
    const std::size_t begin = spot.offset;
    do {
      std::byte* frame = extent.chunk->bytes.data() + spot.offset;
      FrameHead head = head_at(frame);
      const std::size_t size = frame_bytes(head.length);
      head.synced = on_device;
      std::memcpy(frame, &head, sizeof head);
      head.crc = frame_checksum(frame, size);
      std::memcpy(frame, &head, sizeof head);
      spot = {spot.offset + size, {head.number, head.chain}};
    } while (spot.offset < extent.end && segment->bytes + (spot.offset - begin) < options.segment_bytes);
    WEFT_CHECK(segment->file->write(ByteSpan(extent.chunk->bytes.data() + begin, spot.offset - begin)));
    segment->bytes += spot.offset - begin;
    segment->end = spot.before;
  }
  extent.chunk->written = spot;
  return {};
}

Status JournalWriter::Parts::start_segment(const JournalPlace& before) {
  if (!newest) {
    WEFT_TRY(const std::vector<SegmentName> names, list_segments(files, directory));
    newest = names.empty() ? SegmentName() : names.back();
  }
  const SegmentName name{newest->generation + (newest->first > before.number ? 1 : 0), before.number + 1};
  newest = name;  // even if it cannot be made: no name is tried twice
  WEFT_TRY(auto file, files.open(path_of(name), OpenMode::create_new));
  SegmentHead head;
  head.first = name.first;
  head.chain = before.chain;
  head.crc = checksum(head);
  segment = OpenSegment{name, std::move(file), sizeof head, before};
  return segment->file->write(as_bytes(head));
}

Status JournalWriter::Parts::sync_segment() {
  if (segment->is_entry_synced && segment->end.number == on_device) return {};
  WEFT_CHECK(segment->file->sync());
  if (!segment->is_entry_synced) WEFT_CHECK(files.sync_directory(directory));
  segment->is_entry_synced = true;
  on_device = std::max(on_device, segment->end.number);
  return {};
}

Status JournalWriter::Parts::finish_segment() {
  WEFT_CHECK(sync_segment());
  (void)segment->file->close();  // all of it is on the device, whatever this says
  segment.reset();
  return {};
}

/// After a failure: its descriptor goes at once, so that nothing can be written to or synced through it again.
void JournalWriter::Parts::abandon_segment() {
  if (!segment) return;
  const OpenSegment gone = *std::exchange(segment, std::nullopt);
  if (gone.name.first <= on_device) return;
  // It may hold records that only it has, should this process be killed before they are written again.
  if (gone.has_been_written)
    superseded.push_back(path_of(gone.name));
  else
    (void)files.remove(path_of(gone.name));  // costs disk space, not safety: readers know a torn segment
}

void JournalWriter::Parts::remove_superseded() {
  for (const std::string& path : superseded) (void)files.remove(path);
  superseded.clear();
}

/// Gives back the memory of what is on the device or forgotten.
void JournalWriter::Parts::release() {
  if (is_committing) return;
  std::size_t gone = 0;
  for (; gone < waiting.size(); ++gone) {
    Chunk& chunk = *waiting[gone];
    const Chunk::Spot spot = chunk.walk(chunk.released, synced);
    waiting_bytes -= spot.offset - chunk.released.offset;
    chunk.released = spot;
    if (chunk.written.offset < spot.offset) chunk.written = spot;
    if (chunk.last > synced) break;
    if (chunk.bytes.size() == kChunkBytes && spare.size() < kSpareChunks) spare.push_back(std::move(waiting[gone]));
  }
  waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(gone));
}

}  // namespace weft::storage
