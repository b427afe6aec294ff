// SPDX-License-Identifier: Apache-2.0

#include "formats/npy/npz.hpp"

#include "formats/internal/load.hpp"

#include "core/printable.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace weft::formats {
namespace {

// APPNOTE.TXT 6.3.10 of the zip format: the end of the directory (4.3.16), an entry (4.3.12), a local header (4.3.7).
constexpr std::uint32_t kEndSignature = 0x06054b50, kEntrySignature = 0x02014b50, kLocalSignature = 0x04034b50;
constexpr std::size_t kEndSize = 22, kEntrySize = 46, kLocalSize = 30, kMostComment = 65535;
constexpr std::uint32_t kInZip64 = 0xFFFFFFFF;
constexpr std::uint16_t kStored = 0, kDeflated = 8, kEncrypted = 1;
constexpr std::string_view kNpyEnding = ".npy";

/// Place of the directory's end: the last one whose comment reaches to the end of the file.
std::optional<std::size_t> find_end(ByteSpan bytes) {
  if (bytes.size() < kEndSize) return std::nullopt;
  const std::size_t last = bytes.size() - kEndSize, first = last > kMostComment ? last - kMostComment : 0;
  for (std::size_t at = last + 1; at-- > first;)
    if (load<std::uint32_t>(bytes, at) == kEndSignature && load<std::uint16_t>(bytes, at + 20) == last - at) return at;
  return std::nullopt;
}

/// Unpacks raw deflate data that must give exactly `size` bytes.
bool inflate_raw(ByteSpan packed, ByteBuffer& to) {
  z_stream stream{};
  if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
  Bytef none = 0;
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = to.size() ? reinterpret_cast<Bytef*>(to.data()) : &none;
  stream.avail_out = static_cast<uInt>(to.size());
  const int status = ::inflate(&stream, Z_FINISH);
  const bool is_whole = status == Z_STREAM_END && stream.avail_out == 0 && stream.avail_in == 0;
  ::inflateEnd(&stream);
  return is_whole;
}

}  // namespace

Result<NpzFile> NpzFile::open(ByteSpan bytes, std::string_view source_name) {
  NpzFile file;
  file.source_ = source_name;
  file.bytes_ = bytes;
  const auto end = find_end(bytes);
  if (!end)
    return fail(Errc::corrupt, file.source_ + ": no zip archive, or cut short: " + std::to_string(bytes.size()) +
                                   " bytes without the directory that ends one");
  const auto count = load<std::uint16_t>(bytes, *end + 10);
  const auto size = load<std::uint32_t>(bytes, *end + 12), at = load<std::uint32_t>(bytes, *end + 16);
  if (at == kInZip64 || size == kInZip64 || count == 0xFFFF)
    return fail(Errc::unsupported, file.source_ + ": an archive of 4 GiB or 65,535 members, or more, is not read");
  if (at > *end || size > *end - at)
    return fail(Errc::corrupt, file.source_ + ": its directory of " + std::to_string(size) + " bytes at " +
                                   std::to_string(at) + " lies outside the file");
  WEFT_CHECK(file.read_directory(at, size, count));
  return file;
}

Status NpzFile::read_directory(std::size_t at, std::size_t size, std::size_t count) {
  const std::size_t end = at + size;
  for (std::size_t i = 0; i < count; ++i) {
    const Failure broken =
        fail(Errc::corrupt, source_ + ": entry " + std::to_string(i) + " of its directory is damaged");
    if (end - at < kEntrySize || load<std::uint32_t>(bytes_, at) != kEntrySignature) return broken;
    const std::size_t name = load<std::uint16_t>(bytes_, at + 28);
    const std::size_t rest = name + load<std::uint16_t>(bytes_, at + 30) + load<std::uint16_t>(bytes_, at + 32);
    if (end - at - kEntrySize < rest) return broken;
    Entry entry;
    entry.name = as_text(bytes_.subspan(at + kEntrySize, name));
    entry.flags = load<std::uint16_t>(bytes_, at + 8);
    entry.method = load<std::uint16_t>(bytes_, at + 10);
    entry.crc = load<std::uint32_t>(bytes_, at + 16);
    entry.packed = load<std::uint32_t>(bytes_, at + 20);
    entry.unpacked = load<std::uint32_t>(bytes_, at + 24);
    entry.header = load<std::uint32_t>(bytes_, at + 42);
    at += kEntrySize + rest;
    if (!entry.name.ends_with(kNpyEnding)) continue;
    entry.name.resize(entry.name.size() - kNpyEnding.size());
    if (find(entry.name)) return fail(Errc::corrupt, source_ + ": '" + printable(entry.name) + "' is there twice");
    entries_.push_back(std::move(entry));
  }
  return {};
}

