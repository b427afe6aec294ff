// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/entity/entity.hpp"

#include "core/json.hpp"
#include "core/size_limit.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

/// Layout shared by the writer and the reader of `.entity` files (docs/formats/entity.md).
namespace weft::formats::entity {

inline constexpr std::array<char, 8> kMagic{'E', 'N', 'T', 'I', 'T', 'Y', '\0', '\0'};
inline constexpr std::uint16_t kVersion = 2;
/// A reader refuses flags of the low byte that it does not know, and passes over those of the high byte.
inline constexpr std::uint16_t kMustUnderstand = 0x00FF, kPackedFlag = 0x0001;
inline constexpr std::size_t kAlignment = 64;
inline constexpr std::size_t kFixedSize = 64;
inline constexpr std::size_t kVersionAt = 8, kFlagsAt = 10, kReservedAt = 14, kHeaderLengthAt = 16;
inline constexpr std::size_t kChecksumAt = 24, kTailAt = 40;
inline constexpr std::size_t kMaxBlobs = std::size_t{1} << 20;
inline constexpr std::size_t kMaxRank = 16;
inline constexpr std::size_t kMaxNameSize = 512;
inline constexpr std::size_t kMaxTypeSize = 32;
inline constexpr std::size_t kMaxFileSize = size_limit(46);
/// Packed blobs unpack to at most this many bytes for each byte stored, besides EntityLimits::free_unpacked.
inline constexpr std::size_t kUnpackedPerByte = 256;
// The network sits one level below the top; a blob takes up to 12 values and its shape.
inline constexpr JsonLimits kHeaderLimits{
    .max_bytes = std::size_t{64} << 20, .max_depth = 66, .max_values = std::size_t{1} << 23};

static_assert(AlignedBuffer<std::byte>::kAlignment == kAlignment, "blobs must stay aligned in memory");

constexpr std::size_t aligned(std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

/// Names that Weft never gives a meaning: header keys that a reader passes over, types whose bytes it does not look at.
constexpr bool is_private(std::string_view name) { return name.substr(0, 2) == "x-"; }

/// The digest's canonical form: its hex digits read left to right.
std::array<std::byte, 16> canonical(Hash128 hash);
/// Of the fixed part's first bytes and the JSON text.
Hash128 header_checksum(ByteSpan fixed, std::string_view header);
/// Rules that writer and reader share: of a blob's name, type and shape; of its bytes, by their number and the last of
/// them (not looked at where there are none); of all blobs' names.
Status check_blob(const Tensor& blob);
Status check_size(const Tensor& blob, std::uint64_t found, const std::byte* last);
Status check_unique(const std::vector<Tensor>& blobs);

/// Count of unpacked bytes, blob by blob in file order. Reader and writer both keep it, so that a small file cannot
/// fill the memory and no writer makes a file that is refused.
class UnpackedAllowance {
 public:
  explicit UnpackedAllowance(const EntityLimits& limits) : left_(limits.free_unpacked) {}
  bool take(std::size_t stored, std::size_t size) {
    const std::size_t more = stored < kMaxFileSize ? stored * kUnpackedPerByte : 0;
    if (size > left_ + more) return false;
    left_ = left_ + more - size;
    return true;
  }

 private:
  std::size_t left_;
};

}  // namespace weft::formats::entity
