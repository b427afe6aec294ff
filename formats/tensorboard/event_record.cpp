// SPDX-License-Identifier: Apache-2.0
// Sources: TensorFlow's tensorflow/core/lib/io/record_writer.h and core/util/event.proto, core/framework/summary.proto;
// protobuf's description of its encoding.

#include "formats/tensorboard/event_record.hpp"

#include "storage/crc32c.hpp"

#include "core/bytes.hpp"

#include <bit>

namespace weft::formats {
namespace {

/// Types of a protobuf field's value.
enum class EventWire : std::uint64_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

template <class T>
void put_little_endian(std::string& to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) to += static_cast<char>(value >> (8 * i) & 0xff);
}
void put_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}
void put_key(std::string& to, std::uint64_t field, EventWire type) {
  put_varint(to, field << 3 | static_cast<std::uint64_t>(type));
}
void put_bytes(std::string& to, std::uint64_t field, std::string_view value) {
  put_key(to, field, EventWire::bytes);
  put_varint(to, value.size());
  to += value;
}

/// Checksums are stored turned and moved, so that one of bytes which hold one is none of theirs.
std::uint32_t masked_checksum(std::string_view of) {
  return std::rotr(storage::crc32c(as_bytes(of)), 15) + 0xa282ead8u;
}

std::string framed(std::string_view message) {
  std::string record;
  put_little_endian(record, std::uint64_t{message.size()});
  put_little_endian(record, masked_checksum(record));
  record += message;
  put_little_endian(record, masked_checksum(message));
  return record;
}

std::string event_at(double wall_time) {
  std::string event;
  put_key(event, 1, EventWire::fixed64);
  put_little_endian(event, std::bit_cast<std::uint64_t>(wall_time));
  return event;
}

}  // namespace

std::string event_version_record(double wall_time) {
  std::string event = event_at(wall_time);
  put_bytes(event, 3, "brain.Event:2");
  return framed(event);
}

std::string event_scalars_record(double wall_time, std::int64_t step, std::span<const TaggedScalar> scalars) {
  std::string summary;
  for (const TaggedScalar& scalar : scalars) {
    std::string value;
    put_bytes(value, 1, scalar.tag);
    put_key(value, 2, EventWire::fixed32);
    put_little_endian(value, std::bit_cast<std::uint32_t>(scalar.value));
    put_bytes(summary, 1, value);
  }
  std::string event = event_at(wall_time);
  put_key(event, 2, EventWire::varint);
  put_varint(event, static_cast<std::uint64_t>(step));
  put_bytes(event, 5, summary);
  return framed(event);
}

}  // namespace weft::formats
