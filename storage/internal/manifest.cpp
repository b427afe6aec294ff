// SPDX-License-Identifier: Apache-2.0

#include "storage/internal/manifest.hpp"

#include "core/json_reader.hpp"

#include <algorithm>

namespace weft::storage {
namespace {

constexpr std::uint32_t kVersion = 3;
constexpr JsonLimits kLimits{.max_bytes = kMaxManifestBytes, .max_depth = 68};

/// The one text of a manifest: {"digest": <of the text of "manifest">, "manifest": {...}}, two spaces, a final newline.
Result<std::string> seal(const Json& manifest) {
  WEFT_TRY(const std::string inner, write_json(manifest, -1, kLimits));
  const Json sealed{{"digest", to_string(hash_bytes(inner.data(), inner.size()))}, {"manifest", manifest}};
  WEFT_TRY(std::string text, write_json(sealed, 2, kLimits));
  return text + "\n";
}

Result<Manifest> read_manifest(JsonReader& reader) {
  Manifest manifest;
  WEFT_TRY(const std::uint32_t version, reader.u32("weft_checkpoint"));
  if (version != kVersion)
    return fail(Errc::unsupported, "weft_checkpoint: version " + std::to_string(version) +
                                       " of the checkpoint format; this program reads " + std::to_string(kVersion) +
                                       ", so start afresh in another directory");
  WEFT_TRY(manifest.key.tick, reader.u64("tick"));
  WEFT_TRY(manifest.key.record, reader.u64("record"));
  WEFT_TRY(const JsonValue info, reader.value("info"));
  manifest.info = std::make_shared<const Json>(info.raw());
  WEFT_TRY(const auto files, reader.array("files"));
  for (const JsonValue& value : files) {
    ManifestFile file;
    WEFT_TRY(JsonReader row, value.object());
    WEFT_TRY(file.name, row.string("name"));
    if (!is_file_name(file.name)) return fail(Errc::corrupt, row.path_of("name") + ": cannot name a file");
    WEFT_TRY(file.size, row.u64("size"));
    WEFT_TRY(const std::string digest, row.string("xxh3_128"));
    const auto hash = parse_hash128(digest);
    if (!hash) return fail(Errc::corrupt, row.path_of("xxh3_128") + ": not 32 hex digits");
    file.hash = *hash;
    WEFT_CHECK(row.finish());
    manifest.files.push_back(std::move(file));
  }
  WEFT_CHECK(reader.finish());
  return manifest;
}

}  // namespace

bool is_file_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= 128 && name[0] != '.' && name != "manifest.json" &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
                  c == '-';
         });
}

Result<std::string> encode_manifest(CheckpointKey key, const std::vector<ManifestFile>& files, const Json& info) {
  WEFT_CHECK(check_json(info));
  Json rows = Json::array();
  for (const ManifestFile& file : files)
    rows.push_back({{"name", file.name}, {"size", file.size}, {"xxh3_128", to_string(file.hash)}});
  return seal({{"weft_checkpoint", kVersion},
               {"tick", key.tick},
               {"record", key.record},
               {"info", info},
               {"files", std::move(rows)}});
}

Result<Manifest> decode_manifest(std::string_view text, std::string_view source_name) {
  WEFT_TRY(const Json sealed, parse_json(text, source_name, kLimits));
  const auto manifest = sealed.is_object() ? sealed.find("manifest") : sealed.end();
  if (manifest == sealed.end()) return fail(Errc::corrupt, std::string(source_name) + ": no \"manifest\" in it");
  // One content has one text, so comparing texts checks the digest and every byte beside it.
  WEFT_TRY(const std::string expected, seal(*manifest));
  if (expected != text) return fail(Errc::corrupt, std::string(source_name) + ": does not match its digest");
  auto reader = JsonReader::open(*manifest, "manifest");
  if (!reader) return fail(std::move(reader).error().within(source_name));
  auto decoded = read_manifest(*reader);
  if (!decoded) return fail(std::move(decoded).error().within(source_name));
  return decoded;
}

}  // namespace weft::storage
