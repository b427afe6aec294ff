// SPDX-License-Identifier: Apache-2.0

#include "formats/onnx/internal/onnx_tensor.hpp"

#include "formats/onnx/internal/onnx_limits.hpp"
#include "formats/onnx/internal/protobuf.hpp"
#include "formats/onnx/onnx_model.hpp"

#include "core/printable.hpp"
#include "core/shape.hpp"

#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

namespace weft::formats::onnx {
namespace {

enum TensorField : std::uint32_t {
  kDims = 1,
  kDataType = 2,
  kSegment = 3,
  kFloatData = 4,
  kInt32Data = 5,
  kStringData = 6,
  kInt64Data = 7,
  kName = 8,
  kRawData = 9,
  kDoubleData = 10,
  kUint64Data = 11,
  kExternalData = 13,
  kDataLocation = 14
};

/// A natural number in decimal digits.
Result<std::uint64_t> natural(std::string_view key, std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return fail(Errc::corrupt,
                "external data: " + std::string(key) + ": found " + in_quotes(text) + ", expected a number of bytes");
  return value;
}

Status read_external(ByteSpan message, ExternalData& data) {
  std::string_view key, value;
  FieldReader in(message);
  while (!in.at_end()) {
    WEFT_TRY(const Field field, in.next());
    if (field.number == 1) {
      WEFT_TRY(key, field.text());
    } else if (field.number == 2) {
      WEFT_TRY(value, field.text());
    }
  }
  if (key == "location") data.location = value;
  if (key == "offset") {
    WEFT_TRY(data.offset, natural(key, value));
  }
  if (key == "length") {
    WEFT_TRY(data.length, natural(key, value));
  }
  return {};  // "checksum" and keys of others say nothing about where the bytes lie
}

/// The fields of a message as they stand there.
struct Parts {
  std::vector<std::int64_t> dims, int32s, int64s, uint64s;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::size_t texts = 0;
  std::int64_t type = 0, location = 0;
  std::optional<ByteSpan> raw;
  std::string name;
  std::optional<ExternalData> external;

