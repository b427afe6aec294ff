// SPDX-License-Identifier: Apache-2.0

#include "agent/durability.hpp"

#include <gtest/gtest.h>

namespace weft::agent::durability_test {
namespace {

using namespace std::chrono_literals;

TEST(Durability, ReadsWhatItWrites) {
  for (const auto& [text, mode, interval] : {std::tuple{"tick", Durability::Mode::tick, 2000ms},
                                             {"checkpoint", Durability::Mode::checkpoint, 2000ms},
                                             {"interval=2s", Durability::Mode::interval, 2000ms},
                                             {"interval=250ms", Durability::Mode::interval, 250ms},
                                             {"interval=60min", Durability::Mode::interval, 3600000ms}}) {
    const auto read = parse_durability(text);
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(read->mode, mode);
    EXPECT_EQ(read->interval, interval);
    EXPECT_EQ(to_string(*read), text);
  }
  EXPECT_EQ(parse_durability("interval")->interval, 2s);
}

TEST(Durability, RefusesWhatIsNone) {
  for (const char* text : {"", "ticks", "interval=", "interval=2", "interval=-1s", "interval=0ms", "interval=61min",
                           "interval=99999999999s", "interval=2s ", "interval=2h"}) {
    const auto read = parse_durability(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code(), Errc::invalid_argument);
    EXPECT_NE(read.error().text().find("interval=LENGTH"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::agent::durability_test
