// SPDX-License-Identifier: Apache-2.0

#include "storage/crc32c.hpp"

#include <array>
#include <cstring>

namespace weft::storage {
namespace {

// Tables of our own: of Debian 12's libraries only ISA-L has this checksum, for two processors (docs/decisions/0013).
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    tables[0][i] = crc;
  }
  for (std::size_t step = 1; step < 8; ++step)
    for (std::size_t i = 0; i < 256; ++i)
      tables[step][i] = tables[step - 1][i] >> 8 ^ tables[0][tables[step - 1][i] & 255];
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::uint32_t crc32c(ByteSpan bytes, std::uint32_t before) noexcept {
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint32_t crc = ~before;
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);  // little-endian, as core/state_hash.cpp asserts
    word ^= crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][word >> (8 * i) & 255];
  }
  for (; left > 0; --left, ++at) crc = crc >> 8 ^ kTables[0][(crc ^ static_cast<std::uint32_t>(*at)) & 255];
  return ~crc;
}

}  // namespace weft::storage
