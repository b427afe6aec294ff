// SPDX-License-Identifier: Apache-2.0

#include "formats/entity/entity.hpp"

#include "formats/entity/internal/entity_layout.hpp"
#include "formats/entity/internal/zstd.hpp"
#include "formats/internal/load.hpp"
#include "storage/file_system.hpp"

#include "core/json_reader.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>

namespace weft::formats {
namespace {

using namespace entity;
// Pages of a mapping are given back as the hashing goes on, so that a large file never fills the memory.
constexpr std::size_t kHashedAtOnce = std::size_t{4} << 20;
constexpr std::size_t kForgottenFrom = std::size_t{1} << 20;
constexpr std::size_t kHashedByOne = std::size_t{16} << 20;  // bytes that are worth a thread
// Packed blobs up to this size are unpacked when the file is opened, larger ones when they are asked for.
constexpr std::size_t kUnpackedAtOnce = std::size_t{1} << 20;

bool is_zero(ByteSpan bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// One row of the blob table, as it stands there.
struct Row {
  Tensor blob;  // bytes: those stored
  std::uint64_t size = 0;
  std::string digest;
  bool is_packed = false;
};

Status check_flags(std::uint16_t flags) {
  const unsigned unknown = flags & kMustUnderstand & ~unsigned{kPackedFlag};
  if (unknown == 0) return {};
  return fail(Errc::unsupported, "flags " + std::to_string(flags) + ": of those that a reader must understand, " +
                                     std::to_string(unknown) + " are unknown to this build; a newer one reads it");
}

Result<std::string_view> check_fixed_part(ByteSpan bytes, Hash128& checksum) {
  if (bytes.size() < entity::kMagic.size() ||
      std::memcmp(bytes.data(), entity::kMagic.data(), entity::kMagic.size()) != 0)
    return fail(Errc::parse_failed, "not an .entity file: it does not begin with \"ENTITY\"");
  if (bytes.size() < kFixedSize)
    return fail(Errc::corrupt, "cut short: " + std::to_string(bytes.size()) + " bytes of the first 64");
  const auto version = load<std::uint16_t>(bytes, kVersionAt);
  if (version != entity::kVersion)
    return fail(Errc::unsupported, "version " + std::to_string(version) + ", this build reads version 2");
  WEFT_CHECK(check_flags(load<std::uint16_t>(bytes, kFlagsAt)));
  if (load<std::uint16_t>(bytes, kReservedAt) != 0 || !is_zero(bytes.subspan(kTailAt, kFixedSize - kTailAt)))
    return fail(Errc::corrupt, "reserved bytes are not zero");
  const auto length = load<std::uint64_t>(bytes, kHeaderLengthAt);
  if (length > kHeaderLimits.max_bytes)
    return fail(Errc::too_large, "header of " + std::to_string(length) + " bytes, at most " +
                                     std::to_string(kHeaderLimits.max_bytes) + " are read");
  if (bytes.size() % kAlignment != 0 || length > bytes.size() - kFixedSize)
    return fail(Errc::corrupt,
                "cut short: " + std::to_string(bytes.size()) + " bytes, with a header of " + std::to_string(length));
  const std::string_view header = as_text(bytes.subspan(kFixedSize, length));
  checksum = header_checksum(bytes, header);
  if (std::memcmp(canonical(checksum).data(), bytes.data() + kChecksumAt, sizeof(Hash128)) != 0)
    return fail(Errc::corrupt, "the header does not match its checksum");
  const std::size_t end = kFixedSize + length;
  if (!is_zero(bytes.subspan(end, aligned(end) - end)))
    return fail(Errc::corrupt, "the padding after the header is not zero");
  return header;
}

/// The keys that begin with "x-", marked as known.
Json private_keys(JsonReader& reader) {
  Json kept = Json::object();
  for (const std::string& key : reader.keys())
    if (is_private(key)) kept[key] = reader.find(key)->raw();
  return kept;
}

}  // namespace

struct EntityFile::Content {
  explicit Content(storage::MappedFile mapped) : file(std::move(mapped)) {}

  storage::MappedFile file;
  Json network, meta, extra;
  std::vector<Tensor> tensors;
  std::unordered_map<std::string_view, std::size_t> index;
  Hash128 hash;
  Packing packing = Packing::none;

  Status decode(const EntityLimits& limits);
  /// A blob's bytes, where they can be had without unpacking anything.
  bool is_at_hand(const Tensor& tensor) const noexcept { return !tensor.produce; }
  Result<ByteSpan> unpack(std::size_t i);
  const Tensor* find(std::string_view name) const noexcept {
    const auto found = index.find(name);
    return found == index.end() ? nullptr : &tensors[found->second];
  }
  void forget(ByteSpan bytes) const noexcept;

