// SPDX-License-Identifier: Apache-2.0

#include "formats/loom/loom_entity.hpp"

#include "formats/internal/load.hpp"

#include "core/json_reader.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <unordered_map>

namespace weft::formats {
namespace {

// docs/formats/loom_entity.md, "Layout".
constexpr std::array<char, 8> kLoomMagic{'E', 'N', 'T', 'I', 'T', 'Y', '\0', '\0'};
constexpr std::uint16_t kLoomVersion = 1;
constexpr std::size_t kLoomVersionAt = 8, kLoomFlagsAt = 10, kLoomHeaderLengthAt = 12, kLoomFixedSize = 20;
constexpr std::size_t kLoomMaxBlobs = std::size_t{1} << 20;
constexpr std::size_t kLoomMaxPathSize = 512;
constexpr JsonLimits kLoomHeaderLimits{
    .max_bytes = std::size_t{64} << 20, .max_depth = 66, .max_values = std::size_t{1} << 23};

struct TypeName {
  std::string_view name;
  Dtype dtype;
};
// The names that Loom writes or reads, in lower case.
constexpr TypeName kTypes[] = {{"float64", Dtype::float64}, {"fp64", Dtype::float64},
                               {"f64", Dtype::float64},     {"float32", Dtype::float32},
                               {"fp32", Dtype::float32},    {"f32", Dtype::float32},
                               {"float16", Dtype::float16}, {"fp16", Dtype::float16},
                               {"f16", Dtype::float16},     {"bfloat16", Dtype::bfloat16},
                               {"bf16", Dtype::bfloat16},   {"fp8e4m3", Dtype::fp8_e4m3},
                               {"fp8", Dtype::fp8_e4m3},    {"fp8e5m2", Dtype::fp8_e5m2},
                               {"int64", Dtype::int64},     {"i64", Dtype::int64},
                               {"int32", Dtype::int32},     {"i32", Dtype::int32},
                               {"int16", Dtype::int16},     {"i16", Dtype::int16},
                               {"int8", Dtype::int8},       {"i8", Dtype::int8},
                               {"uint64", Dtype::uint64},   {"u64", Dtype::uint64},
                               {"uint32", Dtype::uint32},   {"u32", Dtype::uint32},
                               {"uint16", Dtype::uint16},   {"u16", Dtype::uint16},
                               {"uint8", Dtype::uint8},     {"u8", Dtype::uint8},
                               {"int4", Dtype::int4},       {"uint4", Dtype::uint4},
                               {"fp4", Dtype::fp4},         {"f4", Dtype::fp4},
                               {"int2", Dtype::int2},       {"uint2", Dtype::uint2},
                               {"ternary", Dtype::ternary}, {"binary", Dtype::binary}};

std::optional<Dtype> parse_type(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  for (const TypeName& type : kTypes)
    if (type.name == lower) return type.dtype;
  return std::nullopt;
}

std::vector<std::string_view> type_names() {
  std::vector<std::string_view> names;
  for (const TypeName& type : kTypes)
    if (names.empty() || parse_type(names.back()) != type.dtype) names.push_back(type.name);
  return names;
}

Result<std::string_view> check_fixed_part(ByteSpan bytes) {
  if (bytes.size() < kLoomMagic.size() || std::memcmp(bytes.data(), kLoomMagic.data(), kLoomMagic.size()) != 0)
    return fail(Errc::parse_failed, "not an .entity file: it does not begin with \"ENTITY\"");
  if (bytes.size() < kLoomFixedSize)
    return fail(Errc::corrupt, "cut short: " + std::to_string(bytes.size()) + " bytes of the first 20");
  const auto version = load<std::uint16_t>(bytes, kLoomVersionAt);
  if (version != kLoomVersion) return fail(Errc::unsupported, "version " + std::to_string(version) + ", expected 1");
  if (const auto flags = load<std::uint16_t>(bytes, kLoomFlagsAt); flags != 0)
    return fail(Errc::unsupported, "flags " + std::to_string(flags) + ", of version 1 none are known");
  const auto length = load<std::uint64_t>(bytes, kLoomHeaderLengthAt);
  if (length > kLoomHeaderLimits.max_bytes)
    return fail(Errc::too_large, "header of " + std::to_string(length) + " bytes, at most " +
                                     std::to_string(kLoomHeaderLimits.max_bytes) + " are read");
  if (length > bytes.size() - kLoomFixedSize)
    return fail(Errc::corrupt,
                "cut short: " + std::to_string(bytes.size()) + " bytes, with a header of " + std::to_string(length));
  return as_text(bytes.subspan(kLoomFixedSize, length));
}

/// `offset` is where the blob before it ended.
Result<LoomBlob> read_blob(const JsonValue& value, ByteSpan data, std::size_t& offset) {
  WEFT_TRY(JsonReader row, value.object());
  LoomBlob blob;
  WEFT_TRY(blob.path, row.string("path", kLoomMaxPathSize));
  WEFT_TRY(const std::uint64_t start, row.u64("offset"));
  WEFT_TRY(const std::uint64_t length, row.u64("length"));
  WEFT_TRY(const std::string type, row.string("dtype", 64));
  if (type == "Q4_0") {
    blob.form = LoomBlob::Form::blocks;
  } else if (type == "BITNET_TERNARY") {
    blob.form = LoomBlob::Form::ternary;
  } else {
    WEFT_TRY(blob.dtype, row.one_of("dtype", parse_type, type_names()));
  }
  WEFT_TRY(const float scale, row.f32_or("scale", 0.0f, 0.0f));
  // Left out, or 0: Loom multiplies by 1.
  if (scale != 0.0f) blob.scale = scale;
  WEFT_TRY(blob.is_native, row.boolean("native"));
  WEFT_CHECK(row.finish());
  const std::string name = "blob '" + printable(blob.path) + "': ";
  // As Loom writes them, one after the other: without checksums this is what shows damage.
  if (start != offset)
    return fail(Errc::corrupt,
                name + "offset " + std::to_string(start) + ", the blob before it ends at " + std::to_string(offset));
  if (start > data.size() || length > data.size() - start)
    return fail(Errc::corrupt, name + std::to_string(length) + " bytes at " + std::to_string(start) +
                                   " leave the file, which has " + std::to_string(data.size()) + " bytes of blobs");
  blob.bytes = data.subspan(start, length);
  offset = start + length;
  return blob;
}

}  // namespace

struct LoomEntityFile::Content {
  explicit Content(storage::MappedFile mapped) : file(std::move(mapped)) {}

