// SPDX-License-Identifier: Apache-2.0

#include "core/state_hash.hpp"

#include <xxhash.h>

#include <bit>
#include <new>

namespace weft {

static_assert(std::endian::native == std::endian::little,
              "state hashes and files are little-endian; a big-endian port must swap here");

std::string to_string(Hash128 hash) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 16; ++i) {
    text[15 - i] = kDigits[hash.high >> (4 * i) & 15];
    text[31 - i] = kDigits[hash.low >> (4 * i) & 15];
  }
  return text;
}

std::optional<Hash128> parse_hash128(std::string_view hex) noexcept {
  if (hex.size() != 32) return std::nullopt;
  Hash128 hash;
  for (std::size_t i = 0; i < 32; ++i) {
    const char c = hex[i];
    std::uint64_t digit;
    if (c >= '0' && c <= '9')
      digit = static_cast<std::uint64_t>(c - '0');
    else if (c >= 'a' && c <= 'f')
      digit = static_cast<std::uint64_t>(c - 'a' + 10);
    else
      return std::nullopt;
    auto& word = i < 16 ? hash.high : hash.low;
    word = word << 4 | digit;
  }
  return hash;
}

Hash128 hash_bytes(const void* data, std::size_t size) noexcept {
  const XXH128_hash_t h = XXH3_128bits(data, size);
  return {h.high64, h.low64};
}

StateHasher::StateHasher() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  reset();
}
StateHasher::~StateHasher() { XXH3_freeState(static_cast<XXH3_state_t*>(state_)); }
void StateHasher::reset() noexcept { XXH3_128bits_reset(static_cast<XXH3_state_t*>(state_)); }
void StateHasher::add_bytes(const void* data, std::size_t size) noexcept {
  if (size) XXH3_128bits_update(static_cast<XXH3_state_t*>(state_), data, size);
}
void StateHasher::add(Hash128 value) noexcept {
  add(value.high);
  add(value.low);
}
Hash128 StateHasher::digest() const noexcept {
  const XXH128_hash_t h = XXH3_128bits_digest(static_cast<const XXH3_state_t*>(state_));
  return {h.high64, h.low64};
}

}  // namespace weft
