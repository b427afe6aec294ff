// SPDX-License-Identifier: Apache-2.0

#include "text/unicode.hpp"

#include "text/internal/utf16.hpp"

#include <gtest/gtest.h>
#include <unicode/unorm2.h>

#include <cstddef>
#include <random>
#include <string>
#include <utility>

namespace weft::text::unicode_test {
namespace {

// The Unicode Standard 15, section 3.9, tables 3-8 to 3-11.
TEST(Unicode, ReplacesWhatIsNoUtf8AsTheStandardShows) {
  EXPECT_EQ(replace_invalid("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(replace_invalid("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(replace_invalid("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA\uFFFD\uFFFDB");
  EXPECT_EQ(replace_invalid("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(valid_prefix("a\u00e9\U0001F600\xF0\x9F"), 7u);
}

TEST(Unicode, WalksBothWays) {
  const std::string text = "a\u00e9\u4f60\U0001F600";
  std::u32string forward, backward, written;
  std::string again;
  for (std::size_t at = 0; at < text.size();) forward += next_code_point(text, at);
  for (std::size_t at = text.size(); at != 0;) backward.insert(0, 1, previous_code_point(text, at));
  for (const char32_t c : forward) append_utf8(again, c);
  EXPECT_EQ(forward, U"a\u00e9\u4f60\U0001F600");
  EXPECT_EQ(backward, forward);
  EXPECT_EQ(again, text);
}

// UAX #15, figures 3 to 6.
TEST(Unicode, NormalizesAsTheAnnexShows) {
  EXPECT_EQ(normalized("\u212B\u2126", NormalForm::nfc), "\u00C5\u03A9");
  EXPECT_EQ(normalized("\u1E9B\u0323", NormalForm::nfd), "\u017F\u0323\u0307");
  EXPECT_EQ(normalized("\u1E9B\u0323", NormalForm::nfc), "\u1E9B\u0323");
  EXPECT_EQ(normalized("\u1E9B\u0323", NormalForm::nfkd), "s\u0323\u0307");
  EXPECT_EQ(normalized("\u1E9B\u0323", NormalForm::nfkc), "\u1E69");
  EXPECT_EQ(normalized("\uFB01"
                       "2\u2075",
                       NormalForm::nfkc),
            "fi25");
  // The longest expansion: 18 for 1.
  EXPECT_EQ(normalized("\uFDFA", NormalForm::nfkd).size(), 33u);
}

/// Text that ICU makes of it at once: by the square of the length of a row of marks.
std::string by_icu(const std::u16string& units, const UNormalizer2* form) {
  std::u16string made(units.size() * 20 + 16, u'\0');
  UErrorCode error = U_ZERO_ERROR;
  made.resize(static_cast<std::size_t>(unorm2_normalize(form, units.data(), static_cast<std::int32_t>(units.size()),
                                                        made.data(), static_cast<std::int32_t>(made.size()), &error)));
  EXPECT_TRUE(U_SUCCESS(error)) << u_errorName(error);
  return to_utf8(made);
}

// Marks of many classes, some that are two marks, and some of class 0 that begin with one (U+0F73).
TEST(Unicode, OrdersManyMarksAsIcuDoes) {
  const std::u16string marks = u"\u0300\u0301\u0315\u0316\u0323\u0327\u0344\u0345\u05b0\u0f71\u0f72\u0f73\u0f81\u3099",
                       others = u"a\u00e9\u1e9b\uac00\ufdfa\u0f40\u1e69";
  UErrorCode error = U_ZERO_ERROR;
  const std::pair<NormalForm, const UNormalizer2*> forms[] = {{NormalForm::nfc, unorm2_getNFCInstance(&error)},
                                                              {NormalForm::nfd, unorm2_getNFDInstance(&error)},
                                                              {NormalForm::nfkc, unorm2_getNFKCInstance(&error)},
                                                              {NormalForm::nfkd, unorm2_getNFKDInstance(&error)}};
  ASSERT_TRUE(U_SUCCESS(error));
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::u16string units;
    for (std::size_t row = 0; row < 4; ++row) {
      units += others[random() % others.size()];
      for (std::size_t left = random() % 200; left > 0; --left) units += marks[random() % marks.size()];
    }
    if (round % 8 == 0) units.insert(0, u"\U0001D165\u0300");  // a mark of two units of UTF-16
    for (const auto& [form, icu] : forms) ASSERT_EQ(normalized(to_utf8(units), form), by_icu(units, icu)) << round;
  }
}

// A server reads such texts from anybody: ICU would take hours for these.
TEST(Unicode, OrdersAMebibyteOfMarks) {
  const std::size_t count = std::size_t{1} << 18;
  std::string text = "a", ordered = "a";
  for (std::size_t i = 0; i < count; ++i) text += "\u0315\u0300";
  for (std::size_t i = 0; i < count; ++i) ordered += "\u0300";
  for (std::size_t i = 0; i < count; ++i) ordered += "\u0315";
  EXPECT_TRUE(normalized(text, NormalForm::nfd) == ordered);
  EXPECT_TRUE(normalized(text, NormalForm::nfkd) == ordered);
  ordered.replace(0, 3, "\u00e0");
  EXPECT_TRUE(normalized(text, NormalForm::nfc) == ordered);
  EXPECT_TRUE(normalized(text, NormalForm::nfkc) == ordered);
}

TEST(Unicode, KnowsCategories) {
  EXPECT_TRUE(is_white_space(0x85) && is_white_space(0x2003) && is_white_space(' ') && !is_white_space(0x200B));
  EXPECT_TRUE(is_letter(U'\u4f60') && is_letter('x') && !is_letter('1') && !is_letter(0x301));
  EXPECT_TRUE(is_number(U'\u2167') && is_number(U'\u00bd') && is_number(U'\u0663'));
  EXPECT_TRUE(is_mark(0x301) && is_nonspacing_mark(0x301) && is_mark(0x20DD) && !is_nonspacing_mark(0x20DD));
  EXPECT_TRUE(is_punctuation('!') && is_punctuation(U'\u3002') && !is_punctuation('+'));
  EXPECT_TRUE(is_word('_') && is_word(0x301) && is_word(U'\u2167') && is_word(0x200D));
  EXPECT_TRUE(!is_word(U'\u00bd') && !is_word('-') && !is_word(0x200B));
  EXPECT_TRUE(is_other(0) && is_other(0x200D) && is_other(0xE000) && !is_other(' '));
  EXPECT_EQ(lower_case("\u0130\u03A3\u1E9E\u00C5"), "i\u0307\u03C3\u00DF\u00E5");
  EXPECT_EQ(upper_case("stra\u00DFe \u01C6 \u0149"), "STRASSE \u01C4 \u02BCN");
  EXPECT_EQ(title_case("\u01C6A"), "\u01C5a");
  EXPECT_EQ(title_case("\u00DFX"), "Ssx");
  EXPECT_EQ(title_case(""), "");
  EXPECT_TRUE(is_cased('a') && is_cased(0x1C5) && !is_cased('1') && !is_cased(U'\u4f60'));
}

}  // namespace
}  // namespace weft::text::unicode_test
