// SPDX-License-Identifier: Apache-2.0

#include "formats/entity/entity.hpp"

#include "formats/entity/internal/entity_layout.hpp"
#include "formats/entity/internal/zstd.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <unordered_map>

namespace weft::formats {
namespace {

using namespace entity;
using nlohmann::json;

// Pages of a mapping are given back as the hashing goes on, so that a large file never fills the memory.
constexpr std::size_t kHashedAtOnce = std::size_t{16} << 20;

template <class T>
T load(ByteSpan bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);  // little-endian, as core/state_hash.cpp asserts
  return value;
}

bool is_zero(ByteSpan bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// One row of the blob table, as it stands there.
struct Row {
  Blob blob;  // bytes: those stored
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
  if (bytes.size() < kMagic.size() || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return fail(Errc::parse_failed, "not an .entity file: it does not begin with \"ENTITY\"");
  if (bytes.size() < kFixedSize)
    return fail(Errc::corrupt, "cut short: " + std::to_string(bytes.size()) + " bytes of the first 64");
  const auto version = load<std::uint16_t>(bytes, kVersionAt);
  if (version != kVersion)
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
json private_keys(JsonReader& reader) {
  json kept = json::object();
  for (const std::string& key : reader.keys())
    if (is_private(key)) kept[key] = reader.find(key)->raw();
  return kept;
}

}  // namespace

struct EntityFile::Content {
  explicit Content(storage::MappedFile mapped) : file(std::move(mapped)) {}

  storage::MappedFile file;
  json network, meta, extra;
  std::vector<BlobView> blobs;
  std::deque<ByteBuffer> unpacked;
  std::unordered_map<std::string_view, std::size_t> index;
  Hash128 hash;
  Packing packing = Packing::none;

  Status decode(const EntityLimits& limits);

 private:
  Result<Row> read_row(const JsonValue& value, ByteSpan data, std::size_t& offset) const;
  Status check_hash(const Blob& blob, const std::string& digest, std::string_view what, bool is_of_file) const;
  Result<Blob> open(Row row, UnpackedAllowance& allowance);
};

/// `offset` is where the blob before it ended, rounded up.
Result<Row> EntityFile::Content::read_row(const JsonValue& value, ByteSpan data, std::size_t& offset) const {
  WEFT_TRY(JsonReader reader, value.object());
  Row row;
  WEFT_TRY(row.blob.name, reader.string("name", kMaxNameSize));
  WEFT_TRY(row.blob.type, reader.string("type", kMaxTypeSize));
  WEFT_TRY(const auto extents, reader.array("shape", 0, kMaxRank));
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
  if (row.is_packed) WEFT_CHECK(check_hash(row.blob, stored_digest, "hash of the packed bytes ", true));
  return row;
}

Status EntityFile::Content::check_hash(const Blob& blob, const std::string& digest, std::string_view what,
                                       bool is_of_file) const {
  StateHasher hasher;
  for (std::size_t at = 0; at < blob.bytes.size(); at += kHashedAtOnce) {
    const ByteSpan part = blob.bytes.subspan(at, std::min(kHashedAtOnce, blob.bytes.size() - at));
    hasher.add_bytes(part.data(), part.size());
    if (is_of_file) file.forget(part);
  }
  if (const Hash128 found = hasher.digest(); to_string(found) != digest)
    return fail(Errc::corrupt, "blob '" + printable(blob.name) + "': " + std::string(what) + to_string(found) +
                                   ", the header says " + printable(digest));
  return {};
}

/// The blob that a row stands for, unpacked and checked.
Result<Blob> EntityFile::Content::open(Row row, UnpackedAllowance& allowance) {
  Blob blob = std::move(row.blob);
  if (row.is_packed) {
    if (!allowance.take(blob.bytes.size(), row.size))
      return fail(Errc::too_large, "blob '" + printable(blob.name) + "': " + std::to_string(blob.bytes.size()) +
                                       " bytes stored would unpack to " + std::to_string(row.size) +
                                       ", more than a file of this size may hold");
    auto bytes = unpack_zstd(blob.bytes, row.size);
    if (!bytes) return fail(std::move(bytes).error().within("blob '" + printable(blob.name) + "'"));
    file.forget(blob.bytes);
    blob.bytes = unpacked.emplace_back(*std::move(bytes));
  }
  WEFT_CHECK(check_blob(blob));
  WEFT_CHECK(check_hash(blob, row.digest, "hash ", !row.is_packed));
  return blob;
}

Status EntityFile::Content::decode(const EntityLimits& limits) {
  const ByteSpan all = file.bytes();
  WEFT_TRY(const std::string_view text, check_fixed_part(all, hash));
  if (load<std::uint16_t>(all, kFlagsAt) & kPackedFlag) packing = Packing::zstd;
  const ByteSpan data = all.subspan(aligned(kFixedSize + text.size()));
  WEFT_TRY(json header, parse_json(text, "header", kHeaderLimits));
  WEFT_TRY(JsonReader reader, JsonReader::open(header));
  WEFT_TRY(const JsonValue network_value, reader.value("network"));
  WEFT_TRY(const JsonValue meta_value, reader.value("meta"));
  WEFT_TRY(const auto rows, reader.array("blobs", 0, kMaxBlobs));
  extra = private_keys(reader);
  WEFT_CHECK(reader.finish());
  std::size_t end = 0;
  bool has_packed = false;
  UnpackedAllowance allowance(limits);
  blobs.reserve(rows.size());
  for (const JsonValue& value : rows) {
    WEFT_TRY(Row row, read_row(value, data, end));
    has_packed |= row.is_packed;
    WEFT_TRY(Blob blob, open(std::move(row), allowance));
    blobs.push_back(std::move(blob));
  }
  if (end != data.size()) return fail(Errc::corrupt, std::to_string(data.size() - end) + " bytes after the last blob");
  if (has_packed != (packing != Packing::none))
    return fail(Errc::corrupt, "flags say that blobs are packed, and none is");
  WEFT_CHECK(check_unique(blobs));
  for (std::size_t i = 0; i < blobs.size(); ++i) index.emplace(blobs[i].name, i);
  network = std::move(header["network"]);
  meta = std::move(header["meta"]);
  return {};
}

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
  WEFT_TRY(storage::MappedFile file, files.map(path, kMaxFileSize));
  return decode_entity(std::move(file), path);
}

const json& EntityFile::network() const noexcept { return content_->network; }
const json& EntityFile::meta() const noexcept { return content_->meta; }
const json& EntityFile::extra() const noexcept { return content_->extra; }
Packing EntityFile::packing() const noexcept { return content_->packing; }
const std::vector<BlobView>& EntityFile::blobs() const noexcept { return content_->blobs; }
bool EntityFile::contains(std::string_view name) const noexcept { return content_->index.count(name) != 0; }
Hash128 EntityFile::hash() const noexcept { return content_->hash; }
std::size_t EntityFile::size() const noexcept { return content_->file.size(); }
Status EntityFile::intact() const { return content_->file.intact(); }
void EntityFile::forget(std::string_view name) const noexcept {
  const auto found = content_->index.find(name);
  if (found == content_->index.end()) return;
  const ByteSpan bytes = content_->blobs[found->second].bytes, all = content_->file.bytes();
  const std::less<const std::byte*> before;
  if (!bytes.empty() && !before(bytes.data(), all.data()) && before(bytes.data(), all.data() + all.size()))
    content_->file.forget(bytes);
}

Result<BlobView> EntityFile::find(std::string_view name) const {
  const auto found = content_->index.find(name);
  if (found == content_->index.end()) return fail(Errc::not_found, "blob '" + printable(name) + "' is not in the file");
  return content_->blobs[found->second];
}

Result<ByteSpan> EntityFile::checked(std::string_view name, std::string_view type, const Shape* shape) const {
  WEFT_TRY(const BlobView blob, find(name));
  if (blob.type != type || (shape && blob.shape != *shape))
    return fail(Errc::shape_mismatch, "blob '" + blob.name + "': is " + blob.type + " " + to_string(blob.shape) +
                                          ", expected " + std::string(type) + (shape ? " " + to_string(*shape) : ""));
  return blob.bytes;
}

}  // namespace weft::formats
