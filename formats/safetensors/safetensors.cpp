// SPDX-License-Identifier: Apache-2.0

#include "formats/safetensors/safetensors.hpp"

#include "formats/internal/load.hpp"
#include "formats/safetensors/internal/safetensors_layout.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace weft::formats {
namespace {

using namespace safetensors;

constexpr JsonLimits kJsonLimits{
    .max_bytes = kMaxHeaderSize, .max_depth = 4, .max_values = safetensors::kMaxTensors * (safetensors::kMaxRank + 6)};

Failure within_tensor(const std::string& name, Error error) {
  return fail(std::move(error).within("tensor '" + printable(name) + "'"));
}

Result<std::string_view> find_header(ByteSpan bytes) {
  if (bytes.size() < kLengthSize)
    return fail(Errc::corrupt, "HeaderTooSmall: " + std::to_string(bytes.size()) + " bytes, the first 8 are a length");
  if (as_text(bytes).starts_with("version https://git-lfs"))
    return fail(Errc::parse_failed,
                "is a Git LFS pointer, and not the file that it stands for; git lfs pull fetches that");
  const auto length = load<std::uint64_t>(bytes, 0);
  if (length > kMaxHeaderSize)
    return fail(Errc::too_large, "HeaderTooLarge: header of " + std::to_string(length) + " bytes, at most " +
                                     std::to_string(kMaxHeaderSize) + " are read; or no safetensors file");
  if (length > bytes.size() - kLengthSize)
    return fail(Errc::corrupt, "InvalidHeaderLength: header of " + std::to_string(length) + " bytes in a file of " +
                                   std::to_string(bytes.size()));
  const std::string_view text = as_text(bytes.subspan(kLengthSize, length));
  if (text.empty() || text.front() != '{')
    return fail(Errc::parse_failed,
                "InvalidHeaderStart: the header begins with " + in_quotes(text.substr(0, 1)) + ", expected \"{\"");
  return text;
}

/// A whole number from 0 to `most`, spelled as digits alone.
Result<std::uint64_t> natural(const Json& value, std::uint64_t most, const std::string& what) {
  if (!value.is_natural())
    return fail(Errc::parse_failed,
                "TensorInvalidInfo: " + what + ": found " + printable(value.dump()) + ", expected a whole number");
  const auto found = value.get<std::uint64_t>();
  if (found <= most) return found;
  return fail(Errc::too_large,
              "TensorInvalidInfo: " + what + ": found " + std::to_string(found) + ", at most " + std::to_string(most));
}

struct HeaderRow {
  Tensor tensor;
  std::uint64_t begin = 0, end = 0;
};

Result<HeaderRow> read_header_row(const std::string& name, const Json& value) {
  if (!value.is_object()) return fail(Errc::parse_failed, "TensorInvalidInfo: is no object");
  for (const auto& [key, unused] : value.members())
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      return fail(Errc::unknown_name,
                  "InvalidHeaderDeserialization: key " + in_quotes(key) + ", expected dtype, shape and data_offsets");
  const Json &dtype = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
  if (!dtype.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2)
    return fail(Errc::parse_failed, "TensorInvalidInfo: expected dtype (a text), shape and two data_offsets");
  const Type* const type = find_type_by_name(dtype.text());
  if (!type)
    return fail(Errc::unknown_name, "InvalidHeaderDeserialization: dtype " + in_quotes(dtype.text()) + " is not known");
  HeaderRow row{{name, std::string(type->type), {}, {}}};
  if (shape.size() > safetensors::kMaxRank)
    return fail(Errc::too_large, "TensorInvalidInfo: " + std::to_string(shape.size()) + " dimensions, at most " +
                                     std::to_string(safetensors::kMaxRank));
  for (const Json& extent : shape) {
    WEFT_TRY(const std::uint64_t n, natural(extent, kMaxExtent, "shape"));
    row.tensor.shape.push_back(n);
  }
  WEFT_TRY(row.begin, natural(offsets[0], safetensors::kMaxFileSize, "data_offsets"));
  WEFT_TRY(row.end, natural(offsets[1], safetensors::kMaxFileSize, "data_offsets"));
  WEFT_TRY(const std::size_t size, size_of(row.tensor.shape, type->bits));
  if (row.begin > row.end || row.end - row.begin != size)
    return fail(Errc::corrupt, "TensorInvalidInfo: data_offsets [" + std::to_string(row.begin) + ", " +
                                   std::to_string(row.end) + "] against " + std::to_string(size) + " bytes of " +
                                   dtype.text() + " " + to_string(row.tensor.shape));
  return row;
}

Result<SafetensorsNotes> read_notes(const Json& value) {
  if (!value.is_object()) return fail(Errc::parse_failed, "InvalidHeaderDeserialization: __metadata__ is no object");
  SafetensorsNotes notes;
  for (const auto& [key, text] : value.members()) {
    if (!text.is_string())
      return fail(Errc::parse_failed, "InvalidHeaderDeserialization: __metadata__." + printable(key) + ": found " +
                                          printable(text.dump()) + ", expected a text");
    notes.emplace(key, text.text());
  }
  return notes;
}

/// Rows by offset: each begins where the one before ended, and the last one ends with the file.
Status lay_out(std::vector<HeaderRow>& rows, ByteSpan data) {
  std::stable_sort(rows.begin(), rows.end(), [](const HeaderRow& a, const HeaderRow& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  std::uint64_t end = 0;
  for (HeaderRow& row : rows) {
    if (row.begin != end)
      return within_tensor(row.tensor.name,
                           Error(Errc::corrupt, "InvalidOffset: begins at " + std::to_string(row.begin) +
                                                    ", the tensor before it ends at " + std::to_string(end)));
    if (row.end > data.size())
      return within_tensor(row.tensor.name, Error(Errc::corrupt, "InvalidOffset: ends at " + std::to_string(row.end) +
                                                                     ", the file has " + std::to_string(data.size()) +
                                                                     " bytes of tensors"));
    row.tensor.bytes = data.subspan(row.begin, row.end - row.begin);
    end = row.end;
  }
  if (end != data.size())
    return fail(Errc::corrupt,
                "MetadataIncompleteBuffer: " + std::to_string(data.size() - end) + " bytes after the last tensor");
  return {};
}

/// Gives tensors that were carried as bytes the types that the note names.
Status apply_own_note(std::vector<HeaderRow>& rows, SafetensorsNotes& notes) {
  const auto note = notes.find(kOwnNote);
  if (note == notes.end()) return {};
  WEFT_TRY(const Json table, parse_json(note->second, "__metadata__.weft", kJsonLimits));
  std::unordered_map<std::string_view, HeaderRow*> by_name;
  for (HeaderRow& row : rows) by_name.emplace(row.tensor.name, &row);
  for (const auto& [name, entry] : table.members()) {
    const auto found = by_name.find(name);
    const auto refuse = [&name = name](const std::string& reason) {  // clang 14 captures no binding by itself
      return fail(Errc::corrupt, "__metadata__.weft: '" + printable(name) + "': " + reason);
    };
    if (found == by_name.end()) return refuse("no tensor of the file");
    const Json &type = entry["type"], &shape = entry["shape"];
    if (!type.is_string() || !is_own_type(type.text()) || !shape.is_array() || shape.size() > safetensors::kMaxRank)
      return refuse("found " + printable(entry.dump()) + ", expected a type and a shape");
    Tensor& tensor = found->second->tensor;
    Shape wanted;
    for (const Json& extent : shape) {
      WEFT_TRY(const std::uint64_t n, natural(extent, kMaxExtent, "__metadata__.weft: shape"));
      wanted.push_back(n);
    }
    WEFT_TRY(const std::size_t size, tensor_size(type.text(), wanted));
    if (tensor.type != "uint8" || tensor.shape != Shape{size})
      return refuse(type.text() + " " + to_string(wanted) + " takes uint8 [" + std::to_string(size) + "], found " +
                    tensor.type + " " + to_string(tensor.shape));
    tensor.type = type.text();
    tensor.shape = std::move(wanted);
  }
  notes.erase(note);
  return {};
}

struct SafetensorsParts {
  std::vector<Tensor> tensors;
  SafetensorsNotes notes;
};

Result<SafetensorsParts> decode_header(ByteSpan bytes) {
  if (bytes.size() > safetensors::kMaxFileSize) return fail(Errc::too_large, "more than 2^46 bytes");
  WEFT_TRY(const std::string_view text, find_header(bytes));
  auto header = parse_json(text, "header", kJsonLimits);
  if (!header) return fail(std::move(header).error().within("InvalidHeaderDeserialization"));
  if (!header->is_object()) return fail(Errc::parse_failed, "InvalidHeaderDeserialization: the header is no object");
  if (header->size() > safetensors::kMaxTensors + 1)
    return fail(Errc::too_large, "HeaderTooLarge: " + std::to_string(header->size()) + " tensors, at most 2^20");
  SafetensorsParts decoded;
  std::vector<HeaderRow> rows;
  rows.reserve(header->size());
  for (const auto& [name, value] : header->members()) {
    if (name == kNotesKey) {
      WEFT_TRY(decoded.notes, read_notes(value));
      continue;
    }
    WEFT_CHECK(check_name(name));
    auto row = read_header_row(name, value);
    if (!row) return within_tensor(name, std::move(row).error());
    rows.push_back(*std::move(row));
  }
  WEFT_CHECK(lay_out(rows, bytes.subspan(kLengthSize + text.size())));
  WEFT_CHECK(apply_own_note(rows, decoded.notes));
  decoded.tensors.reserve(rows.size());
  for (HeaderRow& row : rows) decoded.tensors.push_back(std::move(row.tensor));
  return decoded;
}

}  // namespace

Result<SafetensorsFile> decode_safetensors(storage::MappedFile file, std::string_view source_name) {
  WEFT_TRY(SafetensorsParts parts, SafetensorsFile::decoded(file, source_name, decode_header));
  return SafetensorsFile(std::move(file), std::move(parts.tensors), std::move(parts.notes));
}

Result<SafetensorsFile> load_safetensors(storage::FileSystem& files, const std::string& path) {
  WEFT_TRY(storage::MappedFile file, files.map(path, safetensors::kMaxFileSize));
  return decode_safetensors(std::move(file), path);
}

}  // namespace weft::formats
