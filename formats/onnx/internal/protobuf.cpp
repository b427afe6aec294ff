// SPDX-License-Identifier: Apache-2.0

#include "formats/onnx/internal/protobuf.hpp"

#include <cstring>

namespace weft::formats::onnx {
namespace {

Failure wrong_wire(const Field& field, std::string_view expected) {
  return fail(Errc::parse_failed, "field " + std::to_string(field.number) + " has wire type " +
                                      std::to_string(static_cast<unsigned>(field.wire)) + ", expected " +
                                      std::string(expected));
}

template <class Bits, class Value>
Status add_fixed(const Field& field, Wire alone, std::vector<Value>& to) {
  if (field.wire == alone) {
    to.push_back(std::bit_cast<Value>(static_cast<Bits>(field.value)));
    return {};
  }
  if (field.wire != Wire::bytes) return wrong_wire(field, "numbers of a fixed size");
  if (field.bytes.size() % sizeof(Bits) != 0)
    return fail(Errc::parse_failed, "field " + std::to_string(field.number) + ": " +
                                        std::to_string(field.bytes.size()) + " bytes are no whole numbers of " +
                                        std::to_string(sizeof(Bits)) + " bytes");
  FieldReader in(field.bytes);
  to.reserve(to.size() + field.bytes.size() / sizeof(Bits));
  while (!in.at_end()) {
    WEFT_TRY(const Bits bits, in.fixed<Bits>());
    to.push_back(std::bit_cast<Value>(bits));
  }
  return {};
}

}  // namespace

Result<ByteSpan> Field::message() const {
  if (wire != Wire::bytes) return wrong_wire(*this, "2 (bytes)");
  return bytes;
}
Result<std::string_view> Field::text() const {
  if (wire != Wire::bytes) return wrong_wire(*this, "2 (bytes)");
  return as_text(bytes);
}
Result<std::int64_t> Field::integer() const {
  if (wire != Wire::varint) return wrong_wire(*this, "0 (a varint)");
  return static_cast<std::int64_t>(value);
}
Result<float> Field::real() const {
  if (wire != Wire::fixed32) return wrong_wire(*this, "5 (32 bits)");
  return std::bit_cast<float>(static_cast<std::uint32_t>(value));
}

Result<ByteSpan> FieldReader::take(std::uint64_t size) {
  if (size > message_.size() - at_)
    return fail(Errc::parse_failed, "cut short: a field of " + std::to_string(size) + " bytes in the last " +
                                        std::to_string(message_.size() - at_) + " of a message");
  at_ += size;
  return message_.subspan(at_ - size, size);
}

Result<std::uint64_t> FieldReader::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    WEFT_TRY(const ByteSpan byte, take(1));
    const auto part = static_cast<std::uint64_t>(byte[0]);
    // Of the tenth byte one bit is left.
    if (shift == 63 && part > 1) break;
    value |= (part & 127) << shift;
    if (part < 128) return value;
  }
  return fail(Errc::parse_failed, "a varint of more than 64 bits");
}

Result<Field> FieldReader::next() {
  WEFT_TRY(const std::uint64_t key, varint());
  Field field;
  if (key >> 3 == 0 || key >> 3 > 536'870'911)
    return fail(Errc::parse_failed, "field number " + std::to_string(key >> 3) + ", expected 1 to 536870911");
  field.number = static_cast<std::uint32_t>(key >> 3);
  switch (key & 7) {
    case 0: {
      WEFT_TRY(field.value, varint());
      return field;
    }
    case 1: {
      field.wire = Wire::fixed64;
      WEFT_TRY(field.value, fixed<std::uint64_t>());
      return field;
    }
    case 2: {
      field.wire = Wire::bytes;
      WEFT_TRY(const std::uint64_t size, varint());
      WEFT_TRY(field.bytes, take(size));
      return field;
    }
    case 5: {
      field.wire = Wire::fixed32;
      WEFT_TRY(field.value, fixed<std::uint32_t>());
      return field;
    }
    default:
      return fail(Errc::parse_failed, "field " + std::to_string(field.number) + " has wire type " +
                                          std::to_string(key & 7) + ", expected 0, 1, 2 or 5");
  }
}

Status add_varints(const Field& field, std::vector<std::int64_t>& to) {
  if (field.wire == Wire::varint) {
    to.push_back(static_cast<std::int64_t>(field.value));
    return {};
  }
  if (field.wire != Wire::bytes) return wrong_wire(field, "varints");
  FieldReader in(field.bytes);
  while (!in.at_end()) {
    WEFT_TRY(const std::uint64_t value, in.varint());
    to.push_back(static_cast<std::int64_t>(value));
  }
  return {};
}
Status add_floats(const Field& field, std::vector<float>& to) {
  return add_fixed<std::uint32_t>(field, Wire::fixed32, to);
}
Status add_doubles(const Field& field, std::vector<double>& to) {
  return add_fixed<std::uint64_t>(field, Wire::fixed64, to);
}

void MessageWriter::raw_varint(std::uint64_t value) {
  for (; value >= 128; value >>= 7) bytes_.push_back(static_cast<char>((value & 127) | 128));
  bytes_.push_back(static_cast<char>(value));
}
void MessageWriter::varint(std::uint32_t number, std::uint64_t value) {
  key(number, Wire::varint);
  raw_varint(value);
}
void MessageWriter::real(std::uint32_t number, float value) {
  key(number, Wire::fixed32);
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);  // little-endian, as core/state_hash.cpp asserts
}
void MessageWriter::begin_bytes(std::uint32_t number, std::uint64_t size) {
  key(number, Wire::bytes);
  raw_varint(size);
}
void MessageWriter::text(std::uint32_t number, std::string_view value) {
  begin_bytes(number, value.size());
  bytes_ += value;
}
void MessageWriter::packed(std::uint32_t number, const std::vector<std::int64_t>& values) {
  MessageWriter inner;
  for (const std::int64_t value : values) inner.raw_varint(static_cast<std::uint64_t>(value));
  message(number, inner);
}
void MessageWriter::packed(std::uint32_t number, const std::vector<float>& values) {
  begin_bytes(number, values.size() * sizeof(float));
  bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

}  // namespace weft::formats::onnx
