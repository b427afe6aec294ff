// SPDX-License-Identifier: Apache-2.0

#include "storage/internal/journal_frame.hpp"

#include "storage/crc32c.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>

namespace weft::storage {
namespace {

constexpr std::string_view kJournalPrefix = "journal-";
constexpr std::size_t kDigits = 20;

template <class Number>
std::optional<Number> parse_number(std::string_view digits) noexcept {
  Number number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

}  // namespace

ByteSpan as_bytes(const SegmentHead& head) noexcept { return {reinterpret_cast<const std::byte*>(&head), sizeof head}; }

std::uint32_t checksum(const SegmentHead& head) noexcept {
  return crc32c(as_bytes(head).first(offsetof(SegmentHead, crc)));
}

std::uint32_t frame_checksum(const std::byte* frame, std::size_t size) noexcept {
  const ByteSpan bytes(frame, size);
  return crc32c(bytes.subspan(sizeof(FrameHead)), crc32c(bytes.first(offsetof(FrameHead, crc))));
}

FrameFound find_frame(ByteSpan bytes, std::uint64_t max_record_bytes) {
  FrameFound found;
  FrameHead head;
  if (bytes.size() < sizeof head) {
    found.reason = std::to_string(bytes.size()) + " bytes are left, a record takes at least 48";
    return found;
  }
  std::memcpy(&head, bytes.data(), sizeof head);
  const std::uint64_t size = frame_bytes(head.length);
  if (size > bytes.size()) {
    found.reason = "a record of " + std::to_string(size) + " bytes, " + std::to_string(bytes.size()) + " are left";
    return found;
  }
  if (const std::uint32_t crc = frame_checksum(bytes.data(), size); crc != head.crc) {
    found.reason = "checksum " + std::to_string(crc) + ", stored " + std::to_string(head.crc);
    return found;
  }
  found.is_sealed = true;
  const ByteSpan padding = bytes.subspan(sizeof head + head.length, size - sizeof head - head.length);
  if (head.reserved != 0 || std::ranges::any_of(padding, [](std::byte b) { return b != std::byte{0}; })) {
    found.reason = "bytes that must be zero are not";
    return found;
  }
  if (head.length > max_record_bytes) {
    found.reason = "a record of " + std::to_string(head.length) + " bytes, at most " +
                   std::to_string(max_record_bytes) + " are read";
    return found;
  }
  found.head = head;
  return found;
}

std::string to_string(const SegmentName& name) {
  const std::string digits = std::to_string(name.first);
  std::string text = std::string(kJournalPrefix) + std::string(kDigits - digits.size(), '0') + digits;
  if (name.generation != 0) text += "." + std::to_string(name.generation);
  return text;
}

std::optional<SegmentName> parse_segment_name(std::string_view name) noexcept {
  if (name.size() < kJournalPrefix.size() + kDigits || name.substr(0, kJournalPrefix.size()) != kJournalPrefix)
    return std::nullopt;
  const auto first = parse_number<std::uint64_t>(name.substr(kJournalPrefix.size(), kDigits));
  if (!first || *first == 0) return std::nullopt;
  const std::string_view rest = name.substr(kJournalPrefix.size() + kDigits);
  if (rest.empty()) return SegmentName{0, *first};
  const auto generation = parse_number<std::uint32_t>(rest.substr(1));
  // Spelled as we spell it, so that two names are never one segment.
  if (rest[0] != '.' || rest[1 % rest.size()] == '0' || !generation) return std::nullopt;
  return SegmentName{*generation, *first};
}

Result<std::vector<SegmentName>> list_segments(FileSystem& files, const std::string& directory) {
  WEFT_TRY(const std::vector<std::string> names, files.list(directory));
  std::vector<SegmentName> segments;
  for (const std::string& name : names)
    if (const auto segment = parse_segment_name(name)) segments.push_back(*segment);
  std::sort(segments.begin(), segments.end());
  return segments;
}

}  // namespace weft::storage
