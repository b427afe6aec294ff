// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/journal.hpp"

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The bytes of a segment (docs/formats/journal.md), little-endian as core/state_hash.cpp asserts.
namespace weft::storage {

using weft::as_bytes;

constexpr std::array<char, 8> kSegmentMagic = {'W', 'E', 'F', 'T', 'J', 'R', 'N', 'L'};
constexpr std::uint32_t kSegmentVersion = 1;
constexpr std::uint64_t kMaxSegmentBytes = std::uint64_t{1} << 30;

struct SegmentHead {
  std::array<char, 8> magic = kSegmentMagic;
  std::uint32_t version = kSegmentVersion;
  std::uint32_t flags = 0;
  std::uint64_t first = 0;
  Hash128 chain{};  ///< before the first record
  std::array<std::byte, 20> reserved{};
  std::uint32_t crc = 0;  ///< of all before it
};
static_assert(sizeof(SegmentHead) == 64);

struct FrameHead {
  std::uint32_t length = 0;  ///< of the payload, without padding
  std::uint32_t kind = 0;
  std::uint64_t number = 0;
  std::uint64_t synced = 0;  ///< the last record known to be on the device when this one was written
  Hash128 chain{};           ///< after this record
  std::uint32_t reserved = 0;
  std::uint32_t crc = 0;  ///< of all before it, payload and padding
};
static_assert(sizeof(FrameHead) == 48);

constexpr std::uint64_t frame_bytes(std::uint64_t payload) { return sizeof(FrameHead) + (payload + 7) / 8 * 8; }

ByteSpan as_bytes(const SegmentHead& head) noexcept;
std::uint32_t checksum(const SegmentHead& head) noexcept;
/// Of a frame at `frame`, `size` bytes with its padding.
std::uint32_t frame_checksum(const std::byte* frame, std::size_t size) noexcept;

/// The head of a whole frame at the start of `bytes`, or why there is none.
struct FrameFound {
  std::optional<FrameHead> head;
  std::string reason;
  bool is_sealed = false;  ///< the checksum fits: no crash left it so
};
FrameFound find_frame(ByteSpan bytes, std::uint64_t max_record_bytes);

/// `journal-<first>`, or `journal-<first>.<generation>` from the first one on that overlaps an older one. They are made
/// in ascending order.
struct SegmentName {
  std::uint32_t generation = 0;
  std::uint64_t first = 0;
  auto operator<=>(const SegmentName&) const = default;
};
std::string to_string(const SegmentName& name);
std::optional<SegmentName> parse_segment_name(std::string_view name) noexcept;
/// Those in a directory, oldest first.
Result<std::vector<SegmentName>> list_segments(FileSystem& files, const std::string& directory);

}  // namespace weft::storage
