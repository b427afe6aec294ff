// SPDX-License-Identifier: Apache-2.0
// The wanted bytes are written out by tests/cli/logdir_test.py's functions, which follow docs/formats/tensorboard.md.

#include "formats/tensorboard/event_record.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace weft::formats::event_record_test {
namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char each : bytes)
    for (const int shift : {4, 0}) text += "0123456789abcdef"[static_cast<unsigned char>(each) >> shift & 15];
  return text;
}

TEST(EventRecord, BeginsAFileByItsVersion) {
  EXPECT_EQ(hex(event_version_record(1700000000.5)),
            "1800000000000000a37f4b220900002040fc54d9411a0d627261696e2e4576656e743a322b353110");
}

TEST(EventRecord, HoldsTheScalarsOfAStep) {
  const std::array<TaggedScalar, 2> scalars{{{"mean_loss", 0.25f}, {"ticks", -3.0f}}};
  EXPECT_EQ(
      hex(event_scalars_record(1700000000.5, 300, scalars)),
      "2e00000000000000c5cb57fa0900002040fc54d94110ac022a200a100a096d65616e5f6c6f7373150000803e0a0c0a057469636b7315"
      "000040c0b119e18e");
}

}  // namespace
}  // namespace weft::formats::event_record_test
