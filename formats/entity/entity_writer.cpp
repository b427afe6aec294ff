// SPDX-License-Identifier: Apache-2.0

#include "formats/entity/entity.hpp"
#include "formats/entity/internal/entity_layout.hpp"
#include "formats/entity/internal/zstd.hpp"
#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <nlohmann/json.hpp>

#include <cstring>
#include <deque>

namespace weft::formats {
namespace {

using namespace entity;
using nlohmann::json;

template <class T>
void store(ByteBuffer& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);  // little-endian, as core/state_hash.cpp asserts
}

/// What stands in the file for each blob: its bytes, or a frame of them.
struct Stored {
  std::vector<ByteSpan> parts;
  std::vector<bool> is_packed;
  std::deque<ByteBuffer> frames;
  bool has_packed = false;
};

Result<Stored> pack(const std::vector<Blob>& blobs, Packing packing) {
  Stored stored;
  UnpackedAllowance allowance{EntityLimits{}};
  for (const Blob& blob : blobs) {
    stored.parts.push_back(blob.bytes);
    stored.is_packed.push_back(false);
    if (packing == Packing::none || blob.bytes.empty()) continue;
    WEFT_TRY(ByteBuffer frame, pack_zstd(blob.bytes));
    if (aligned(frame.size()) >= aligned(blob.bytes.size())) continue;
    UnpackedAllowance with = allowance;
    if (!with.take(frame.size(), blob.bytes.size())) continue;
    allowance = with;
    stored.parts.back() = stored.frames.emplace_back(std::move(frame));
    stored.is_packed.back() = stored.has_packed = true;
  }
  return stored;
}

std::string digest(ByteSpan bytes) { return to_string(hash_bytes(bytes.data(), bytes.size())); }

Result<std::string> encode_header(const json& network, const json& meta, const std::vector<Blob>& blobs,
                                  const Stored& stored, const json* extra) {
  for (const json* value : {&network, &meta})
    if (Status status = check_json(*value); !status) return fail(std::move(status).error().within("entity header"));
  json rows = json::array();
  std::size_t offset = 0;
  for (std::size_t i = 0; i < blobs.size(); ++i) {
    const Blob& blob = blobs[i];
    json row{{"name", blob.name}, {"type", blob.type},         {"shape", blob.shape},
             {"offset", offset},  {"size", blob.bytes.size()}, {"xxh3_128", digest(blob.bytes)}};
    const ByteSpan part = stored.parts[i];
    if (stored.is_packed[i])
      row.update({{"packed", "zstd"}, {"stored", part.size()}, {"stored_xxh3_128", digest(part)}});
    rows.push_back(std::move(row));
    offset += aligned(part.size());
    if (offset > kMaxFileSize) return fail(Errc::too_large, "entity: more than 2^46 bytes of blobs");
  }
  json header{{"network", network}, {"meta", meta}, {"blobs", std::move(rows)}};
  if (extra) {
    if (!extra->is_object()) return fail(Errc::invalid_argument, "entity header: private keys must be an object");
    if (Status status = check_json(*extra, kHeaderLimits); !status)
      return fail(std::move(status).error().within("entity header"));
    for (const auto& [key, value] : extra->items()) {
      if (!is_private(key))
        return fail(Errc::invalid_argument, "entity header: key " + in_quotes(key) + " does not begin with \"x-\"");
      header[key] = value;
    }
  }
  auto text = write_json(header, -1, kHeaderLimits);
  if (!text) return fail(std::move(text).error().within("entity header"));
  return text;
}

}  // namespace

Result<ByteBuffer> encode_entity(const json& network, const json& meta, const std::vector<Blob>& blobs,
                                 const EntityOptions& options) {
  if (blobs.size() > kMaxBlobs)
    return fail(Errc::too_large,
                "entity: " + std::to_string(blobs.size()) + " blobs, at most " + std::to_string(kMaxBlobs));
  for (const Blob& blob : blobs) WEFT_CHECK(check_blob(blob));
  WEFT_CHECK(check_unique(blobs));
  WEFT_TRY(const Stored stored, pack(blobs, options.packing));
  WEFT_TRY(const std::string header, encode_header(network, meta, blobs, stored, options.extra));
  std::size_t at = aligned(kFixedSize + header.size());
  std::size_t size = at;
  for (const ByteSpan part : stored.parts) size += aligned(part.size());

  ByteBuffer bytes(size);
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  store(bytes, kVersionAt, kVersion);
  store(bytes, kFlagsAt, stored.has_packed ? kPackedFlag : std::uint16_t{0});
  store(bytes, kHeaderLengthAt, std::uint64_t{header.size()});
  std::memcpy(bytes.data() + kChecksumAt, canonical(header_checksum(bytes, header)).data(), sizeof(Hash128));
  std::memcpy(bytes.data() + kFixedSize, header.data(), header.size());
  for (const ByteSpan part : stored.parts) {
    if (!part.empty()) std::memcpy(bytes.data() + at, part.data(), part.size());
    at += aligned(part.size());
  }
  return bytes;
}

Status save_entity(storage::FileSystem& files, const std::string& path, const json& network, const json& meta,
                   const std::vector<Blob>& blobs, const EntityOptions& options) {
  auto bytes = encode_entity(network, meta, blobs, options);
  if (!bytes) return fail(std::move(bytes).error().within(path));
  return storage::write_file_durably(files, path, *bytes);
}

}  // namespace weft::formats
