// SPDX-License-Identifier: Apache-2.0

#include "core/near_word.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace weft::near_word_test {
namespace {

TEST(NearestWord, FindsWhatWasMeant) {
  const std::vector<std::string_view> known{"dense",    "relu",       "leaky_relu", "passes",
                                            "held-out", "checkpoint", "lr",         "gru"};
  EXPECT_EQ(nearest_word("ReLU", known), "relu");
  EXPECT_EQ(nearest_word("dnese", known), "dense");
  EXPECT_EQ(nearest_word("densee", known), "dense");
  EXPECT_EQ(nearest_word("held_out", known), "held-out");
  EXPECT_EQ(nearest_word("check", known), "checkpoint");
  EXPECT_EQ(nearest_word("leakyrelu", known), "leaky_relu");
  EXPECT_EQ(did_you_mean("pases", known), "; did you mean 'passes'?");
}

TEST(NearestWord, IsNoneWhereNothingIsNear) {
  const std::vector<std::string_view> known{"dense", "lr", "gru"};
  for (const std::string given : {"", "softmax", "x", "zz", "linear"})
    EXPECT_FALSE(nearest_word(given, known)) << given;
  EXPECT_FALSE(nearest_word(std::string(100000, 'd'), known));
  EXPECT_EQ(did_you_mean("softmax", known), "");
}

}  // namespace
}  // namespace weft::near_word_test
