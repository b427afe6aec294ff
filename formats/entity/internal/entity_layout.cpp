// SPDX-License-Identifier: Apache-2.0

#include "formats/entity/internal/entity_layout.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <iterator>
#include <unordered_set>

namespace weft::formats {
namespace {

using namespace entity;

Result<std::size_t> bits_of(std::string_view type) {
  if (type == "bytes") return std::size_t{8};
  if (type == "u32") return std::size_t{32};
  if (type == "u64") return std::size_t{64};
  if (const auto dtype = parse_dtype(type)) return static_cast<std::size_t>(bits(*dtype));
  return fail(Errc::unknown_name, "type " + in_quotes(type) + " is no dtype, \"u32\", \"u64\" or \"bytes\"");
}

Result<std::size_t> elements_of(const Shape& shape) {
  if (shape.size() > kMaxRank)
    return fail(Errc::too_large, std::to_string(shape.size()) + " dimensions, at most " + std::to_string(kMaxRank));
  // Extents of 0 are left out for the check, so that no order of extents overflows.
  Shape positive;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(positive), [](std::size_t n) { return n != 0; });
  WEFT_TRY(const std::size_t elements, volume(positive));
  return positive.size() == shape.size() ? elements : 0;
}

bool is_plain(std::string_view text, std::size_t max_size) {
  return !text.empty() && text.size() <= max_size &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '\\'; });
}

}  // namespace

Result<std::size_t> blob_size(std::string_view type, const Shape& shape) {
  WEFT_TRY(const std::size_t element_bits, bits_of(type));
  WEFT_TRY(const std::size_t elements, elements_of(shape));
  return (elements * element_bits + 7) / 8;  // at most 2^40 * 64
}

namespace entity {

std::array<std::byte, 16> canonical(Hash128 hash) {
  std::array<std::byte, 16> bytes;
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::byte>(hash.high >> (56 - 8 * i));
    bytes[8 + i] = static_cast<std::byte>(hash.low >> (56 - 8 * i));
  }
  return bytes;
}

Hash128 header_checksum(ByteSpan fixed, std::string_view header) {
  StateHasher hasher;
  hasher.add_bytes(fixed.data(), kChecksumAt);
  hasher.add_bytes(header.data(), header.size());
  return hasher.digest();
}

Status check_blob(const Blob& blob) {
  if (!is_plain(blob.name, kMaxNameSize)) return fail(Errc::parse_failed, in_quotes(blob.name) + " cannot name a blob");
  if (is_private(blob.type)) {
    if (is_plain(blob.type, kMaxTypeSize) && blob.shape.size() <= kMaxRank) return {};
    return fail(Errc::parse_failed, "blob '" + blob.name + "': " + in_quotes(blob.type) + " cannot name a type of " +
                                        std::to_string(blob.shape.size()) + " dimensions");
  }
  auto size = blob_size(blob.type, blob.shape);
  if (!size) return fail(std::move(size).error().within("blob '" + blob.name + "'"));
  if (*size != blob.bytes.size())
    return fail(Errc::shape_mismatch, "blob '" + blob.name + "': " + blob.type + " " + to_string(blob.shape) +
                                          " takes " + std::to_string(*size) + " bytes, there are " +
                                          std::to_string(blob.bytes.size()));
  // Codes of less than a byte: the bits past the last element have one spelling too.
  const std::size_t used = *elements_of(blob.shape) * *bits_of(blob.type) % 8;
  if (used != 0 && std::to_integer<unsigned>(blob.bytes.back()) >> used != 0)
    return fail(Errc::corrupt, "blob '" + blob.name + "': bits after the last element are not zero");
  return {};
}

Status check_unique(const std::vector<Blob>& blobs) {
  std::unordered_set<std::string_view> names;
  for (const Blob& blob : blobs)
    if (!names.insert(blob.name).second) return fail(Errc::duplicate_name, "blob '" + blob.name + "' is there twice");
  return {};
}

}  // namespace entity
}  // namespace weft::formats
