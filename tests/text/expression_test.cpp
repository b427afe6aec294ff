// SPDX-License-Identifier: Apache-2.0

#include "text/expression.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft::text::expression_test {
namespace {

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  const auto expression = Expression::compile(pattern);
  EXPECT_TRUE(expression) << expression.error().text();
  std::vector<std::string> found;
  const Status status = expression->each_match(
      text, [&](std::size_t begin, std::size_t end) { found.emplace_back(text.substr(begin, end - begin)); });
  EXPECT_TRUE(status) << status.error().text();
  return found;
}
using Found = std::vector<std::string>;

TEST(Expression, SpellsClassesOutAsRubyDoes) {
  EXPECT_EQ(matches(R"(\s+)", "a\u0085b\u2003c\u200bd"), (Found{"\u0085", "\u2003"}));
  EXPECT_EQ(matches(R"(\h+)", "xff09g"), (Found{"ff09"}));
  // As Oniguruma 6.9 has it: numbers that are letters too, and outside of brackets six numbers of Latin-1.
  EXPECT_EQ(matches(R"(\w+)", "e\u0301_\u203fx-\u00bd\u2167\u200d\u215b"), (Found{"e\u0301_\u203fx", "\u00bd\u2167"}));
  EXPECT_EQ(matches(R"([\w]+)", "e\u00bd\u2167\u00b2"), (Found{"e", "\u2167"}));
  EXPECT_EQ(matches(R"(\W+|[^\w]+)", "e\u00bdx"), (Found{"\u00bd"}));
  EXPECT_EQ(matches(R"(\d)", "1\u0663\u00bd"), (Found{"1", "\u0663"}));
  EXPECT_EQ(matches(R"([^\s\p{L}]+)", "a1 2b"), (Found{"1", "2"}));
  EXPECT_EQ(matches("^b$", "a\nb\nc"), (Found{"b"})) << "lines, as in Ruby";
  EXPECT_EQ(matches("a.c", "a\nc a\rc"), (Found{"a\rc"})) << "no line break but the line feed";
  EXPECT_EQ(matches("(?i:'S)", "'s'\u017F"), (Found{"'s", "'\u017F"}));
  EXPECT_EQ(matches("x*", "axxb"), (Found{"xx"})) << "empty matches are passed over";
  EXPECT_EQ(matches("\U0001F600|b", "a\U0001F600b"), (Found{"\U0001F600", "b"}));
}

TEST(Expression, RefusesWhatMeansSomethingElseElsewhere) {
  for (const char* const pattern : {R"((a)\1)", R"(\bx)", R"(\Bx)", R"(\Gx)", R"(a\Kb)", R"(\R)", R"(\X)", "(?<n>a)",
                                    "(?(1)a|b)", "[[:alpha:]]", "(?m:a)", "(?x:a)", R"(\k<n>)", R"(\yx)"}) {
    const auto refused = Expression::compile(pattern);
    ASSERT_FALSE(refused) << pattern;
    EXPECT_EQ(refused.error().code(), Errc::unsupported) << pattern << ": " << refused.error().text();
  }
  for (const char* const pattern : {"(", "a)", "[a", "*", "a{2", R"(\p{Nonsense})", "(?<=a*)b", "\xFF"}) {
    const auto refused = Expression::compile(pattern);
    ASSERT_FALSE(refused) << pattern;
    EXPECT_EQ(refused.error().code(), Errc::parse_failed) << pattern << ": " << refused.error().text();
  }
  EXPECT_EQ(Expression::compile("a\\").error().code(), Errc::unsupported);
  EXPECT_EQ(Expression::compile(std::string(70'000, 'a')).error().code(), Errc::too_large);
  const std::string text = Expression::compile("\x1b[31m(").error().text();
  EXPECT_EQ(text.find('\x1b'), text.npos) << text;
}

// The bound is counted in steps, so it holds on every machine alike.
TEST(Expression, BoundsWhatAMatchMayTake) {
  const auto expression = Expression::compile("(a+)+$");
  ASSERT_TRUE(expression) << expression.error().text();
  const std::string text = std::string(200, 'a') + "b";
  const Status status = expression->each_match(text, [](std::size_t, std::size_t) {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Errc::too_large);
  EXPECT_NE(status.error().text().find("(a+)+$"), std::string::npos) << status.error().text();
  // The engine is as before.
  std::size_t found = 0;
  EXPECT_TRUE(expression->each_match("aaa", [&](std::size_t, std::size_t) { ++found; }));
  EXPECT_EQ(found, 1u);
}

TEST(Expression, TakesAMebibyteOfOneCharacter) {
  constexpr std::string_view kLlama3 =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  EXPECT_EQ(matches(kLlama3, std::string(std::size_t{1} << 20, 'a')).size(), 1u);
  EXPECT_EQ(matches(kLlama3, std::string(std::size_t{1} << 20, ' ')).size(), 1u);
  EXPECT_EQ(matches(kLlama3, std::string(std::size_t{1} << 20, '\n')).size(), 1u);
  EXPECT_EQ(matches(kLlama3, std::string(std::size_t{1} << 20, '!')).size(), 1u);
}

}  // namespace
}  // namespace weft::text::expression_test
