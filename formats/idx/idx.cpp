// SPDX-License-Identifier: Apache-2.0

#include "formats/idx/idx.hpp"

#include "formats/csv/gzip.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <string>

namespace weft::formats {
namespace {

constexpr std::size_t kMostAxes = 8, kBegin = 4;

/// Bytes of a value; 0: no type.
std::size_t bytes_of(unsigned type) noexcept {
  constexpr std::array<std::uint8_t, 7> kBytes{1, 1, 0, 2, 4, 4, 8};  // from 0x08: u8, i8, none, i16, i32, f32, f64
  return type >= 0x08 && type <= 0x0E ? kBytes[type - 0x08] : 0;
}

std::uint64_t big_endian(ByteSpan bytes, std::size_t at, std::size_t count) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value << 8 | std::to_integer<std::uint64_t>(bytes[at + i]);
  return value;
}

}  // namespace

bool is_idx(ByteSpan bytes) noexcept {
  if (bytes.size() < kBegin || bytes[0] != std::byte{0} || bytes[1] != std::byte{0}) return false;
  const auto axes = std::to_integer<std::size_t>(bytes[3]);
  return bytes_of(std::to_integer<unsigned>(bytes[2])) != 0 && axes >= 1 && axes <= kMostAxes;
}

bool may_be_idx(ByteSpan bytes, std::string_view path) noexcept {
  return is_idx(bytes) || (is_gzip(bytes) && path.find("idx") != path.npos);
}

Result<IdxArray> IdxArray::open(ByteSpan bytes, std::string_view source_name, std::size_t max_values) {
  const std::string source(source_name);
  if (!is_idx(bytes)) return fail(Errc::corrupt, source + ": does not begin as an IDX file: two zeros, type, axes");
  IdxArray array;
  array.type_ = std::to_integer<unsigned>(bytes[2]);
  array.value_bytes_ = bytes_of(array.type_);
  const auto axes = std::to_integer<std::size_t>(bytes[3]);
  const std::size_t header = kBegin + 4 * axes;
  if (bytes.size() < header) return fail(Errc::corrupt, source + ": cut short inside its sizes");
  std::uint64_t values = 1;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::uint64_t size = big_endian(bytes, kBegin + 4 * i, 4);
    if (size == 0) return fail(Errc::corrupt, source + ": axis " + std::to_string(i + 1) + " has no values");
    // Both are below 2^32 times max_values: no overflow.
    values *= size;
    if (values > max_values)
      return fail(Errc::too_large, source + ": more than " + std::to_string(max_values) + " values");
    array.shape_.push_back(size);
  }
  const std::uint64_t wanted = header + values * array.value_bytes_;
  if (bytes.size() != wanted)
    return fail(Errc::corrupt, source + ": " + std::to_string(bytes.size()) + " bytes, its sizes say " +
                                   std::to_string(wanted) + (bytes.size() < wanted ? "; it is cut short" : ""));
  array.width_ = values / array.shape_[0];
  array.values_ = bytes.subspan(header);
  return array;
}

float IdxArray::value(std::size_t i) const noexcept {
  const std::uint64_t raw = big_endian(values_, i * value_bytes_, value_bytes_);
  switch (type_) {
    case 0x09:
      return static_cast<float>(static_cast<std::int8_t>(raw));
    case 0x0B:
      return static_cast<float>(static_cast<std::int16_t>(raw));
    case 0x0C:
      return static_cast<float>(static_cast<std::int32_t>(raw));
    case 0x0D:
      return std::bit_cast<float>(static_cast<std::uint32_t>(raw));
    case 0x0E:
      return static_cast<float>(std::bit_cast<double>(raw));
    default:
      return static_cast<float>(raw);
  }
}

}  // namespace weft::formats
