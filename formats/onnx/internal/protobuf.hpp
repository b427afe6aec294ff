// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/byte_source.hpp"
#include "core/bytes.hpp"
#include "core/result.hpp"

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The wire format of Protocol Buffers, as far as ONNX files need it (docs/formats/onnx.md).
namespace weft::formats::onnx {

enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// A field of a message: its number, and the value that its wire type has.
struct Field {
  std::uint32_t number = 0;
  Wire wire = Wire::varint;
  std::uint64_t value = 0;  // of varint, fixed64 and fixed32
  ByteSpan bytes;           // of bytes: they lie in the message

  /// @error parse_failed: another wire type
  Result<ByteSpan> message() const;
  Result<std::string_view> text() const;
  Result<std::int64_t> integer() const;
  Result<float> real() const;
};

/// Reads the fields of a message, one by one; takes nothing that the message does not have.
class FieldReader {
 public:
  explicit FieldReader(ByteSpan message) : message_(message) {}
  bool at_end() const noexcept { return at_ == message_.size(); }
  /// @error parse_failed: cut short, a varint of more than 64 bits, field number 0, or a group
  Result<Field> next();
  Result<std::uint64_t> varint();
  template <class T>
  Result<T> fixed() {
    WEFT_TRY(const ByteSpan bytes, take(sizeof(T)));
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<T>(bytes[i]) << (8 * i));
    return value;
  }

 private:
  Result<ByteSpan> take(std::uint64_t size);
  ByteSpan message_;
  std::size_t at_ = 0;
};

/// Adds the numbers of a field that repeats, packed into bytes or alone: of varints, and of 32 and 64 fixed bits.
/// @error parse_failed: another wire type, or packed bytes that are no whole numbers
Status add_varints(const Field& field, std::vector<std::int64_t>& to);
Status add_floats(const Field& field, std::vector<float>& to);
Status add_doubles(const Field& field, std::vector<double>& to);

/// Writes a message, field by field.
class MessageWriter {
 public:
  void varint(std::uint32_t number, std::uint64_t value);
  void real(std::uint32_t number, float value);
  void text(std::uint32_t number, std::string_view value);
  void message(std::uint32_t number, const MessageWriter& value) { text(number, value.bytes_); }
  /// Varints in one field of bytes.
  void packed(std::uint32_t number, const std::vector<std::int64_t>& values);
  void packed(std::uint32_t number, const std::vector<float>& values);
  /// The key and the length of a field of bytes, which follow.
  void begin_bytes(std::uint32_t number, std::uint64_t size);
  /// The fields of another writer.
  void append(const MessageWriter& fields) { bytes_ += fields.bytes_; }
  const std::string& bytes() const noexcept { return bytes_; }

 private:
  void raw_varint(std::uint64_t value);
  void key(std::uint32_t number, Wire wire) {
    raw_varint(std::uint64_t{number} << 3 | static_cast<std::uint64_t>(wire));
  }
  std::string bytes_;
};

}  // namespace weft::formats::onnx
