// SPDX-License-Identifier: Apache-2.0

#include "formats/gguf/gguf.hpp"

#include "formats/gguf/gguf_blocks.hpp"
#include "formats/gguf/internal/gguf_layout.hpp"
#include "formats/internal/load.hpp"
#include "storage/file_system.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <type_traits>
#include <unordered_set>

namespace weft::formats {
namespace {

using namespace gguf;

/// Reads a header from its beginning; nothing is taken that the file does not have.
class Cursor {
 public:
  explicit Cursor(ByteSpan bytes) : bytes_(bytes) {}
  std::size_t at() const { return at_; }
  std::size_t left() const { return bytes_.size() - at_; }

  Result<ByteSpan> take(std::uint64_t size, std::string_view what) {
    if (size > left())
      return fail(Errc::corrupt, "cut short: " + std::string(what) + " takes " + std::to_string(size) + " bytes at " +
                                     std::to_string(at_) + ", the file has " + std::to_string(bytes_.size()));
    at_ += size;
    return bytes_.subspan(at_ - size, size);
  }
  template <class T>
  Result<T> number(std::string_view what) {
    WEFT_TRY(const ByteSpan bytes, take(sizeof(T), what));
    return load<T>(bytes, 0);
  }
  Result<std::string_view> text(std::size_t most, std::string_view what) {
    WEFT_TRY(const auto size, number<std::uint64_t>(what));
    if (size > most)
      return fail(Errc::too_large, std::string(what) + " of " + std::to_string(size) + " bytes at " +
                                       std::to_string(at_) + ", at most " + std::to_string(most));
    WEFT_TRY(const ByteSpan bytes, take(size, what));
    return as_text(bytes);
  }
  /// A count of things that take `least` bytes each or more.
  Result<std::size_t> count(std::size_t most, std::size_t least, std::string_view what) {
    WEFT_TRY(const auto found, number<std::uint64_t>(what));
    if (found > most)
      return fail(Errc::too_large, std::to_string(static_cast<std::int64_t>(found)) + " " + std::string(what) +
                                       ", at most " + std::to_string(most));
    if (found > left() / least)
      return fail(Errc::corrupt, "cut short: " + std::to_string(found) + " " + std::string(what) + " in the last " +
                                     std::to_string(left()) + " bytes");
    return found;
  }
  /// Memory that arrays take, all together: zeros cost a sparse file nothing.
  Status spend(std::size_t bytes) {
    if (bytes > kMaxArrayBytes - spent_)
      return fail(Errc::too_large, "arrays of more than " + std::to_string(kMaxArrayBytes) + " bytes in all");
    spent_ += bytes;
    return {};
  }

