// SPDX-License-Identifier: Apache-2.0

#include "formats/gguf/gguf.hpp"
#include "formats/gguf/gguf_blocks.hpp"
#include "formats/gguf/internal/gguf_layout.hpp"

#include "core/printable.hpp"

#include <array>
#include <memory>
#include <type_traits>
#include <unordered_set>

namespace weft::formats {
namespace {

using namespace gguf;

constexpr std::array<std::byte, kMostAlignment> kZeros{};

/// Appends values as the file has them; little-endian, as core/state_hash.cpp asserts.
class ValueWriter {
 public:
  std::string bytes;

  template <class T>
  void number(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view text) {
    number(std::uint64_t{text.size()});
    bytes.append(text);
  }
  template <class T>
  void one(const T& value) {
    if constexpr (std::is_same_v<T, std::string>)
      text(value);
    else if constexpr (std::is_same_v<T, bool>)
      number(static_cast<std::uint8_t>(value ? 1 : 0));
    else
      number(value);
  }
  void value(const GgufValue& value) {
    number(static_cast<std::uint32_t>(value.index()));
    std::visit(
        [&](const auto& held) {
          if constexpr (std::is_same_v<std::decay_t<decltype(held)>, GgufArray>)
            array(held);
          else
            one(held);
        },
        value);
  }

 private:
  void array(const GgufArray& array) {
    number(static_cast<std::uint32_t>(array.index()));
    number(std::uint64_t{size(array)});
    std::visit(
        [&](const auto& elements) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(elements)>, std::monostate>)
            for (const auto& element : elements) one<std::decay_t<decltype(elements[0])>>(element);
        },
        array);
  }
};

Status check_text(std::string_view text) {
  if (text.size() <= kMaxTextSize) return {};
  return fail(Errc::too_large, "a string of " + std::to_string(text.size()) + " bytes, at most 64 MiB");
}

Status check_value(const GgufValue& value) {
  if (const auto* const text = std::get_if<std::string>(&value)) return check_text(*text);
  const auto* const array = std::get_if<GgufArray>(&value);
  if (!array) return {};
  if (std::holds_alternative<std::monostate>(*array))
    return fail(Errc::invalid_argument, "an array of arrays has no form in GGUF");
  if (size(*array) > kMaxElements)
    return fail(Errc::too_large, std::to_string(size(*array)) + " elements, at most 2^26");
  if (const auto* const texts = std::get_if<std::vector<std::string>>(array))
    for (const std::string& text : *texts) WEFT_CHECK(check_text(text));
  return {};
}

Status check_metadata(const GgufMetadata& metadata) {
  if (metadata.size() > kMaxPairs)
    return fail(Errc::too_large, "gguf: " + std::to_string(metadata.size()) + " keys, at most 65536");
  for (const auto& [key, value] : metadata.pairs()) {
    if (key.empty() || key.size() > kMaxKeySize)
      return fail(Errc::invalid_argument, "gguf: a key of " + std::to_string(key.size()) + " bytes, 1 to 65536 fit");
    if (Status status = check_value(value); !status)
      return fail(Error(status.error()).within("metadata " + in_quotes(key)));
  }
  return {};
}

/// A tensor and how it stands in the file.
struct BlocksToWrite {
  Tensor tensor;
  GgufType type;
  std::size_t size = 0;
};

Result<BlocksToWrite> blocks_to_write(Tensor tensor) {
  const std::string what = "tensor '" + printable(tensor.name) + "': ";
  if (tensor.name.empty() || tensor.name.size() > gguf::kMaxNameSize)
    return fail(Errc::invalid_argument, what + "a name has 1 to 63 bytes in GGUF");
  const auto type = find_gguf_type(tensor.type);
  if (!type || !type->in_files)
    return fail(Errc::unknown_name, what + "type " + in_quotes(tensor.type) + " has no form in GGUF");
  if (tensor.shape.size() > gguf::kMaxRank)
    return fail(Errc::shape_mismatch, what + to_string(tensor.shape) + " has more than 4 dimensions");
  WEFT_TRY(const std::size_t elements, volume(tensor.shape));
  const std::size_t inner = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (inner % type->elements != 0)
    return fail(Errc::shape_mismatch, what + "rows of " + std::to_string(inner) + " elements are no whole blocks of " +
                                          tensor.type + ", which have " + std::to_string(type->elements));
  BlocksToWrite row{std::move(tensor), *type, elements / type->elements * type->bytes};
  if (!row.tensor.produce && row.tensor.bytes.size() != row.size)
    return fail(Errc::shape_mismatch, what + row.tensor.type + " " + to_string(row.tensor.shape) + " takes " +
                                          std::to_string(row.size) + " bytes, there are " +
                                          std::to_string(row.tensor.bytes.size()));
  return row;
}

