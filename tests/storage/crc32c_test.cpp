// SPDX-License-Identifier: Apache-2.0

#include "storage/crc32c.hpp"

#include <gtest/gtest.h>

#include <array>

namespace weft::storage::crc32c_test {
namespace {

std::uint32_t crc_of(const auto& bytes) { return crc32c(std::as_bytes(std::span(bytes))); }

// RFC 3720, appendix B.4; the bytes there are the checksum's, lowest first.
TEST(Crc32c, GivesThePublishedValues) {
  std::array<std::uint8_t, 32> bytes{};
  EXPECT_EQ(crc_of(bytes), 0x8A9136AAu);
  bytes.fill(0xFF);
  EXPECT_EQ(crc_of(bytes), 0x62A8AB43u);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::uint8_t>(i);
  EXPECT_EQ(crc_of(bytes), 0x46DD794Eu);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::uint8_t>(31 - i);
  EXPECT_EQ(crc_of(bytes), 0x113FDB5Cu);
  const std::array<std::uint8_t, 48> read_command = {0x01, 0xC0, 0, 0, 0, 0, 0,    0, 0,    0, 0, 0,    0, 0, 0, 0,
                                                     0x14, 0,    0, 0, 0, 0, 0x04, 0, 0,    0, 0, 0x14, 0, 0, 0, 0x18,
                                                     0x28, 0,    0, 0, 0, 0, 0,    0, 0x02, 0, 0, 0,    0, 0, 0, 0};
  EXPECT_EQ(crc_of(read_command), 0xD9963A56u);
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xE3069283u) << "the check value of CRC catalogues";
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Crc32c, GoesOnFromAnyCutAndMatchesBitAfterBit) {
  std::array<std::uint8_t, 61> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 37 + 11);
  const ByteSpan all = std::as_bytes(std::span(bytes));
  for (std::size_t size = 0; size <= all.size(); ++size) {
    std::uint32_t slow = ~0u;
    for (std::size_t bit = 0; bit < 8 * size; ++bit)
      slow = slow >> 1 ^ ((slow ^ bytes[bit / 8] >> (bit % 8)) & 1 ? 0x82F63B78u : 0);
    for (std::size_t cut = 0; cut <= size; ++cut)
      ASSERT_EQ(crc32c(all.subspan(cut, size - cut), crc32c(all.first(cut))), ~slow) << size << " cut at " << cut;
  }
}

}  // namespace
}  // namespace weft::storage::crc32c_test
