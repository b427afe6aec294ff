// SPDX-License-Identifier: Apache-2.0

#include "core/option_table.hpp"

#include <gtest/gtest.h>

namespace weft::option_table_test {
namespace {

enum class Kind : int { round, square };
const std::vector<std::string_view> kKinds{"round", "square"};

struct Inner {
  std::uint32_t depth = 3;
};
struct Sample {
  Kind kind = Kind::round;
  float radius = 0.5f;
  float edge = 2.0f;
  bool is_hollow = false;
  std::uint64_t count = 7;
  std::optional<std::uint64_t> seed{};
  std::vector<float> points{};
  std::string name = "none";
  Inner inner{};
};

const OptionTable<Inner>& inner_table() {
  static const OptionTable<Inner> table({option("depth", &Inner::depth, {.low = 1, .high = 9, .meaning = "layers"})});
  return table;
}

const OptionTable<Sample>& table() {
  using O = Sample;
  static const OptionTable<Sample> made({
      option("kind", &O::kind, {.names = kKinds, .is_always_written = true, .meaning = "shape"}),
      option("radius", &O::radius, {.low = 0, .high = 1.5, .meaning = "size", .only_with = "kind=round"}),
      with_default(option("edge", &O::edge, {.low = 0, .fallback_words = "twice `radius`", .meaning = "size"}),
                   [](O& o) { o.edge = 2 * o.radius; }),
      option("hollow", &O::is_hollow, {.meaning = "inside"}),
      option("count", &O::count, {.low = 1, .high = 100, .is_always_written = true, .meaning = "how many"}),
      option("seed", &O::seed, {.meaning = "of the noise"}),
      option("points", &O::points, {.low = -1, .high = 1, .fewest = 1, .most = 3, .meaning = "places"}),
      option("name", &O::name, {.most = 8, .meaning = "title"}),
      section_option("inner", &O::inner, inner_table(), {.meaning = "its inside"}),
  });
  return made;
}

Result<Sample> read(std::string_view text) {
  WEFT_TRY(const Json document, parse_json(text, "sample"));
  WEFT_TRY(JsonReader reader, JsonReader::open(document, "sample"));
  Sample sample;
  WEFT_CHECK(table().read(reader, sample));
  return sample;
}

std::string error(std::string_view text) {
  const auto sample = read(text);
  return sample ? "none" : sample.error().text();
}

TEST(OptionTable, TakesDefaultsFromTheStruct) {
  const auto sample = read("{}");
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->radius, 0.5f);
  EXPECT_EQ(sample->edge, 1.0f) << "of the other option, since nobody gave it";
  EXPECT_EQ(sample->count, 7u);
  EXPECT_EQ(sample->inner.depth, 3u);
  EXPECT_EQ(option_row(table().rows(), "radius").fallback, "0.5");
  EXPECT_EQ(option_row(table().rows(), "kind").fallback, R"("round")");
  EXPECT_EQ(option_row(table().rows(), "edge").fallback, "") << "words say it";
  EXPECT_EQ(option_row(table().rows(), "seed").fallback, "") << "there is none";
  EXPECT_EQ(option_row(table().rows(), "inner").options.at(0).fallback, "3");
}

TEST(OptionTable, ReadsWhatItWrites) {
  const char* const text = R"({"count":100,"edge":0.25,"hollow":true,"inner":{"depth":9},"kind":"square","name":"a",)"
                           R"("points":[-1.0,0.5],"seed":18446744073709551615})";
  const auto sample = read(text);
  ASSERT_TRUE(sample) << sample.error().text();
  EXPECT_EQ(sample->seed, UINT64_MAX);
  EXPECT_EQ(table().write(*sample).dump(), text);
}

TEST(OptionTable, WritesWhatIsNotTheDefault) {
  EXPECT_EQ(table().write(Sample{}).dump(), R"({"count":7,"kind":"round"})");
  Sample sample;
  sample.radius = 1;
  EXPECT_EQ(table().write(sample).dump(), R"({"count":7,"kind":"round","radius":1.0})");
  sample.kind = Kind::square;  // which has no radius
  EXPECT_EQ(table().write(sample).dump(), R"({"count":7,"kind":"square"})");
}

TEST(OptionTable, NamesPathValueBoundsAndTheNearWord) {
  EXPECT_EQ(error(R"({"count": 0})"), "sample.count: found 0, expected a whole number from 1 to 100");
  EXPECT_EQ(error(R"({"radius": 2})"), "sample.radius: found 2, expected a finite number from 0 to 1.5");
  EXPECT_EQ(error(R"({"edge": -1})"), "sample.edge: found -1, expected a finite number of at least 0");
  EXPECT_EQ(error(R"({"hollow": 1})"), "sample.hollow: found 1, expected true or false");
  EXPECT_EQ(error(R"({"kind": "sqare"})"),
            "sample.kind: found \"sqare\", expected one of round, square; did you mean 'square'?");
  EXPECT_EQ(error(R"({"points": []})"), "sample.points: found an array of 0, expected an array of 1 to 3");
  EXPECT_EQ(error(R"({"points": [0, 2]})"), "sample.points[1]: found 2, expected a finite number from -1 to 1");
  EXPECT_EQ(error(R"({"name": "123456789"})"),
            "sample.name: found \"123456789\", expected a string of at most 8 bytes");
  EXPECT_EQ(error(R"({"inner": {"dept": 2}})"), "sample.inner.dept: unknown key; did you mean 'depth'?");
  EXPECT_EQ(error(R"({"kind": "square", "radius": 1})"), "sample.radius: counts only with kind round; it is square");
}

TEST(OptionTable, DeclaresItselfAsJson) {
  const Json rows = to_json(table().rows());
  ASSERT_EQ(rows.size(), 9u);
  EXPECT_EQ(rows[1].dump(Json::Order::as_set),
            R"({"key":"radius","kind":"number","low":0,"high":1.5,"default":0.5,"limits":"0 to 1.5","unit":"-",)"
            R"("meaning":"size","only_with":"kind=round"})");
  EXPECT_EQ(rows[8]["options"][0]["high"].get<int>(), 9);
}

TEST(OptionRow, SplitsConditions) {
  const OptionCondition condition = parse_condition("kind=round|square");
  EXPECT_EQ(condition.key, "kind");
  EXPECT_EQ(condition.values, kKinds);
}

}  // namespace
}  // namespace weft::option_table_test