 private:
  ByteSpan bytes_;
  std::size_t at_ = 0, spent_ = 0;
};

template <class T>
Result<T> read_scalar(Cursor& in) {
  if constexpr (std::is_same_v<T, std::string>) {
    WEFT_TRY(const std::string_view text, in.text(kMaxTextSize, "a string"));
    return std::string(text);
  } else if constexpr (std::is_same_v<T, bool>) {
    WEFT_TRY(const auto byte, in.number<std::uint8_t>("a bool"));
    if (byte > 1) return fail(Errc::corrupt, "a bool of " + std::to_string(byte) + ", expected 0 or 1");
    return byte == 1;
  } else {
    return in.number<T>("a number");
  }
}

template <class T>
Result<GgufArray> read_elements(Cursor& in) {
  constexpr std::size_t kLeast = std::is_same_v<T, std::string> ? sizeof(std::uint64_t) : sizeof(T);
  WEFT_TRY(const std::size_t count, in.count(kMaxElements, kLeast, "elements"));
  WEFT_CHECK(in.spend(count * sizeof(T)));
  std::vector<T> elements;
  elements.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    WEFT_TRY(T element, read_scalar<T>(in));
    elements.push_back(std::move(element));
  }
  return GgufArray(std::move(elements));
}

/// Calls f with a value of the type that stands at `index` in the format's list, which is not an array.
template <class F>
auto with_type(std::size_t index, F&& f) -> decltype(f(float())) {
  switch (index) {
    case 0:
      return f(std::uint8_t());
    case 1:
      return f(std::int8_t());
    case 2:
      return f(std::uint16_t());
    case 3:
      return f(std::int16_t());
    case 4:
      return f(std::uint32_t());
    case 5:
      return f(std::int32_t());
    case 6:
      return f(float());
    case 7:
      return f(bool());
    case kTextType:
      return f(std::string());
    case 10:
      return f(std::uint64_t());
    case 11:
      return f(std::int64_t());
    case 12:
      return f(double());
    default:
      return fail(Errc::corrupt, "type " + std::to_string(static_cast<std::int32_t>(index)) +
                                     " of a value, expected 0 to 12, in an array not 9");
  }
}

Result<GgufValue> read_value(Cursor& in) {
  WEFT_TRY(const auto type, in.number<std::uint32_t>("a type"));
  if (type != kArrayType)
    return with_type(type, [&](auto sample) -> Result<GgufValue> {
      WEFT_TRY(auto value, read_scalar<decltype(sample)>(in));
      return GgufValue(std::move(value));
    });
  WEFT_TRY(const auto element, in.number<std::uint32_t>("a type of elements"));
  WEFT_TRY(GgufArray array, with_type(element, [&](auto sample) { return read_elements<decltype(sample)>(in); }));
  return GgufValue(std::move(array));
}

Result<GgufMetadata> read_metadata(Cursor& in, std::size_t count) {
  GgufMetadata metadata;
  for (std::size_t i = 0; i < count; ++i) {
    WEFT_TRY(const std::string_view key, in.text(kMaxKeySize, "a key"));
    if (key.empty()) return fail(Errc::corrupt, "a key of no bytes");
    if (metadata.contains(key)) return fail(Errc::duplicate_name, "metadata " + in_quotes(key) + " is there twice");
    auto value = read_value(in);
    if (!value) return fail(std::move(value).error().within("metadata " + in_quotes(key)));
    metadata.set(std::string(key), *std::move(value));
  }
  return metadata;
}

Result<std::size_t> alignment_of(const GgufMetadata& metadata) {
  const GgufValue* const value = metadata.find(kAlignmentKey);
  if (!value) return std::size_t{kDefaultAlignment};
  const auto* const found = std::get_if<std::uint32_t>(value);
  if (found && is_alignment(*found)) return std::size_t{*found};
  return fail(Errc::corrupt, std::string(kAlignmentKey) + ": found " + type_name(*value) +
                                 (found ? " " + std::to_string(*found) : "") +
                                 ", expected a u32 that is a power of two from 8 to 65536");
}

Result<GgufType> type_of(std::uint32_t number) {
  for (const GgufType& type : gguf_types())
    if (type.number == number && type.in_files) return type;
  constexpr std::pair<std::uint32_t, std::string_view> kInTables[] = {
      {16, "iq2_xxs"}, {17, "iq2_xs"}, {18, "iq3_xxs"}, {19, "iq1_s"}, {21, "iq3_s"}, {22, "iq2_s"}, {29, "iq1_m"}};
  for (const auto& [known, name] : kInTables)
    if (known == number)
      return fail(Errc::unsupported, "type " + std::string(name) + " (" + std::to_string(number) +
                                         "): its values stand in tables that Weft does not have");
  constexpr std::uint32_t kRemoved[] = {4, 5, 31, 32, 33, 36, 37, 38};
  if (std::find(std::begin(kRemoved), std::end(kRemoved), number) != std::end(kRemoved))
    return fail(Errc::unsupported, "type " + std::to_string(number) +
                                       " was removed from the format (36: also i2_s of another program's files)");
  return fail(Errc::unsupported, "type " + std::to_string(static_cast<std::int32_t>(number)) + " is not known");
}

/// A tensor's description; its bytes are found later.
struct TensorEntry {
  Tensor tensor;
  std::uint64_t offset = 0;
  std::size_t size = 0;
};

Result<TensorEntry> read_entry(Cursor& in, const std::string& name) {
  TensorEntry row{{name, {}, {}, {}}};
  WEFT_TRY(const auto rank, in.number<std::uint32_t>("a number of dimensions"));
  if (rank > gguf::kMaxRank)
    return fail(Errc::corrupt, std::to_string(rank) + " dimensions, at most " + std::to_string(gguf::kMaxRank));
  Shape& shape = row.tensor.shape;
  for (std::uint32_t i = 0; i < rank; ++i) {
    WEFT_TRY(const auto extent, in.number<std::int64_t>("an extent"));
    if (extent <= 0) return fail(Errc::corrupt, "an extent of " + std::to_string(extent));
    shape.insert(shape.begin(), static_cast<std::size_t>(extent));  // the file has the innermost first
  }
  WEFT_TRY(const auto number, in.number<std::uint32_t>("a type"));
  WEFT_TRY(const GgufType type, type_of(number));
  WEFT_TRY(row.offset, in.number<std::uint64_t>("an offset"));
  WEFT_TRY(const std::size_t elements, volume(shape));
  const std::size_t inner = shape.empty() ? 1 : shape.back();
  if (inner % type.elements != 0)
    return fail(Errc::corrupt, "rows of " + std::to_string(inner) + " elements are no whole blocks of " +
                                   std::string(type.name) + ", which have " + std::to_string(type.elements));
  row.tensor.type = type.name;
  row.size = elements / type.elements * type.bytes;  // at most 2^40 * 8
  return row;
}

/// Rows lie one after the other, each from a multiple of the alignment.
Status place_tensors(std::vector<TensorEntry>& rows, ByteSpan file, std::size_t begin, std::size_t alignment) {
  const ByteSpan data = begin <= file.size() ? file.subspan(begin) : ByteSpan();
  std::size_t end = 0;
  for (TensorEntry& row : rows) {
    const std::string what = "tensor '" + printable(row.tensor.name) + "': ";
    if (row.offset != end)
      return fail(Errc::corrupt, what + "offset " + std::to_string(row.offset) + ", the tensor before it ends at " +
                                     std::to_string(end));
    if (end > data.size() || row.size > data.size() - end)
      return fail(Errc::corrupt, what + std::to_string(row.size) + " bytes at " + std::to_string(row.offset) +
                                     " leave the file, which has " + std::to_string(data.size()) + " bytes of tensors");
    row.tensor.bytes = data.subspan(end, row.size);
    end = aligned(end + row.size, alignment);
  }
  return {};
}

struct GgufParts {
  GgufMetadata metadata;
  std::vector<Tensor> tensors;
};

Status check_version(Cursor& in) {
  auto magic = in.take(gguf::kMagic.size(), "the magic");
  if (!magic || as_text(*magic) != gguf::kMagic)
    return fail(Errc::parse_failed, "not a GGUF file: it does not begin with \"GGUF\"");
  WEFT_TRY(const auto version, in.number<std::uint32_t>("the version"));
  if (version != 0 && (version & 0xffff) == 0)
    return fail(Errc::unsupported, "a big-endian file (version " + std::to_string(version >> 24) +
                                       " with its bytes reversed); only little-endian ones are read");
  if (version < kOldestVersion || version > gguf::kVersion)
    return fail(Errc::unsupported, "version " + std::to_string(version) + ", this build reads versions 2 and 3");
  return {};
}

Result<GgufParts> decode_gguf_header(ByteSpan bytes) {
  Cursor in(bytes);
  WEFT_CHECK(check_version(in));
  WEFT_TRY(const std::size_t tensors, in.count(kMaxTensors, 24, "tensors"));
  WEFT_TRY(const std::size_t pairs, in.count(kMaxPairs, 13, "keys"));
  GgufParts decoded;
  WEFT_TRY(decoded.metadata, read_metadata(in, pairs));
  WEFT_TRY(const std::size_t alignment, alignment_of(decoded.metadata));
  std::vector<TensorEntry> rows;
  rows.reserve(tensors);
  std::unordered_set<std::string> names;
  for (std::size_t i = 0; i < tensors; ++i) {
    WEFT_TRY(const std::string_view view, in.text(gguf::kMaxNameSize, "a tensor's name"));
    const std::string name(view);
    if (name.empty()) return fail(Errc::corrupt, "a tensor without a name");
    if (!names.insert(name).second)
      return fail(Errc::duplicate_name, "tensor '" + printable(name) + "' is there twice");
    auto row = read_entry(in, name);
    if (!row) return fail(std::move(row).error().within("tensor '" + printable(name) + "'"));
    rows.push_back(*std::move(row));
  }
  WEFT_CHECK(place_tensors(rows, bytes, aligned(in.at(), alignment), alignment));
  for (TensorEntry& row : rows) decoded.tensors.push_back(std::move(row.tensor));
  return decoded;
}

}  // namespace

bool is_gguf(ByteSpan bytes) noexcept { return as_text(bytes).starts_with(gguf::kMagic); }

Result<GgufFile> decode_gguf(storage::MappedFile file, std::string_view source_name) {
  WEFT_TRY(GgufParts parts, GgufFile::decoded(file, source_name, decode_gguf_header));
  return GgufFile(std::move(file), std::move(parts.tensors), std::move(parts.metadata));
}

Result<GgufFile> load_gguf(storage::FileSystem& files, const std::string& path) {
  WEFT_TRY(storage::MappedFile file, files.map(path, gguf::kMaxFileSize));
  return decode_gguf(std::move(file), path);
}

}  // namespace weft::formats
