// SPDX-License-Identifier: Apache-2.0

#include "core/json.hpp"

#include <gtest/gtest.h>

#include <clocale>
#include <cmath>

namespace weft::json_test {
namespace {

TEST(ParseJson, ReadsEveryKindOfValue) {
  const auto value = parse_json(R"({"a": [1, -2, 0.5, 1e3, true, false, null, "\u00e9\ud83d\ude00"], "b": {}})", "t");
  ASSERT_TRUE(value) << value.error().text();
  EXPECT_EQ(*value, (Json{{"a", {1, -2, 0.5, 1000.0, true, false, nullptr, "\xC3\xA9\xF0\x9F\x98\x80"}},
                          {"b", Json::object()}}));
  EXPECT_EQ(*parse_json(" 7\n", "t"), Json(7));
}

TEST(ParseJson, KeepsTheLastBitOfNumbers) {
  EXPECT_EQ(parse_json("18446744073709551615", "t")->get<std::uint64_t>(), UINT64_MAX);
  EXPECT_EQ(parse_json("-9223372036854775808", "t")->get<std::int64_t>(), INT64_MIN);
  EXPECT_EQ(parse_json("9007199254740993", "t")->get<std::int64_t>(), 9007199254740993) << "2^53 + 1 is no double";
  EXPECT_EQ(parse_json("0.1", "t")->get<double>(), 0x1.999999999999ap-4);
  EXPECT_EQ(parse_json("1.7976931348623157e308", "t")->get<double>(), 0x1.fffffffffffffp1023);
  EXPECT_EQ(parse_json("5e-324", "t")->get<double>(), 0x1p-1074);
  EXPECT_TRUE(std::signbit(parse_json("-0.0", "t")->get<double>()));
}

TEST(ParseJson, DoesNotListenToTheLocale) {
  if (!std::setlocale(LC_ALL, "de_DE.UTF-8")) GTEST_SKIP() << "no German locale on this machine";
  const auto value = parse_json("[0.5, 1.25e2]", "t");
  std::setlocale(LC_ALL, "C");
  ASSERT_TRUE(value) << value.error().text();
  EXPECT_EQ(*value, (Json{0.5, 125.0}));
}

struct Malformed {
  const char* what;
  std::string text;
  Errc code;
  const char* error;  ///< how the error's text begins
};

TEST(ParseJson, RefusesMalformedTextsAndSaysWhere) {
  const std::string nul("[1]\0garbage", 11), inner_nul("[\"a\0b\"]", 7);
  const std::vector<Malformed> table{
      {"nothing", "", Errc::parse_failed, "t:1:1: "},
      {"only space", "  \n ", Errc::parse_failed, "t:2:2: "},
      {"cut object", "{\"a\": 1", Errc::parse_failed, "t:1:8: "},
      {"cut array", "[1,\n2", Errc::parse_failed, "t:2:2: "},
      {"cut string", "\"abc", Errc::parse_failed, "t:1:5: "},
      {"cut escape", "\"\\u12", Errc::parse_failed, "t:1:"},
      {"cut literal", "tru", Errc::parse_failed, "t:1:4: "},
      {"comma at the end", "[1,]", Errc::parse_failed, "t:1:4: "},
      {"comma at the end of an object", "{\"a\":1,}", Errc::parse_failed, "t:1:8: "},
      {"no comma", "[1 2]", Errc::parse_failed, "t:1:4: "},
      {"two values", "1 2", Errc::parse_failed, "t:1:3: "},
      {"closing more", "[]]", Errc::parse_failed, "t:1:3: "},
      {"key no string", "{1: 2}", Errc::parse_failed, "t:1:2: "},
      {"single quotes", "{'a': 2}", Errc::parse_failed, "t:1:2: "},
      {"comment", "// x\n1", Errc::parse_failed, "t:1:1: "},
      {"NaN", "[NaN]", Errc::parse_failed, "t:1:2: "},
      {"nan", "[nan]", Errc::parse_failed, "t:1:3: "},
      {"Infinity", "[Infinity]", Errc::parse_failed, "t:1:2: "},
      {"-Infinity", "[-Infinity]", Errc::parse_failed, "t:1:3: "},
      {"leading zero", "01", Errc::parse_failed, "t:1:2: "},
      {"plus", "+1", Errc::parse_failed, "t:1:1: "},
      {"no digit before the point", ".5", Errc::parse_failed, "t:1:1: "},
      {"no digit after the point", "5.", Errc::parse_failed, "t:1:3: "},
      {"hexadecimal", "0x10", Errc::parse_failed, "t:1:2: "},
      {"double overflows", "[1e400]", Errc::parse_failed, "t:1:6: number overflow"},
      {"negative double overflows", "-1e999999999999", Errc::parse_failed, "t:1:"},
      {"integer overflows", "[0, 18446744073709551616]", Errc::parse_failed,
       "t:1:5: integer 18446744073709551616 does not fit 64 bits"},
      {"negative integer overflows", "-9223372036854775809", Errc::parse_failed, "t:1:1: integer -9223372036854775809"},
      {"huge integer", std::string(100000, '9'), Errc::parse_failed, "t:1:"},
      {"byte order mark", "\xEF\xBB\xBF{}", Errc::parse_failed, "t:1:1: begins with a byte order mark"},
      {"NUL ends the text", nul, Errc::parse_failed, "t:1:4: a NUL byte"},
      {"NUL in a string", inner_nul, Errc::parse_failed, "t:1:4: a NUL byte"},
      {"control character", "\"a\nb\"", Errc::parse_failed, "t:1:3: "},
      {"stray continuation", "\"\x80\"", Errc::parse_failed, "t:1:2: "},
      {"overlong", "\"\xC0\xAF\"", Errc::parse_failed, "t:1:2: "},
      {"encoded surrogate", "\"\xED\xA0\x80\"", Errc::parse_failed, "t:1:"},
      {"past U+10FFFF", "\"\xF4\x90\x80\x80\"", Errc::parse_failed, "t:1:"},
      {"cut UTF-8", "\"\xC3\"", Errc::parse_failed, "t:1:"},
      {"lone surrogate escape", R"("\ud800")", Errc::parse_failed, "t:1:"},
      {"low surrogate first", R"("\udc00\ud800")", Errc::parse_failed, "t:1:"},
      {"unknown escape", R"("\x41")", Errc::parse_failed, "t:1:3: "},
      {"duplicate key", "{\"a\": 1,\n \"b\": 2, \"a\": 3}", Errc::duplicate_name, "t:2:10: key \"a\" is given twice"},
      {"duplicate by escape", R"({"a": 1, "\u0061": 3})", Errc::duplicate_name, "t:1:10: key \"a\""},
      {"duplicate with quotes", R"({"\"": 1, "\"": 3})", Errc::duplicate_name, "t:1:11: key"},
      {"inner duplicate", R"([{"k": {"x": 1, "x": 2}}])", Errc::duplicate_name, "t:1:17: key \"x\""},
      {"65 levels", std::string(65, '[') + std::string(65, ']'), Errc::too_large, "t:1:65: nested deeper than 64"},
      {"depth 100000", std::string(100000, '['), Errc::too_large, "t:1:65: "},
      {"object depth 100000",
       [] {
         std::string deep;
         for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
         return deep;
       }(),
       Errc::too_large, "t:1:321: "},
      {"columns count characters", "[\"\xC3\xA9\xC3\xA9\", x]", Errc::parse_failed, "t:1:8: "},
  };
  for (const Malformed& entry : table) {
    const auto value = parse_json(entry.text, "t");
    ASSERT_FALSE(value) << entry.what;
    EXPECT_EQ(name(value.error().code()), name(entry.code)) << entry.what << ": " << value.error().text();
    EXPECT_EQ(value.error().text().substr(0, std::string(entry.error).size()), entry.error)
        << entry.what << ": " << value.error().text();
    EXPECT_LT(value.error().text().size(), 400u) << entry.what;
    EXPECT_TRUE(write_json(value.error().text())) << entry.what << ": the error text is not UTF-8";
    EXPECT_EQ(value.error().text().find("json.exception"), std::string::npos) << value.error().text();
  }
}

TEST(ParseJson, AllowsExactlyItsLimits) {
  EXPECT_TRUE(parse_json(std::string(64, '[') + std::string(64, ']'), "t"));
  const JsonLimits few{.max_bytes = 9, .max_depth = 2, .max_values = 4};
  EXPECT_TRUE(parse_json("[1,2,3]  ", "t", few));
  EXPECT_EQ(parse_json("[1,2,3]   ", "t", few).error().code(), Errc::too_large);
  EXPECT_EQ(parse_json("[1,2,3,4]", "t", few).error().text(), "t:1:9: more than 4 values");
  EXPECT_EQ(parse_json("[[[1]]]", "t", few).error().code(), Errc::too_large);
}

TEST(WriteJson, SortsKeysAndReadsBackEqual) {
  const Json value{{"b", 0.1}, {"a", {1, -0.0, 1e-300, 18446744073709551615u}}, {"c", "\xC3\xA9\n\x01"}};
  const auto text = write_json(value);
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "{\"a\":[1,-0.0,1e-300,18446744073709551615],\"b\":0.1,\"c\":\"\xC3\xA9\\n\\u0001\"}");
  EXPECT_EQ(*parse_json(*text, "t"), value);
}