 private:
  Result<Row> read_row(const JsonValue& value, ByteSpan data, std::size_t& offset) const;
  Status check_stored(const Row& row, const std::string& digest, std::string_view what) const;
  Result<Tensor> open(Row row, UnpackedAllowance& allowance);
  Status open_packed(Tensor& blob, const Row& row);
  Status check_hashes() const;

  std::vector<Row> unchecked;  // those whose bytes are still to be hashed
  std::mutex mutex;            // of what follows
  std::deque<ByteBuffer> buffers;
  std::unordered_map<std::size_t, ByteSpan> unpacked;  // by blob
};

namespace {

Status compare(const Tensor& blob, const StateHasher& hasher, const std::string& digest, std::string_view what) {
  if (const Hash128 found = hasher.digest(); to_string(found) != digest)
    return fail(Errc::corrupt, "blob '" + printable(blob.name) + "': " + std::string(what) + to_string(found) +
                                   ", the header says " + printable(digest));
  return {};
}

Failure within_blob(const Tensor& blob, Error error) {
  return fail(std::move(error).within("blob '" + printable(blob.name) + "'"));
}

}  // namespace

/// `offset` is where the blob before it ended, rounded up.
Result<Row> EntityFile::Content::read_row(const JsonValue& value, ByteSpan data, std::size_t& offset) const {
  WEFT_TRY(JsonReader reader, value.object());
  Row row;
  WEFT_TRY(row.blob.name, reader.string("name", entity::kMaxNameSize));
  WEFT_TRY(row.blob.type, reader.string("type", kMaxTypeSize));
  WEFT_TRY(const auto extents, reader.array("shape", 0, entity::kMaxRank));
  for (const JsonValue& extent : extents) {
    WEFT_TRY(const std::uint64_t n, extent.u64());
    row.blob.shape.push_back(n);
  }
  WEFT_TRY(const std::uint64_t start, reader.u64("offset"));
  WEFT_TRY(row.size, reader.u64("size"));
  WEFT_TRY(row.digest, reader.string("xxh3_128", 32));
  std::uint64_t stored = row.size;
  std::string stored_digest;
  if (packing != Packing::none) {
    if (const auto packed = reader.find("packed")) {
      WEFT_TRY(const std::string how, packed->string(kMaxTypeSize));
      if (how != "zstd")
        return fail(Errc::unsupported, "blob '" + printable(row.blob.name) + "': packed as " + in_quotes(how) +
                                           ", this build knows \"zstd\"");
      row.is_packed = true;
      WEFT_TRY(stored, reader.u64("stored"));
      WEFT_TRY(stored_digest, reader.string("stored_xxh3_128", 32));
    }
  }
  (void)private_keys(reader);
  WEFT_CHECK(reader.finish());
  // Blobs lie one after the other, so none can overlap another or leave the file.
  if (start != offset)
    return fail(Errc::corrupt, "blob '" + printable(row.blob.name) + "': offset " + std::to_string(start) +
                                   ", the blob before it ends at " + std::to_string(offset));
  if (start > data.size() || stored > data.size() - start)
    return fail(Errc::corrupt, "blob '" + printable(row.blob.name) + "': " + std::to_string(stored) + " bytes at " +
                                   std::to_string(start) + " leave the file, which has " + std::to_string(data.size()) +
                                   " bytes of blobs");
  row.blob.bytes = data.subspan(start, stored);
  // data.size() is a multiple of the alignment, so rounding up stays inside it.
  offset = aligned(start + stored);
  if (!is_zero(data.subspan(start + stored, offset - start - stored)))
    return fail(Errc::corrupt, "blob '" + printable(row.blob.name) + "': the padding after it is not zero");
  if (row.is_packed) WEFT_CHECK(check_stored(row, stored_digest, "hash of the packed bytes "));
  return row;
}

/// The bytes of a row as they stand in the file.
Status EntityFile::Content::check_stored(const Row& row, const std::string& digest, std::string_view what) const {
  StateHasher hasher;
  WEFT_CHECK(each_part(
      row.blob.bytes, 1,
      [&](ByteSpan part) -> Status {
        hasher.add_bytes(part.data(), part.size());
        forget(part);
        return {};
      },
      kHashedAtOnce));
  return compare(row.blob, hasher, digest, what);
}

/// The blob that a row stands for, checked.
Result<Tensor> EntityFile::Content::open(Row row, UnpackedAllowance& allowance) {
  Tensor blob = row.blob;
  WEFT_CHECK(check_blob(blob));
  if (!row.is_packed) {
    WEFT_CHECK(check_size(blob, blob.bytes.size(), blob.bytes.data() + blob.bytes.size() - 1));
    unchecked.push_back(std::move(row));
    return blob;
  }
  if (!allowance.take(blob.bytes.size(), row.size))
    return fail(Errc::too_large, "blob '" + printable(blob.name) + "': " + std::to_string(blob.bytes.size()) +
                                     " bytes stored would unpack to " + std::to_string(row.size) +
                                     ", more than a file of this size may hold");
  WEFT_CHECK(open_packed(blob, row));
  return blob;
}

/// All of `unchecked`, by several threads where there is much; the first that fails is told.
Status EntityFile::Content::check_hashes() const {
  std::vector<Status> checked(unchecked.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < checked.size(); i = next++)
      checked[i] = check_stored(unchecked[i], unchecked[i].digest, "hash ");
  };
  std::vector<std::future<void>> helpers;
#if !defined(__wasm__)
  std::size_t left = 0;
  for (const Row& row : unchecked) left += row.blob.bytes.size();
  const std::size_t wanted = std::min<std::size_t>({std::thread::hardware_concurrency(), left / kHashedByOne, 8});
  try {
    while (helpers.size() + 1 < wanted) helpers.push_back(std::async(std::launch::async, work));
  } catch (const std::system_error&) {
    // Fewer threads do it too.
  }
#endif
  work();
  for (auto& helper : helpers) helper.get();
  for (Status& each : checked) WEFT_CHECK(std::move(each));
  return {};
}

Status EntityFile::Content::open_packed(Tensor& blob, const Row& row) {
  const ByteSpan frame = row.blob.bytes;
  const std::size_t size = row.size;
  // Of a type of its own: nothing else says how many bytes there are.
  const bool is_kept = size <= kUnpackedAtOnce || is_private(blob.type);
  StateHasher hasher;
  ByteBuffer bytes;
  std::size_t got = 0;
  std::byte last{};
  Status unpacked_well = unpack_zstd(
      frame, size,
      [&](ByteSpan part) -> Status {
        if (is_kept && bytes.empty()) bytes = ByteBuffer(size);
        if (is_kept) std::memcpy(bytes.data() + got, part.data(), part.size());
        hasher.add_bytes(part.data(), part.size());
        got += part.size();
        last = part.back();
        return {};
      },
      [this](ByteSpan part) { file.forget(part); });
  if (!unpacked_well) return within_blob(blob, std::move(unpacked_well).error());
  file.forget(frame);
  WEFT_CHECK(check_size(blob, got, &last));
  WEFT_CHECK(compare(blob, hasher, row.digest, "hash "));
  blob.bytes = {};
  if (is_kept)
    blob.bytes = buffers.emplace_back(std::move(bytes));
  else
    blob.produce = [this, frame, size](const ByteSource::Sink& sink) {
      return unpack_zstd(frame, size, sink, [this](ByteSpan part) { file.forget(part); });
    };
  return {};
}

/// All bytes of a blob that is unpacked when it is asked for.
Result<ByteSpan> EntityFile::Content::unpack(std::size_t i) {
  const Tensor& blob = tensors[i];
  const std::lock_guard lock(mutex);
  if (const auto found = unpacked.find(i); found != unpacked.end()) return found->second;
  WEFT_TRY(const std::size_t size, tensor_size(blob.type, blob.shape));
  auto bytes = collect(ByteSource(size, blob.produce));
  if (!bytes) return within_blob(blob, std::move(bytes).error());
  return unpacked[i] = buffers.emplace_back(*std::move(bytes));
}

/// The memory of bytes that are mapped, if they are many: each time all threads must forget where pages were, which
/// takes longer than to read few bytes.
void EntityFile::Content::forget(ByteSpan bytes) const noexcept {
  if (bytes.size() < kForgottenFrom) return;
  const ByteSpan all = file.bytes();
  const std::less<const std::byte*> before;
  if (!bytes.empty() && !before(bytes.data(), all.data()) && before(bytes.data(), all.data() + all.size()))
    file.forget(bytes);
}

Status EntityFile::Content::decode(const EntityLimits& limits) {
  const ByteSpan all = file.bytes();
  WEFT_TRY(const std::string_view text, check_fixed_part(all, hash));
  if (load<std::uint16_t>(all, kFlagsAt) & kPackedFlag) packing = Packing::zstd;
  const ByteSpan data = all.subspan(aligned(kFixedSize + text.size()));
  WEFT_TRY(Json header, parse_json(text, "header", kHeaderLimits));
  WEFT_TRY(JsonReader reader, JsonReader::open(header));
  WEFT_TRY(const JsonValue network_value, reader.value("network"));
  WEFT_TRY(const JsonValue meta_value, reader.value("meta"));
  WEFT_TRY(const auto rows, reader.array("blobs", 0, kMaxBlobs));
  extra = private_keys(reader);
  WEFT_CHECK(reader.finish());
  std::size_t end = 0;
  bool has_packed = false;
  UnpackedAllowance allowance(limits);
  tensors.reserve(rows.size());
  const auto read_all = [&]() -> Status {
    for (const JsonValue& value : rows) {
      WEFT_TRY(Row row, read_row(value, data, end));
      has_packed |= row.is_packed;
      WEFT_TRY(Tensor blob, open(std::move(row), allowance));
      tensors.push_back(std::move(blob));
    }
    return {};
  };
  Status read = read_all();
  WEFT_CHECK(check_hashes());
  WEFT_CHECK(std::move(read));
  unchecked = {};
  if (end != data.size()) return fail(Errc::corrupt, std::to_string(data.size() - end) + " bytes after the last blob");
  if (has_packed != (packing != Packing::none))
    return fail(Errc::corrupt, "flags say that blobs are packed, and none is");
  WEFT_CHECK(check_unique(tensors));
  for (std::size_t i = 0; i < tensors.size(); ++i) index.emplace(tensors[i].name, i);
  network = std::move(header["network"]);
  meta = std::move(header["meta"]);
  return {};
}

bool is_entity(ByteSpan bytes) noexcept { return as_text(bytes).starts_with(kEntityBegin); }

Result<EntityFile> decode_entity(storage::MappedFile file, std::string_view source_name, const EntityLimits& limits) {
  auto content = std::make_shared<EntityFile::Content>(std::move(file));
  Status status = content->decode(limits);
  // A page that could not be read says more than what its zeros were taken for.
  WEFT_CHECK(content->file.intact());
  if (!status) return fail(std::move(status).error().within(source_name));
  return EntityFile(std::move(content));
}

Result<EntityFile> decode_entity(ByteBuffer bytes, std::string_view source_name, const EntityLimits& limits) {
  return decode_entity(storage::MappedFile(std::move(bytes)), source_name, limits);
}

Result<EntityFile> decode_entity(ByteSpan bytes, std::string_view source_name, const EntityLimits& limits) {
  ByteBuffer copy(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
  return decode_entity(std::move(copy), source_name, limits);
}

Result<EntityFile> load_entity(storage::FileSystem& files, const std::string& path) {
  WEFT_TRY(storage::MappedFile file, files.map(path, entity::kMaxFileSize));
  return decode_entity(std::move(file), path);
}

const Json& EntityFile::network() const noexcept { return content_->network; }
const Json& EntityFile::meta() const noexcept { return content_->meta; }
const Json& EntityFile::extra() const noexcept { return content_->extra; }
Packing EntityFile::packing() const noexcept { return content_->packing; }
const std::vector<Tensor>& EntityFile::tensors() const noexcept { return content_->tensors; }
bool EntityFile::contains(std::string_view name) const noexcept { return content_->find(name) != nullptr; }
Hash128 EntityFile::hash() const noexcept { return content_->hash; }
std::size_t EntityFile::size() const noexcept { return content_->file.size(); }
Status EntityFile::intact() const { return content_->file.intact(); }
void EntityFile::forget(std::string_view name) const noexcept {
  if (const Tensor* const found = content_->find(name)) content_->forget(found->bytes);
}

Result<Tensor> EntityFile::describe(std::string_view name) const {
  if (const Tensor* const found = content_->find(name)) return *found;
  return fail(Errc::not_found, "blob '" + printable(name) + "' is not in the file");
}

Result<Tensor> EntityFile::find(std::string_view name) const {
  const Tensor* const found = content_->find(name);
  if (!found) return fail(Errc::not_found, "blob '" + printable(name) + "' is not in the file");
  if (content_->is_at_hand(*found)) return *found;
  Tensor tensor{found->name, found->type, found->shape, {}};
  WEFT_TRY(tensor.bytes, content_->unpack(static_cast<std::size_t>(found - content_->tensors.data())));
  return tensor;
}

Status EntityFile::read(std::string_view name, std::size_t unit, const ByteSource::Sink& sink) const {
  const Tensor* const found = content_->find(name);
  if (!found) return fail(Errc::not_found, "blob '" + printable(name) + "' is not in the file");
  if (!content_->is_at_hand(*found)) return whole_units(found->produce, unit, sink);
  return each_part(found->bytes, unit, [&](ByteSpan part) {
    Status done = sink(part);
    content_->forget(part);
    return done;
  });
}

}  // namespace weft::formats
