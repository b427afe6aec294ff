// SPDX-License-Identifier: Apache-2.0
// Frames of zstd without the library: blocks as they are, which every reader of the format takes (RFC 8878,
// section 3.1). Frames with packed blocks are refused: `weft pack --plain` writes files without any.

#include "formats/entity/internal/zstd.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

namespace weft::formats {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 17;
// A frame whose content's size stands in eight bytes, with a window of 128 KiB, without checksum or dictionary.
constexpr std::array<std::uint8_t, 6> kHead{0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0x38};

Status write_block(ByteSpan part, bool is_last, const ByteSource::Sink& sink) {
  const std::uint32_t head = static_cast<std::uint32_t>(part.size() << 3) | (is_last ? 1u : 0u);
  const std::array<std::byte, 3> bytes{std::byte(head & 255), std::byte(head >> 8 & 255), std::byte(head >> 16 & 255)};
  WEFT_CHECK(sink(bytes));
  return part.empty() ? Status() : sink(part);
}

Failure no_frame(const char* why) { return fail(Errc::corrupt, std::string("no whole zstd frame: ") + why); }

std::uint64_t number(ByteSpan bytes) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

}  // namespace

Status pack_zstd(const ByteSource& content, const ByteSource::Sink& sink) {
  std::array<std::byte, kHead.size() + 8> head{};
  std::memcpy(head.data(), kHead.data(), kHead.size());
  const std::uint64_t size = content.size();
  for (std::size_t i = 0; i < 8; ++i) head[kHead.size() + i] = std::byte(size >> (8 * i) & 255);
  WEFT_CHECK(sink(head));
  WEFT_CHECK(content.produce([&](ByteSpan part) -> Status {
    for (std::size_t at = 0; at < part.size(); at += kBlock)
      WEFT_CHECK(write_block(part.subspan(at, std::min(kBlock, part.size() - at)), false, sink));
    return {};
  }));
  return write_block({}, true, sink);
}

Status unpack_zstd(ByteSpan frame, std::size_t size, const ByteSource::Sink& sink,
                   const std::function<void(ByteSpan)>& read) {
  if (frame.size() < 6 || number(frame.first(4)) != 0xfd2fb528u) return no_frame("its first bytes");
  const auto descriptor = std::to_integer<unsigned>(frame[4]);
  const bool is_single = descriptor & 0x20, has_checksum = descriptor & 4;
  const std::size_t code = descriptor >> 6;
  const std::size_t size_bytes = code == 0 ? (is_single ? 1 : 0) : std::size_t{1} << code;
  if ((descriptor & 3) != 0 || size_bytes == 0) return no_frame("a dictionary, or no size");
  std::size_t at = 5 + (is_single ? 0 : 1);
  if (frame.size() < at + size_bytes) return no_frame("cut short");
  const std::uint64_t stated = number(frame.subspan(at, size_bytes)) + (size_bytes == 2 ? 256 : 0);
  if (stated != size)
    return fail(Errc::corrupt,
                "a zstd frame of " + std::to_string(stated) + " bytes, the header says " + std::to_string(size));
  at += size_bytes;
  std::uint64_t got = 0;
  for (bool is_last = false; !is_last;) {
    if (frame.size() - at < 3) return no_frame("cut short");
    const std::uint64_t head = number(frame.subspan(at, 3));
    at += 3;
    is_last = head & 1;
    const std::size_t length = static_cast<std::size_t>(head >> 3);
    if ((head >> 1 & 3) != 0)
      return fail(Errc::unsupported, "a packed zstd frame: this build reads plain ones alone (weft pack --plain)");
    if (frame.size() - at < length || length > size - got) return no_frame("a block beyond its end");
    if (length > 0) WEFT_CHECK(sink(frame.subspan(at, length)));
    at += length;
    got += length;
  }
  if (got != size || frame.size() != at + (has_checksum ? 4 : 0)) return no_frame("its length");
  if (read) read(frame);
  return {};
}

}  // namespace weft::formats