std::vector<std::string> NpzFile::names() const {
  std::vector<std::string> out;
  for (const Entry& entry : entries_) out.push_back(entry.name);
  return out;
}

const NpzFile::Entry* NpzFile::find(std::string_view name) const noexcept {
  for (const Entry& entry : entries_)
    if (entry.name == name) return &entry;
  return nullptr;
}

/// Sizes in the local header are not read: writers of streams leave them out, and numpy puts them elsewhere.
Result<ByteSpan> NpzFile::packed_bytes(const Entry& entry) const {
  const std::string object = source_ + ": '" + printable(entry.name) + "'";
  const std::size_t at = entry.header;
  if (at > bytes_.size() || bytes_.size() - at < kLocalSize || load<std::uint32_t>(bytes_, at) != kLocalSignature)
    return fail(Errc::corrupt, object + ": no member begins at byte " + std::to_string(at));
  const std::size_t skipped = kLocalSize + load<std::uint16_t>(bytes_, at + 26) + load<std::uint16_t>(bytes_, at + 28);
  if (bytes_.size() - at < skipped || bytes_.size() - at - skipped < entry.packed)
    return fail(Errc::corrupt, object + ": cut short, its " + std::to_string(entry.packed) +
                                   " packed bytes reach past the end of the file");
  return bytes_.subspan(at + skipped, entry.packed);
}

Result<ByteBuffer> NpzFile::member(std::string_view name, std::size_t max_bytes) const {
  const std::string object = source_ + ": '" + printable(name) + "'";
  const Entry* const entry = find(name);
  if (!entry) {
    std::string there;
    for (const Entry& each : entries_) there += (there.empty() ? "" : ", ") + printable(each.name);
    return fail(Errc::not_found, object + " is not in it; there are: " + (there.empty() ? "none" : there));
  }
  if (entry->flags & kEncrypted) return fail(Errc::unsupported, object + " is encrypted");
  if (entry->method != kStored && entry->method != kDeflated)
    return fail(Errc::unsupported, object + " is packed by method " + std::to_string(entry->method) +
                                       "; known are 0 (stored) and 8 (deflate)");
  if (entry->unpacked == kInZip64 || entry->packed == kInZip64 || entry->unpacked > max_bytes)
    return fail(Errc::too_large, object + " unpacks to more than " + std::to_string(max_bytes) + " bytes");
  WEFT_TRY(const ByteSpan packed, packed_bytes(*entry));
  // Deflate packs 1032 bytes into one at most: a size that says more is no size to allocate.
  constexpr std::uint64_t kMostRatio = 1032;
  if (entry->unpacked > kMostRatio * (std::uint64_t{entry->packed} + 1))
    return fail(Errc::corrupt, object + ": " + std::to_string(entry->packed) + " bytes cannot unpack to " +
                                   std::to_string(entry->unpacked));
  ByteBuffer bytes(entry->unpacked);
  if (entry->method == kDeflated) {
    if (!inflate_raw(packed, bytes)) return fail(Errc::corrupt, object + ": its deflate data is damaged");
  } else {
    if (packed.size() != bytes.size()) return fail(Errc::corrupt, object + ": is stored, with two different sizes");
    std::copy(packed.begin(), packed.end(), bytes.begin());
  }
  const uLong crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (crc != entry->crc) return fail(Errc::corrupt, object + ": its checksum is wrong");
  return bytes;
}

}  // namespace weft::formats