  std::size_t typed() const {
    return int32s.size() + int64s.size() + uint64s.size() + floats.size() + doubles.size() + texts;
  }
};

Status read_field(const Field& field, Parts& parts) {
  switch (field.number) {
    case kDims:
      return add_varints(field, parts.dims);
    case kDataType: {
      WEFT_TRY(parts.type, field.integer());
      return {};
    }
    case kSegment:
      return fail(Errc::unsupported, "a segment of a tensor");
    case kFloatData:
      return add_floats(field, parts.floats);
    case kInt32Data:
      return add_varints(field, parts.int32s);
    case kStringData:
      ++parts.texts;
      return {};
    case kInt64Data:
      return add_varints(field, parts.int64s);
    case kName: {
      WEFT_TRY(const std::string_view name, field.text());
      parts.name = name;
      return {};
    }
    case kRawData: {
      WEFT_TRY(parts.raw, field.message());
      return {};
    }
    case kDoubleData:
      return add_doubles(field, parts.doubles);
    case kUint64Data:
      return add_varints(field, parts.uint64s);
    case kExternalData: {
      WEFT_TRY(const ByteSpan entry, field.message());
      if (!parts.external) parts.external.emplace();
      return read_external(entry, *parts.external);
    }
    case kDataLocation: {
      WEFT_TRY(parts.location, field.integer());
      return {};
    }
    default:
      return {};
  }
}

/// The lowest `bytes` of each number, one after the other. @error corrupt: a number that they cannot hold
template <class Number>
Result<ByteBuffer> narrowed(const std::vector<Number>& numbers, std::size_t bytes) {
  ByteBuffer out(numbers.size() * bytes);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if constexpr (std::is_same_v<Number, std::int64_t>) {
      const std::int64_t high = bytes < 8 ? numbers[i] >> (8 * bytes) : 0;
      const std::int64_t sign = bytes < 8 ? numbers[i] >> (8 * bytes - 1) : 0;
      if (bytes < 8 && high != 0 && sign != -1)
        return fail(Errc::corrupt, "element " + std::to_string(i) + " is " + std::to_string(numbers[i]) +
                                       ", which does not fit " + std::to_string(bytes) + " bytes");
    }
    std::memcpy(out.data() + i * bytes, &numbers[i], bytes);  // little-endian, as core/state_hash.cpp asserts
  }
  return out;
}

/// The elements of the field that a type has them in.
Result<ByteBuffer> typed_data(const Parts& parts, const OnnxType& type) {
  const std::size_t bytes = (type.bits + 7) / 8;
  std::size_t used = 0;
  Result<ByteBuffer> data = ByteBuffer();
  if (type.name == "float32") {
    used = parts.floats.size();
    data = narrowed(parts.floats, bytes);
  } else if (type.name == "float64") {
    used = parts.doubles.size();
    data = narrowed(parts.doubles, bytes);
  } else if (type.name == "int64") {
    used = parts.int64s.size();
    data = narrowed(parts.int64s, bytes);
  } else if (type.name == "uint32" || type.name == "uint64") {
    used = parts.uint64s.size();
    data = narrowed(parts.uint64s, bytes);
  } else if (type.number != 14 && type.number != 15) {
    used = parts.int32s.size();
    data = narrowed(parts.int32s, bytes);
  }
  if (!data) return data;
  if (used != parts.typed())
    return fail(Errc::corrupt, "elements in a field that " + std::string(type.name) + " does not use");
  return data;
}

Failure wrong_size(const Tensor& tensor, std::size_t expected, std::size_t found) {
  return fail(Errc::corrupt, tensor.type + " " + to_string(tensor.shape) + " takes " + std::to_string(expected) +
                                 " bytes, found " + std::to_string(found));
}

Result<std::size_t> bytes_of(const OnnxType& type, const Shape& shape) {
  Shape positive;
  bool is_empty = false;
  for (const std::size_t extent : shape) {
    if (extent != 0) positive.push_back(extent);
    is_empty |= extent == 0;
  }
  WEFT_TRY(const std::size_t elements, volume(positive));  // at most 2^40
  return is_empty ? 0 : (elements * type.bits + 7) / 8;
}

Status place_data(Parts& parts, const OnnxType& type, TensorMessage& read) {
  if (parts.location == 1 || parts.external) {
    if (parts.location != 1 || !parts.external || parts.external->location.empty())
      return fail(Errc::corrupt, "external data without a place, or a place without external data");
    if (parts.raw || parts.typed() != 0) return fail(Errc::corrupt, "both external data and elements in the file");
    read.external = std::move(parts.external);
    return {};
  }
  if (parts.location != 0)
    return fail(Errc::corrupt, "data_location " + std::to_string(parts.location) + ", expected 0 or 1");
  if (parts.raw) {
    if (parts.typed() != 0) return fail(Errc::corrupt, "both raw_data and elements of a field of their own");
    if (parts.raw->size() != read.size) return wrong_size(read.tensor, read.size, parts.raw->size());
    read.tensor.bytes = *parts.raw;
    return {};
  }
  WEFT_TRY(ByteBuffer data, typed_data(parts, type));
  if (data.size() != read.size) return wrong_size(read.tensor, read.size, data.size());
  if (data.size() == 0) return {};
  read.decoded.emplace(std::move(data));
  read.tensor.bytes = read.decoded->bytes();
  return {};
}

Status interpret(Parts& parts, TensorMessage& read) {
  const OnnxType* const type = find_onnx_type(parts.type);
  if (!type) return fail(Errc::unsupported, "type " + std::to_string(parts.type) + " is not known");
  read.tensor.type = type->name;
  if (parts.dims.size() > kMaxRank)
    return fail(Errc::too_large,
                std::to_string(parts.dims.size()) + " dimensions, at most " + std::to_string(kMaxRank));
  for (const std::int64_t extent : parts.dims) {
    if (extent < 0) return fail(Errc::corrupt, "an extent of " + std::to_string(extent));
    read.tensor.shape.push_back(static_cast<std::size_t>(extent));
  }
  WEFT_TRY(read.size, bytes_of(*type, read.tensor.shape));
  if (type->bits != 0) return place_data(parts, *type, read);
  // Texts: only told of, never used.
  if (parts.location != 0 || parts.raw) return fail(Errc::corrupt, "texts outside string_data");
  read.size = 0;
  return {};
}

}  // namespace

Result<TensorMessage> read_tensor(ByteSpan message) {
  Parts parts;
  FieldReader in(message);
  while (!in.at_end()) {
    WEFT_TRY(const Field field, in.next());
    WEFT_CHECK(read_field(field, parts));
  }
  TensorMessage read;
  read.tensor.name = parts.name;
  if (parts.name.size() > kMaxNameSize)
    return fail(Errc::too_large, "a tensor's name of " + std::to_string(parts.name.size()) + " bytes");
  if (Status done = interpret(parts, read); !done)
    return fail(std::move(done).error().within("tensor '" + printable(parts.name) + "'"));
  return read;
}

}  // namespace weft::formats::onnx
