// SPDX-License-Identifier: Apache-2.0

#include "formats/idx/idx.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft::formats::idx_test {
namespace {

using namespace std::string_literals;

Result<IdxArray> open(const std::string& text) { return IdxArray::open(as_bytes(text), "t"); }

TEST(Idx, ReadsEveryTypeBigEndian) {
  struct Case {
    std::string text;
    std::vector<float> values;
  };
  for (const Case& c :
       {Case{"\0\0\x08\1\0\0\0\3\0\x7F\xFF"s, {0, 127, 255}}, Case{"\0\0\x09\1\0\0\0\2\x7F\x80"s, {127, -128}},
        Case{"\0\0\x0B\1\0\0\0\2\1\2\xFF\xFE"s, {258, -2}}, Case{"\0\0\x0C\1\0\0\0\1\xFF\xFF\xFF\xFF"s, {-1}},
        Case{"\0\0\x0D\1\0\0\0\1\x3F\xC0\0\0"s, {1.5f}}, Case{"\0\0\x0E\1\0\0\0\1\xBF\xE0\0\0\0\0\0\0"s, {-0.5f}}}) {
    const auto array = open(c.text);
    ASSERT_TRUE(array) << array.error().text();
    ASSERT_EQ(array->rows(), c.values.size());
    for (std::size_t i = 0; i < c.values.size(); ++i) EXPECT_EQ(array->value(i), c.values[i]);
  }
  const std::string text = "\0\0\x08\3\0\0\0\2\0\0\0\1\0\0\0\3abcdef"s;
  const auto images = open(text);
  EXPECT_EQ(images->rows(), 2u);
  EXPECT_EQ(images->width(), 3u);
  EXPECT_EQ(images->value(4), static_cast<float>('e'));
}

TEST(Idx, RefusesWhatItsSizesDoNotSay) {
  struct Case {
    std::string text, error;
  };
  for (const Case& c :
       {Case{"", "does not begin"}, Case{"\0\0\x08"s, "does not begin"}, Case{"\0\0\x0A\1"s, "does not begin"},
        Case{"\0\0\x08\0"s, "does not begin"}, Case{"\0\0\x08\x09"s, "does not begin"},
        Case{"\0\0\x08\2\0\0\0\1"s, "cut short inside its sizes"},
        Case{"\0\0\x08\1\0\0\0\2a"s, "9 bytes, its sizes say 10; it is cut"},
        Case{"\0\0\x08\1\0\0\0\1ab"s, "10 bytes, its sizes say 9"}, Case{"\0\0\x08\1\0\0\0\0"s, "axis 1 has no values"},
        Case{"\0\0\x08\2\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"s, "more than 268435456 values"}}) {
    const auto array = open(c.text);
    ASSERT_FALSE(array);
    EXPECT_NE(array.error().text().find("t: "), std::string::npos);
    EXPECT_NE(array.error().text().find(c.error), std::string::npos) << array.error().text();
  }
}

}  // namespace
}  // namespace weft::formats::idx_test
