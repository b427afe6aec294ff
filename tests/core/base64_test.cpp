// SPDX-License-Identifier: Apache-2.0

#include "core/base64.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace weft::base64_test {
namespace {

TEST(Base64, HasTheValuesOfItsStandard) {
  // RFC 4648, section 10.
  const std::pair<const char*, const char*> pairs[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"},
                                                       {"\xff\xfe\xfd", "//79"}};
  for (const auto& [bytes, text] : pairs) {
    EXPECT_EQ(base64(bytes), text);
    const auto back = from_base64(text);
    ASSERT_TRUE(back) << back.error().text();
    EXPECT_EQ(*back, bytes);
  }
}

TEST(Base64, RefusesWhatStandsForNoBytes) {
  for (const char* const text : {"Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Zm9v\n", "Zm-v", "Zh==", "Zm9=", "Z=g="})
    EXPECT_FALSE(from_base64(text)) << text;
}

}  // namespace
}  // namespace weft::base64_test