struct GgufPlan {
  std::string head;
  std::vector<BlocksToWrite> rows;
  std::size_t alignment = kDefaultAlignment;
};

Status produce(const BlocksToWrite& row, const ByteSource::Sink& sink) {
  if (!row.tensor.produce) return sink(row.tensor.bytes);
  std::size_t produced = 0;
  WEFT_CHECK(row.tensor.produce([&](ByteSpan part) -> Status {
    if (part.size() > row.size - produced) return fail(Errc::shape_mismatch, "produces more bytes than it said");
    produced += part.size();
    return sink(part);
  }));
  if (produced != row.size) return fail(Errc::shape_mismatch, "produces fewer bytes than it said");
  return {};
}

Status produce(const GgufPlan& plan, const ByteSource::Sink& sink) {
  WEFT_CHECK(sink(as_bytes(plan.head)));
  for (const BlocksToWrite& row : plan.rows) {
    if (Status status = produce(row, sink); !status)
      return fail(Error(status.error()).within("tensor '" + printable(row.tensor.name) + "'"));
    if (const std::size_t padding = aligned(row.size, plan.alignment) - row.size)
      WEFT_CHECK(sink(ByteSpan(kZeros).first(padding)));
  }
  return {};
}

Status write_head(GgufPlan& plan, const GgufMetadata& metadata) {
  ValueWriter out;
  out.bytes = gguf::kMagic;
  out.number(gguf::kVersion);
  out.number(std::uint64_t{plan.rows.size()});
  out.number(std::uint64_t{metadata.size()});
  for (const auto& [key, value] : metadata.pairs()) {
    out.text(key);
    out.value(value);
  }
  std::size_t offset = 0;
  for (const BlocksToWrite& row : plan.rows) {
    const Shape& shape = row.tensor.shape;
    out.text(row.tensor.name);
    out.number(static_cast<std::uint32_t>(shape.size()));
    for (std::size_t i = shape.size(); i-- > 0;) out.number(std::uint64_t{shape[i]});
    out.number(row.type.number);
    out.number(std::uint64_t{offset});
    offset += aligned(row.size, plan.alignment);
    if (offset > gguf::kMaxFileSize) return fail(Errc::too_large, "gguf: more than 2^46 bytes of tensors");
  }
  plan.head = std::move(out.bytes);
  plan.head.resize(aligned(plan.head.size(), plan.alignment));
  return {};
}

}  // namespace

Result<ByteSource> gguf_source(GgufMetadata metadata, std::vector<Tensor> tensors) {
  if (tensors.size() > kMaxTensors)
    return fail(Errc::too_large, "gguf: " + std::to_string(tensors.size()) + " tensors, at most 2^20");
  WEFT_CHECK(check_metadata(metadata));
  auto plan = std::make_shared<GgufPlan>();
  if (const GgufValue* const value = metadata.find(kAlignmentKey)) {
    const auto* const found = std::get_if<std::uint32_t>(value);
    if (!found || !is_alignment(*found))
      return fail(Errc::invalid_argument,
                  "gguf: general.alignment must be a u32 that is a power of two from 8 to 65536");
    plan->alignment = *found;
  }
  std::unordered_set<std::string> names;
  plan->rows.reserve(tensors.size());
  for (Tensor& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      return fail(Errc::duplicate_name, "tensor '" + printable(tensor.name) + "' is there twice");
    WEFT_TRY(BlocksToWrite row, blocks_to_write(std::move(tensor)));
    plan->rows.push_back(std::move(row));
  }
  WEFT_CHECK(write_head(*plan, metadata));
  std::uint64_t size = plan->head.size();
  for (const BlocksToWrite& row : plan->rows) size += aligned(row.size, plan->alignment);
  return ByteSource(size, [plan](const ByteSource::Sink& sink) { return produce(*plan, sink); });
}

}  // namespace weft::formats
