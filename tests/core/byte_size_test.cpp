// SPDX-License-Identifier: Apache-2.0

#include "core/byte_size.hpp"

#include <gtest/gtest.h>

namespace weft::byte_size_test {
namespace {

TEST(ByteSize, IsWrittenWithOneDigit) {
  EXPECT_EQ(byte_size(0), "0 B");
  EXPECT_EQ(byte_size(1023), "1023 B");
  EXPECT_EQ(byte_size(1536), "1.5 KiB");
  EXPECT_EQ(byte_size(12ull << 20), "12.0 MiB");
  EXPECT_EQ(byte_size(16ull << 30), "16.0 GiB");
  EXPECT_EQ(byte_size(5000ull << 40), "5000.0 TiB");
}

TEST(ByteSize, IsReadInPowersOf1024) {
  EXPECT_EQ(parse_byte_size("1").value(), 1u);
  EXPECT_EQ(parse_byte_size("4096B").value(), 4096u);
  EXPECT_EQ(parse_byte_size("512M").value(), 512ull << 20);
  EXPECT_EQ(parse_byte_size("1.5GiB").value(), 3ull << 29);
  EXPECT_EQ(parse_byte_size("2T").value(), 2ull << 40);
}

TEST(ByteSize, RefusesWhatIsNone) {
  for (const char* text : {"",         "0",    "-1",  "M",   "1 G", "1g",   "1MB",   "1Bi",
                           "BiB",      "1BiB", "nan", "inf", "1e9", "0x10", "1GiBx", "99999999999999999999",
                           "9999999T", "+1",   "0.5", " 1"}) {
    const auto read = parse_byte_size(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code(), Errc::invalid_argument);
    EXPECT_NE(read.error().text().find("'" + std::string(text) + "'"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::byte_size_test
