// SPDX-License-Identifier: Apache-2.0

#include "formats/entity.hpp"

#include "formats/durable.hpp"
#include "formats/file_system.hpp"
#include "formats/internal/text.hpp"
#include "formats/json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

namespace weft::formats {
namespace {

using nlohmann::json;

// docs/formats/entity.md, "The fixed part".
constexpr std::array<char, 8> kMagic{'E', 'N', 'T', 'I', 'T', 'Y', '\0', '\0'};
constexpr std::uint16_t kVersion = 2;
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kFixedSize = 64;
constexpr std::size_t kVersionAt = 8, kFlagsAt = 10, kReservedAt = 12, kHeaderLengthAt = 16;
constexpr std::size_t kChecksumAt = 24, kTailAt = 40;
constexpr std::size_t kMaxBlobs = std::size_t{1} << 20;
constexpr std::size_t kMaxRank = 16;
constexpr std::size_t kMaxNameSize = 512;
constexpr std::size_t kMaxFileSize = std::size_t{1} << 46;
// The network sits one level below the top; a blob takes up to 9 values and its shape.
constexpr JsonLimits kHeaderLimits{
    .max_bytes = std::size_t{64} << 20, .max_depth = 66, .max_values = std::size_t{1} << 23};

static_assert(AlignedBuffer<std::byte>::kAlignment == kAlignment, "blobs must stay aligned in memory");

constexpr std::size_t aligned(std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

template <class T>
T load(ByteSpan bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);  // little-endian, as core/state_hash.cpp asserts
  return value;
}
template <class T>
void store(ByteBuffer& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

/// The digest's canonical form: its hex digits read left to right.
std::array<std::byte, 16> canonical(Hash128 hash) {
  std::array<std::byte, 16> bytes;
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::byte>(hash.high >> (56 - 8 * i));
    bytes[8 + i] = static_cast<std::byte>(hash.low >> (56 - 8 * i));
  }
  return bytes;
}

Hash128 header_checksum(ByteSpan fixed, std::string_view header) {
  StateHasher hasher;
  hasher.add_bytes(fixed.data(), kChecksumAt);
  hasher.add_bytes(header.data(), header.size());
  return hasher.digest();
}

Result<std::size_t> bits_of(std::string_view type) {
  if (type == "bytes") return std::size_t{8};
  if (type == "u32") return std::size_t{32};
  if (type == "u64") return std::size_t{64};
  if (const auto dtype = parse_dtype(type)) return static_cast<std::size_t>(bits(*dtype));
  return fail(Errc::unknown_name, "type " + in_quotes(type) + " is no dtype, \"u32\", \"u64\" or \"bytes\"");
}

Result<std::size_t> elements_of(const Shape& shape) {
  if (shape.size() > kMaxRank)
    return fail(Errc::too_large, std::to_string(shape.size()) + " dimensions, at most " + std::to_string(kMaxRank));
  // Extents of 0 are left out for the check, so that no order of extents overflows.
  Shape positive;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(positive), [](std::size_t n) { return n != 0; });
  WEFT_TRY(const std::size_t elements, volume(positive));
  return positive.size() == shape.size() ? elements : 0;
}

bool is_zero(ByteSpan bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// Name, type, shape and size of one blob agree. What both the writer and the reader ask.
Status check_blob(const Blob& blob) {
  const auto is_printable = [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (blob.name.empty() || blob.name.size() > kMaxNameSize ||
      !std::all_of(blob.name.begin(), blob.name.end(), is_printable))
    return fail(Errc::parse_failed, in_quotes(blob.name) + " cannot name a blob");
  auto size = blob_size(blob.type, blob.shape);
  if (!size) return fail(std::move(size).error().within("blob '" + blob.name + "'"));
  if (*size != blob.bytes.size())
    return fail(Errc::shape_mismatch, "blob '" + blob.name + "': " + blob.type + " " + to_string(blob.shape) +
                                          " takes " + std::to_string(*size) + " bytes, there are " +
                                          std::to_string(blob.bytes.size()));
  // Codes of less than a byte: the bits past the last element have one spelling too.
  const std::size_t used = *elements_of(blob.shape) * *bits_of(blob.type) % 8;
  if (used != 0 && std::to_integer<unsigned>(blob.bytes.back()) >> used != 0)
    return fail(Errc::corrupt, "blob '" + blob.name + "': bits after the last element are not zero");
  return {};
}

Status check_unique(const std::vector<Blob>& blobs) {
  std::unordered_set<std::string_view> names;
  for (const Blob& blob : blobs)
    if (!names.insert(blob.name).second) return fail(Errc::duplicate_name, "blob '" + blob.name + "' is there twice");
  return {};
}

Result<std::string> encode_header(const json& network, const json& meta, const std::vector<Blob>& blobs) {
  for (const json* value : {&network, &meta})
    if (Status status = check_json(*value); !status) return fail(std::move(status).error().within("entity header"));
  json rows = json::array();
  std::size_t offset = 0;
  for (const Blob& blob : blobs) {
    rows.push_back({{"name", blob.name},
                    {"type", blob.type},
                    {"shape", blob.shape},
                    {"offset", offset},
                    {"size", blob.bytes.size()},
                    {"xxh3_128", to_string(hash_bytes(blob.bytes.data(), blob.bytes.size()))}});
    offset += aligned(blob.bytes.size());
    if (offset > kMaxFileSize) return fail(Errc::too_large, "entity: more than 2^46 bytes of blobs");
  }
  auto text = write_json({{"network", network}, {"meta", meta}, {"blobs", std::move(rows)}}, -1, kHeaderLimits);
  if (!text) return fail(std::move(text).error().within("entity header"));
  return text;
}

/// Reads one row of the blob table; `offset` is where the blob before it ended, rounded up.
Result<Blob> decode_row(const JsonValue& value, ByteSpan data, std::size_t& offset) {
  WEFT_TRY(JsonReader row, value.object());
  Blob blob;
  WEFT_TRY(blob.name, row.string("name", kMaxNameSize));
  WEFT_TRY(blob.type, row.string("type", 32));
  WEFT_TRY(const auto extents, row.array("shape", 0, kMaxRank));
  for (const JsonValue& extent : extents) {
    WEFT_TRY(const std::uint64_t n, extent.u64());
    blob.shape.push_back(n);
  }
  WEFT_TRY(const std::uint64_t start, row.u64("offset"));
  WEFT_TRY(const std::uint64_t size, row.u64("size"));
  WEFT_TRY(const std::string digest, row.string("xxh3_128", 32));
  WEFT_CHECK(row.finish());
  // Blobs lie one after the other, so none can overlap another or leave the file.
  if (start != offset)
    return fail(Errc::corrupt, "blob '" + printable(blob.name) + "': offset " + std::to_string(start) +
                                   ", the blob before it ends at " + std::to_string(offset));
  if (start > data.size() || size > data.size() - start)
    return fail(Errc::corrupt, "blob '" + printable(blob.name) + "': " + std::to_string(size) + " bytes at " +
                                   std::to_string(start) + " leave the file, which has " + std::to_string(data.size()) +
                                   " bytes of blobs");
  blob.bytes = data.subspan(start, size);
  WEFT_CHECK(check_blob(blob));
  // data.size() is a multiple of the alignment, so rounding up stays inside it.
  offset = aligned(start + size);
  if (!is_zero(data.subspan(start + size, offset - start - size)))
    return fail(Errc::corrupt, "blob '" + blob.name + "': the padding after it is not zero");
  if (const Hash128 hash = hash_bytes(blob.bytes.data(), blob.bytes.size()); to_string(hash) != digest)
    return fail(Errc::corrupt,
                "blob '" + blob.name + "': hash " + to_string(hash) + ", the header says " + printable(digest));
  return blob;
}

Result<std::string_view> check_fixed_part(ByteSpan bytes, Hash128& checksum) {
  if (bytes.size() < kMagic.size() || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return fail(Errc::parse_failed, "not an .entity file: it does not begin with \"ENTITY\"");
  if (bytes.size() < kFixedSize)
    return fail(Errc::corrupt, "cut short: " + std::to_string(bytes.size()) + " bytes of the first 64");
  const auto version = load<std::uint16_t>(bytes, kVersionAt);
  if (version != kVersion)
    return fail(Errc::unsupported, "version " + std::to_string(version) + ", this build reads version 2");
  if (const auto flags = load<std::uint16_t>(bytes, kFlagsAt); flags != 0)
    return fail(Errc::unsupported, "flags " + std::to_string(flags) + ", this build knows none");
  if (load<std::uint32_t>(bytes, kReservedAt) != 0 || !is_zero(bytes.subspan(kTailAt, kFixedSize - kTailAt)))
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

}  // namespace

struct EntityFile::Content {
  ByteBuffer bytes;
  json network, meta;
  std::vector<BlobView> blobs;
  std::unordered_map<std::string_view, std::size_t> index;
  Hash128 hash;

  Status decode();
};

Status EntityFile::Content::decode() {
  const ByteSpan all = bytes;
  WEFT_TRY(const std::string_view text, check_fixed_part(all, hash));
  const ByteSpan data = all.subspan(aligned(kFixedSize + text.size()));
  WEFT_TRY(json header, parse_json(text, "header", kHeaderLimits));
  WEFT_TRY(JsonReader reader, JsonReader::open(header));
  WEFT_TRY(const JsonValue network_value, reader.value("network"));
  WEFT_TRY(const JsonValue meta_value, reader.value("meta"));
  WEFT_TRY(const auto rows, reader.array("blobs", 0, kMaxBlobs));
  WEFT_CHECK(reader.finish());
  std::size_t end = 0;
  blobs.reserve(rows.size());
  for (const JsonValue& row : rows) {
    WEFT_TRY(Blob blob, decode_row(row, data, end));
    blobs.push_back(std::move(blob));
  }
  if (end != data.size()) return fail(Errc::corrupt, std::to_string(data.size() - end) + " bytes after the last blob");
  WEFT_CHECK(check_unique(blobs));
  for (std::size_t i = 0; i < blobs.size(); ++i) index.emplace(blobs[i].name, i);
  network = std::move(header["network"]);
  meta = std::move(header["meta"]);
  return {};
}

Result<std::size_t> blob_size(std::string_view type, const Shape& shape) {
  WEFT_TRY(const std::size_t element_bits, bits_of(type));
  WEFT_TRY(const std::size_t elements, elements_of(shape));
  return (elements * element_bits + 7) / 8;  // at most 2^40 * 64
}

Result<ByteBuffer> encode_entity(const json& network, const json& meta, const std::vector<Blob>& blobs) {
  if (blobs.size() > kMaxBlobs)
    return fail(Errc::too_large,
                "entity: " + std::to_string(blobs.size()) + " blobs, at most " + std::to_string(kMaxBlobs));
  for (const Blob& blob : blobs) WEFT_CHECK(check_blob(blob));
  WEFT_CHECK(check_unique(blobs));
  WEFT_TRY(const std::string header, encode_header(network, meta, blobs));
  std::size_t at = aligned(kFixedSize + header.size());
  std::size_t size = at;
  for (const Blob& blob : blobs) size += aligned(blob.bytes.size());

  ByteBuffer bytes(size);
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  store(bytes, kVersionAt, kVersion);
  store(bytes, kHeaderLengthAt, std::uint64_t{header.size()});
  std::memcpy(bytes.data() + kChecksumAt, canonical(header_checksum(bytes, header)).data(), sizeof(Hash128));
  std::memcpy(bytes.data() + kFixedSize, header.data(), header.size());
  for (const Blob& blob : blobs) {
    if (!blob.bytes.empty()) std::memcpy(bytes.data() + at, blob.bytes.data(), blob.bytes.size());
    at += aligned(blob.bytes.size());
  }
  return bytes;
}

Result<EntityFile> decode_entity(ByteBuffer bytes, std::string_view source_name) {
  auto content = std::make_shared<EntityFile::Content>();
  content->bytes = std::move(bytes);
  if (Status status = content->decode(); !status) return fail(std::move(status).error().within(source_name));
  return EntityFile(std::move(content));
}

Result<EntityFile> decode_entity(ByteSpan bytes, std::string_view source_name) {
  ByteBuffer copy(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
  return decode_entity(std::move(copy), source_name);
}

Result<EntityFile> load_entity(FileSystem& files, const std::string& path) {
  WEFT_TRY(ByteBuffer bytes, files.read(path, kMaxFileSize));
  return decode_entity(std::move(bytes), path);
}

Status save_entity(FileSystem& files, const std::string& path, const json& network, const json& meta,
                   const std::vector<Blob>& blobs) {
  auto bytes = encode_entity(network, meta, blobs);
  if (!bytes) return fail(std::move(bytes).error().within(path));
  return write_file_durably(files, path, *bytes);
}

const json& EntityFile::network() const noexcept { return content_->network; }
const json& EntityFile::meta() const noexcept { return content_->meta; }
const std::vector<BlobView>& EntityFile::blobs() const noexcept { return content_->blobs; }
bool EntityFile::contains(std::string_view name) const noexcept { return content_->index.count(name) != 0; }
Hash128 EntityFile::hash() const noexcept { return content_->hash; }
std::size_t EntityFile::size() const noexcept { return content_->bytes.size(); }

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