TEST(WriteJson, RefusesWhatNoTextCanHold) {
  EXPECT_EQ(write_json(Json{{"a", {1.0, std::nan("")}}}).error().code(), Errc::invalid_argument);
  EXPECT_EQ(write_json(INFINITY).error().code(), Errc::invalid_argument);
  EXPECT_EQ(write_json("\xFF").error().code(), Errc::invalid_argument);
  EXPECT_EQ(write_json(Json{{"\xFF", 1}}).error().code(), Errc::invalid_argument);
  Json deep = 1;
  for (int i = 0; i < 100000; ++i) deep = Json::array({std::move(deep)});
  EXPECT_EQ(write_json(deep).error().code(), Errc::too_large);
  EXPECT_EQ(write_json(Json{1, 2, 3}, -1, {.max_values = 3}).error().code(), Errc::too_large);
  EXPECT_EQ(write_json("abcdef", -1, {.max_bytes = 7}).error().code(), Errc::too_large);
}

TEST(Json, TakesPairsOfATextAndAValueForAnObject) {
  const Json row{{"name", "q"}, {"shape", {8, 64}}, {"none", nullptr}, {"on", true}, {"inner", {{"a", 1}}}};
  EXPECT_EQ(row.dump(), R"({"inner":{"a":1},"name":"q","none":null,"on":true,"shape":[8,64]})");
  EXPECT_EQ((Json{{"a", 1}, {2, 3}}).dump(), R"([["a",1],[2,3]])");
  EXPECT_EQ((Json{1}).dump(), "[1]");
  EXPECT_EQ(Json(std::vector<std::size_t>{8, 64}), row["shape"]);
  EXPECT_EQ(row["shape"].get<std::vector<std::size_t>>(), (std::vector<std::size_t>{8, 64}));
}

