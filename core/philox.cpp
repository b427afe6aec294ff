// SPDX-License-Identifier: Apache-2.0

#include "core/philox.hpp"

namespace weft {
namespace {
constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> k) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{kMultiplier0} * c[0];
    const std::uint64_t p1 = std::uint64_t{kMultiplier1} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
    k[0] += kWeyl0;
    k[1] += kWeyl1;
  }
  return c;
}

RandomStream::RandomStream(std::uint64_t seed, std::uint64_t place, RandomPurpose purpose) noexcept
    : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
      // 2^28 purposes beside 2^36 places: more places than a grid may have.
      place_{static_cast<std::uint32_t>(place),
             static_cast<std::uint32_t>(place >> 32) | static_cast<std::uint32_t>(purpose) << 4} {}

std::uint32_t RandomStream::next_u32() noexcept {
  const std::uint64_t wanted = position_ / 4;
  if (wanted != block_index_) {
    block_ = philox4x32(
        {static_cast<std::uint32_t>(wanted), static_cast<std::uint32_t>(wanted >> 32), place_[0], place_[1]}, key_);
    block_index_ = wanted;
  }
  return block_[position_++ % 4];
}

float RandomStream::next_uniform() noexcept { return static_cast<float>(next_u32() >> 8) * 0x1p-24f; }

std::uint32_t RandomStream::next_below(std::uint32_t bound) noexcept {
  const std::uint32_t threshold = (0u - bound) % bound;
  for (;;) {
    const std::uint64_t product = std::uint64_t{next_u32()} * bound;
    if (static_cast<std::uint32_t>(product) >= threshold) return static_cast<std::uint32_t>(product >> 32);
  }
}

float RandomStream::next_normal() noexcept {
  // Integers first: the sum is exact, so the result is the same under every rounding mode.
  std::int64_t sum = 0;
  for (int i = 0; i < 12; ++i) sum += next_u32() >> 8;
  return static_cast<float>(static_cast<double>(sum - 6 * (std::int64_t{1} << 24)) * 0x1p-24);
}

}  // namespace weft
