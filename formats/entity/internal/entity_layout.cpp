// SPDX-License-Identifier: Apache-2.0

#include "formats/entity/internal/entity_layout.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <unordered_set>

namespace weft::formats {
namespace {

using namespace entity;

bool is_plain(std::string_view text, std::size_t max_size) {
  return !text.empty() && text.size() <= max_size &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '\\'; });
}

}  // namespace

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

Status check_blob(const Tensor& blob) {
  if (!is_plain(blob.name, entity::kMaxNameSize))
    return fail(Errc::parse_failed, in_quotes(blob.name) + " cannot name a blob");
  if (is_private(blob.type)) {
    if (is_plain(blob.type, kMaxTypeSize) && blob.shape.size() <= entity::kMaxRank) return {};
    return fail(Errc::parse_failed, "blob '" + blob.name + "': " + in_quotes(blob.type) + " cannot name a type of " +
                                        std::to_string(blob.shape.size()) + " dimensions");
  }
  auto size = tensor_size(blob.type, blob.shape);
  if (!size) return fail(std::move(size).error().within("blob '" + blob.name + "'"));
  return {};
}

Status check_size(const Tensor& blob, std::uint64_t found, const std::byte* last) {
  if (is_private(blob.type)) return {};
  WEFT_TRY(const std::uint64_t bits, tensor_bits(blob.type, blob.shape));
  if (const std::uint64_t size = (bits + 7) / 8; size != found)
    return fail(Errc::shape_mismatch, "blob '" + blob.name + "': " + blob.type + " " + to_string(blob.shape) +
                                          " takes " + std::to_string(size) + " bytes, there are " +
                                          std::to_string(found));
  // Codes of less than a byte: the bits past the last element have one spelling too.
  if (const unsigned used = bits % 8; used != 0 && std::to_integer<unsigned>(*last) >> used != 0)
    return fail(Errc::corrupt, "blob '" + blob.name + "': bits after the last element are not zero");
  return {};
}

Status check_unique(const std::vector<Tensor>& blobs) {
  std::unordered_set<std::string_view> names;
  for (const Tensor& blob : blobs)
    if (!names.insert(blob.name).second) return fail(Errc::duplicate_name, "blob '" + blob.name + "' is there twice");
  return {};
}

}  // namespace entity
}  // namespace weft::formats
