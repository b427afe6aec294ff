// SPDX-License-Identifier: Apache-2.0

#include "core/printable.hpp"

#include <gtest/gtest.h>

#include <string>

namespace weft::printable_test {
namespace {

TEST(Printable, KeepsWellFormedTextOfAnyScript) {
  for (const std::string text : {"plain", "Füße", "モデル", "नमस्ते", "א ב", "\U0001F600", ""})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesWhatATerminalObeys) {
  EXPECT_EQ(printable("\x1b]0;pwn\x07"), "\\x1b]0;pwn\\x07");
  EXPECT_EQ(printable("a\nb\r\tc"), "a\\x0ab\\x0d\\x09c");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\x7f"), "\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u{9b}31m");  // C1: CSI as one character
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "cod.exe"),
            "\\u{202e}cod.exe");  // right-to-left override
  EXPECT_EQ(printable("\xe2\x81\xa6"), "\\u{2066}");
  EXPECT_EQ(printable("\xe2\x80\xa8"), "\\u{2028}");
  EXPECT_EQ(printable("\xef\xbb\xbf"
                      "1"),
            "\\u{feff}1");
}

TEST(Printable, EscapesBytesThatAreNoUtf8) {
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");  // C1 as one byte
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");           // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable("\xe2\x80"), "\\xe2\\x80");           // cut
}

TEST(Escaped, CutsNothing) { EXPECT_EQ(escaped(std::string(1000, 'x') + "\n"), std::string(1000, 'x') + "\\x0a"); }

TEST(Printable, CutsWhatIsTooLong) { EXPECT_EQ(printable(std::string(100, 'x'), 10), std::string(10, 'x') + "..."); }

TEST(EscapedJson, EscapesAsJsonDoes) {
  EXPECT_EQ(escaped_json("{\"a\":\"\x7f\xc2\x9b\xe2\x80\xae é\"}"), "{\"a\":\"\\u007f\\u009b\\u202e é\"}");
}

}  // namespace
}  // namespace weft::printable_test
