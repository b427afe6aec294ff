// SPDX-License-Identifier: Apache-2.0

#include "formats/safetensors/internal/safetensors_layout.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "storage/durable.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <tuple>

namespace weft::formats {
namespace {

using namespace safetensors;

/// A tensor and how it stands in the file.
struct RowToWrite {
  Tensor tensor;
  const Type* type = nullptr;
  std::size_t size = 0;
};

Result<RowToWrite> row_to_write(Tensor tensor) {
  WEFT_CHECK(check_name(tensor.name));
  RowToWrite row{std::move(tensor), nullptr, 0};
  const std::string what = "tensor '" + printable(row.tensor.name) + "': ";
  row.type = find_type(row.tensor.type);
  if (!row.type)
    return fail(Errc::unknown_name, what + "type " + in_quotes(row.tensor.type) + " has no form in safetensors");
  if (row.tensor.shape.size() > safetensors::kMaxRank)
    return fail(Errc::too_large, what + std::to_string(row.tensor.shape.size()) + " dimensions, at most " +
                                     std::to_string(safetensors::kMaxRank));
  auto size = is_own_type(row.tensor.type) ? tensor_size(row.tensor.type, row.tensor.shape)
                                           : size_of(row.tensor.shape, row.type->bits);
  if (!size) return fail(std::move(size).error().within("tensor '" + printable(row.tensor.name) + "'"));
  row.size = *size;
  if (!row.tensor.produce && row.tensor.bytes.size() != row.size)
    return fail(Errc::shape_mismatch, what + row.tensor.type + " " + to_string(row.tensor.shape) + " takes " +
                                          std::to_string(row.size) + " bytes, there are " +
                                          std::to_string(row.tensor.bytes.size()));
  return row;
}

Result<std::string> text_of(std::string_view text) {
  auto written = write_json(Json(text), -1, {.max_bytes = kMaxHeaderSize});
  if (!written) return fail(std::move(written).error().within("safetensors header"));
  return written;
}

/// The header's text: keys in the order of the bytes, spelled as the reference writer spells them.
Result<std::string> make_header(const std::vector<RowToWrite>& rows, const SafetensorsNotes& notes) {
  std::string text = "{";
  if (!notes.empty()) {
    text += "\"" + std::string(kNotesKey) + "\":{";
    for (const auto& [key, note] : notes) {
      WEFT_TRY(const std::string name, text_of(key));
      WEFT_TRY(const std::string value, text_of(note));
      text += (text.back() == '{' ? "" : ",") + name + ":" + value;
    }
    text += "}";
  }
  std::size_t begin = 0;
  for (const RowToWrite& row : rows) {
    WEFT_TRY(const std::string name, text_of(row.tensor.name));
    text += (text.size() == 1 ? "" : ",") + name + ":{\"dtype\":\"" + std::string(row.type->name) + "\",\"shape\":[";
    const Shape& shape = is_own_type(row.tensor.type) ? Shape{row.size} : row.tensor.shape;
    for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(shape[i]);
    text += "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(begin + row.size) + "]}";
    begin += row.size;
    if (begin > safetensors::kMaxFileSize) return fail(Errc::too_large, "safetensors: more than 2^46 bytes of tensors");
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxHeaderSize)
    return fail(Errc::too_large, "safetensors: a header of " + std::to_string(text.size()) + " bytes, at most " +
                                     std::to_string(kMaxHeaderSize));
  return text;
}

struct SafetensorsPlan {
  std::string head;  // length and header
  std::vector<RowToWrite> rows;
};

Status produce(const SafetensorsPlan& plan, const ByteSource::Sink& sink) {
  WEFT_CHECK(sink(as_bytes(plan.head)));
  for (const RowToWrite& row : plan.rows) {
    if (!row.tensor.produce) {
      if (row.size != 0) WEFT_CHECK(sink(row.tensor.bytes));
      continue;
    }
    std::size_t produced = 0;
    const auto counted = [&](ByteSpan part) -> Status {
      if (part.size() > row.size - produced) return fail(Errc::shape_mismatch, "produces more bytes than it said");
      produced += part.size();
      return sink(part);
    };
    Status status = row.tensor.produce(counted);
    if (status && produced != row.size) status = fail(Errc::shape_mismatch, "produces fewer bytes than it said");
    if (!status) return fail(Error(status.error()).within("tensor '" + printable(row.tensor.name) + "'"));
  }
  return {};
}

/// Types of tensors that are carried as bytes.
Status add_own_note(SafetensorsNotes& notes, const std::vector<RowToWrite>& rows) {
  if (notes.contains(kOwnNote))
    return fail(Errc::invalid_argument, "safetensors: the note \"weft\" is kept for types of Weft's own");
  Json own = Json::object();
  for (const RowToWrite& row : rows)
    if (is_own_type(row.tensor.type)) own[row.tensor.name] = {{"type", row.tensor.type}, {"shape", row.tensor.shape}};
  if (!own.empty()) {
    WEFT_TRY(const std::string text, write_json(own, -1, {.max_bytes = kMaxHeaderSize, .max_values = SIZE_MAX}));
    notes.emplace(kOwnNote, text);
  }
  return {};
}

}  // namespace

Result<ByteSource> safetensors_source(std::vector<Tensor> tensors, const SafetensorsNotes& notes) {
  if (tensors.size() > safetensors::kMaxTensors)
    return fail(Errc::too_large, "safetensors: " + std::to_string(tensors.size()) + " tensors, at most 2^20");
  auto plan = std::make_shared<SafetensorsPlan>();
  plan->rows.reserve(tensors.size());
  for (Tensor& tensor : tensors) {
    WEFT_TRY(RowToWrite row, row_to_write(std::move(tensor)));
    plan->rows.push_back(std::move(row));
  }
  std::sort(plan->rows.begin(), plan->rows.end(), [](const RowToWrite& a, const RowToWrite& b) {
    return std::tie(a.type, a.tensor.name) < std::tie(b.type, b.tensor.name);  // by place in kTypes, then by name
  });
  std::vector<std::string_view> names;
  for (const RowToWrite& row : plan->rows) names.push_back(row.tensor.name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    return fail(Errc::duplicate_name, "tensor '" + printable(*twice) + "' is there twice");
  SafetensorsNotes all = notes;
  WEFT_CHECK(add_own_note(all, plan->rows));
  WEFT_TRY(const std::string header, make_header(plan->rows, all));
  const std::uint64_t length = header.size();
  plan->head.resize(kLengthSize);
  std::memcpy(plan->head.data(), &length, sizeof length);  // little-endian, as core/state_hash.cpp asserts
  plan->head += header;
  std::uint64_t size = plan->head.size();
  for (const RowToWrite& row : plan->rows) size += row.size;
  return ByteSource(size, [plan](const ByteSource::Sink& sink) { return produce(*plan, sink); });
}

Status save_safetensors(storage::FileSystem& files, const std::string& path, std::vector<Tensor> tensors,
                        const SafetensorsNotes& notes) {
  auto source = safetensors_source(std::move(tensors), notes);
  if (!source) return fail(std::move(source).error().within(path));
  return storage::write_file_durably(files, path, *source);
}

}  // namespace weft::formats
