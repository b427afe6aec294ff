// SPDX-License-Identifier: Apache-2.0

#include "formats/entity/entity.hpp"

#include "core/assert.hpp"
#include "core/json.hpp"

#include <algorithm>
#include <cstring>

namespace {

using namespace weft;
using namespace weft::formats;

// Enough to unpack what a few bytes can hold, and not the memory of a fuzzer.
constexpr EntityLimits kLimits{.free_unpacked = std::size_t{1} << 20};

void check(ByteSpan bytes) {
  const auto file = decode_entity(bytes, "fuzz", kLimits);
  if (!file) return;
  for (const Tensor& blob : file->tensors()) {
    const std::byte* begin = blob.bytes.data();
    WEFT_ASSERT(reinterpret_cast<std::uintptr_t>(begin) % 64 == 0, "a blob that is not aligned");
    volatile std::byte sink{};
    for (const std::byte b : blob.bytes) sink = b;  // a sanitizer sees bytes outside the file
    (void)sink;
    WEFT_ASSERT(file->find(blob.name).has_value(), "a blob that cannot be found");
  }
  const EntityOptions options{file->packing(), &file->extra()};
  const auto saved = encode_entity(file->network(), file->meta(), file->tensors(), options);
  WEFT_ASSERT(saved.has_value(), "what was read cannot be written: " + saved.error().text());
  const auto again = decode_entity(ByteSpan(*saved), "again");
  WEFT_ASSERT(again.has_value() && again->tensors().size() == file->tensors().size(), "a file changed by saving");
  for (std::size_t i = 0; i < file->tensors().size(); ++i) {
    const ByteSpan a = file->tensors()[i].bytes, b = again->tensors()[i].bytes;
    WEFT_ASSERT(std::equal(a.begin(), a.end(), b.begin(), b.end()), "a blob changed by saving");
  }
  const EntityOptions same{options.packing, &again->extra()};
  const auto twice = encode_entity(again->network(), again->meta(), again->tensors(), same);
  WEFT_ASSERT(std::equal(saved->begin(), saved->end(), twice->begin(), twice->end()), "two savings differ");
}

/// "JSON header \0 blobs", given a fixed part and a checksum that fit, so that mutations pass beyond the checksum.
void check_sealed(ByteSpan body, std::uint8_t flags) {
  const auto nul = std::find(body.begin(), body.end(), std::byte{0});
  const std::size_t header = static_cast<std::size_t>(nul - body.begin());
  const std::size_t rest = nul == body.end() ? 0 : body.size() - header - 1;
  const std::size_t data_at = (64 + header + 63) / 64 * 64;
  ByteBuffer bytes(data_at + (rest + 63) / 64 * 64);
  std::memcpy(bytes.data(), "ENTITY\0\0\2", 9);
  bytes[10] = static_cast<std::byte>(flags);
  const std::uint64_t length = header;
  std::memcpy(bytes.data() + 16, &length, 8);
  weft::StateHasher hasher;
  hasher.add_bytes(bytes.data(), 24);
  hasher.add_bytes(body.data(), header);
  const weft::Hash128 hash = hasher.digest();
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[24 + i] = static_cast<std::byte>(hash.high >> (56 - 8 * i));
    bytes[32 + i] = static_cast<std::byte>(hash.low >> (56 - 8 * i));
  }
  if (header) std::memcpy(bytes.data() + 64, body.data(), header);
  if (rest) std::memcpy(bytes.data() + data_at, body.data() + header + 1, rest);
  check(bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteSpan bytes{reinterpret_cast<const std::byte*>(data), size};
  check(bytes);
  check_sealed(bytes, 0);
  check_sealed(bytes, 1);  // packed
  return 0;
}