  storage::MappedFile file;
  Json network, transformer;
  std::vector<LoomBlob> blobs;
  std::unordered_map<std::string_view, std::size_t> index;

  Status decode();
};

Status LoomEntityFile::Content::decode() {
  WEFT_TRY(const std::string_view text, check_fixed_part(file.bytes()));
  const ByteSpan data = file.bytes().subspan(kLoomFixedSize + text.size());
  WEFT_TRY(Json header, parse_json(text, "header", kLoomHeaderLimits));
  WEFT_TRY(JsonReader reader, JsonReader::open(header));
  WEFT_TRY(const std::uint32_t version, reader.u32("format_version"));
  if (version != kLoomVersion)
    return fail(Errc::unsupported, "format_version: found " + std::to_string(version) + ", expected 1");
  WEFT_TRY(const JsonValue network_value, reader.value("network"));
  const bool is_model = reader.find("transformer").has_value();
  std::vector<JsonValue> rows;
  // A network without weights has null there.
  if (const auto list = reader.find("blobs"); list && !list->is_null()) {
    WEFT_TRY(rows, list->array(0, kLoomMaxBlobs));
  }
  WEFT_CHECK(reader.finish());
  std::size_t end = 0;
  blobs.reserve(rows.size());
  for (const JsonValue& row : rows) {
    WEFT_TRY(LoomBlob blob, read_blob(row, data, end));
    blobs.push_back(std::move(blob));
  }
  if (end != data.size()) return fail(Errc::corrupt, std::to_string(data.size() - end) + " bytes after the last blob");
  for (std::size_t i = 0; i < blobs.size(); ++i)
    if (!index.emplace(blobs[i].path, i).second)
      return fail(Errc::duplicate_name, "blob '" + printable(blobs[i].path) + "' is there twice");
  network = std::move(header["network"]);
  if (is_model) transformer = std::move(header["transformer"]);
  return {};
}

bool is_loom_entity(ByteSpan bytes) noexcept {
  return bytes.size() >= kLoomFlagsAt && std::memcmp(bytes.data(), kLoomMagic.data(), kLoomMagic.size()) == 0 &&
         load<std::uint16_t>(bytes, kLoomVersionAt) == kLoomVersion;
}

Result<LoomEntityFile> decode_loom_entity(storage::MappedFile file, std::string_view source_name) {
  auto content = std::make_shared<LoomEntityFile::Content>(std::move(file));
  Status status = content->decode();
  WEFT_CHECK(content->file.intact());
  if (!status) return fail(std::move(status).error().within(source_name));
  return LoomEntityFile(std::move(content));
}

const Json& LoomEntityFile::network() const noexcept { return content_->network; }
const Json& LoomEntityFile::transformer() const noexcept { return content_->transformer; }
const std::vector<LoomBlob>& LoomEntityFile::blobs() const noexcept { return content_->blobs; }
const LoomBlob* LoomEntityFile::find(std::string_view path) const noexcept {
  const auto found = content_->index.find(path);
  return found == content_->index.end() ? nullptr : &content_->blobs[found->second];
}
std::size_t LoomEntityFile::size() const noexcept { return content_->file.size(); }
Status LoomEntityFile::intact() const { return content_->file.intact(); }

}  // namespace weft::formats