TEST(Json, RemembersTheOrderOfKeysForThosePrinted) {
  Json value{{"z", 1}, {"a", 2}};
  value["m"] = 3;
  value["z"] = 4;
  value.erase("a");
  value["a"] = 5;
  EXPECT_EQ(value.dump(Json::Order::as_set), R"({"z":4,"m":3,"a":5})");
  const Json copy = value;
  EXPECT_EQ(copy.dump(Json::Order::as_set), value.dump(Json::Order::as_set));
  EXPECT_EQ(value.dump(), R"({"a":5,"m":3,"z":4})");
  EXPECT_EQ(value, (Json{{"a", 5}, {"m", 3}, {"z", 4}})) << "members are equal in any order";
}

TEST(Json, ComparesNumbersAsNumbers) {
  EXPECT_EQ(Json(1), Json(1u));
  EXPECT_EQ(Json(1), Json(1.0));
  EXPECT_NE(Json(-1), Json(UINT64_MAX));
  EXPECT_NE(Json(1), Json(true));
  EXPECT_NE(Json("1"), Json(1));
}

TEST(Json, TakesAPartOfItself) {
  Json value{{"a", {{"b", {1, 2}}}}};
  value = Json(value["a"]);
  value = value["b"];
  EXPECT_EQ(value, (Json{1, 2}));
  value.push_back(value);
  EXPECT_EQ(value.dump(), "[1,2,[1,2]]");
}

TEST(Json, AnswersNullForWhatIsNotThere) {
  const Json value{{"a", 1}};
  EXPECT_TRUE(value["b"]["c"].is_null());
  EXPECT_EQ(value.get_or("a", 7), 1);
  EXPECT_EQ(value.get_or("b", 7), 7);
  EXPECT_EQ(value.find("b"), nullptr);
  EXPECT_EQ(value["a"].find("c"), nullptr);
}

TEST(Json, ShowsWhatIsNotUtf8WithReplacements) {
  EXPECT_EQ(Json("a\xFF").dump(), "\"a\xEF\xBF\xBD\"");
  EXPECT_EQ(Json(INFINITY).dump(), "null");
}

TEST(WriteJson, IndentsAsTheManifestDoes) {
  EXPECT_EQ(*write_json(Json{{"a", {1, {{"b", Json::array()}}}}, {"c", Json::object()}}, 2),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {}\n}");
}

}  // namespace
}  // namespace weft::json_test
