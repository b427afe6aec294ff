// SPDX-License-Identifier: Apache-2.0

#include "core/json_reader.hpp"

#include "core/dtype.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace weft::json_reader_test {
namespace {

Json text(const char* source) { return parse_json(source, "t").value(); }

const std::vector<std::string_view> kNames{"float32", "int8", "int4"};

TEST(JsonReader, WalksAnObjectAndFindsNothingLeft) {
  const Json root = text(R"({"grid": {"z": 1, "x": 4294967295}, "layers": [{"dtype": "int8", "lr": 0.1, "on": true}],
                             "seed": 18446744073709551615, "name": "n"})");
  auto reader = JsonReader::open(root);
  ASSERT_TRUE(reader);
  auto grid = reader->object("grid");
  ASSERT_TRUE(grid);
  EXPECT_EQ(*grid->u32("z"), 1u);
  EXPECT_EQ(*grid->u32_or("y", 9), 9u);
  EXPECT_EQ(*grid->u32("x"), UINT32_MAX);
  EXPECT_TRUE(grid->finish());
  const auto layers = reader->array("layers", 1, 1);
  ASSERT_TRUE(layers);
  auto layer = layers->front().object();
  EXPECT_EQ(*layer->one_of("dtype", parse_dtype, kNames), Dtype::int8);
  EXPECT_EQ(*layer->one_of_or("other", Dtype::fp4, parse_dtype, kNames), Dtype::fp4);
  EXPECT_EQ(*layer->f32("lr"), 0.1f);
  EXPECT_EQ(*layer->f64_or("momentum", 0.9), 0.9);
  EXPECT_TRUE(*layer->boolean("on"));
  EXPECT_TRUE(layer->finish());
  EXPECT_EQ(*reader->u64("seed"), UINT64_MAX);
  EXPECT_EQ(*reader->string_or("name", "m"), "n");
  EXPECT_TRUE(reader->finish());
  EXPECT_EQ(reader->keys(), (std::vector<std::string>{"grid", "layers", "name", "seed"}));
}

struct Refused {
  const char* json;
  Status (*read)(JsonReader&);
  Errc code;
  const char* error;
};

template <class T>
Status status(const Result<T>& result) {
  if (!result) return fail(result.error());
  return {};
}

TEST(JsonReader, NamesPathFoundAndExpected) {
  using R = JsonReader&;
  const std::vector<Refused> table{
      {R"({})", [](R r) { return status(r.u32("a")); }, Errc::not_found, R"(top level: key "a" is missing)"},
      {R"({"tpye": "x", "out": 1})", [](R r) { return status(r.string("type")); }, Errc::not_found,
       R"(top level: key "type" is missing; there is "tpye")"},
      {R"({"a": 0})", [](R r) { return status(r.u32("a", 1, 8)); }, Errc::out_of_range,
       "a: found 0, expected a whole number from 1 to 8"},
      {R"({"a": 9})", [](R r) { return status(r.u32("a", 1, 8)); }, Errc::out_of_range,
       "a: found 9, expected a whole number from 1 to 8"},
      {R"({"a": -1})", [](R r) { return status(r.u32("a")); }, Errc::out_of_range,
       "a: found -1, expected a whole number of at least 0"},
      {R"({"a": 4294967296})", [](R r) { return status(r.u32("a")); }, Errc::out_of_range,
       "a: found 4294967296, expected a whole number from 0 to 4294967295"},
      {R"({"a": 3.0})", [](R r) { return status(r.u64("a")); }, Errc::parse_failed,
       "a: found 3.0, expected a whole number of at least 0"},
      {R"({"a": "3"})", [](R r) { return status(r.u32_or("a", 3)); }, Errc::parse_failed,
       R"(a: found "3", expected a whole number of at least 0)"},
      {R"({"a": null})", [](R r) { return status(r.f32_or("a", 1)); }, Errc::parse_failed,
       "a: found null, expected a finite number"},
      {R"({"a": 3.5e38})", [](R r) { return status(r.f32("a")); }, Errc::out_of_range,
       "a: found 3.5e+38, expected a finite number"},
      {R"({"a": -0.5})", [](R r) { return status(r.f32("a", 0.0f, 1.0f)); }, Errc::out_of_range,
       "a: found -0.5, expected a finite number from 0 to 1"},
      {R"({"a": 2})", [](R r) { return status(r.f64_or("a", 0, 0, 1)); }, Errc::out_of_range,
       "a: found 2, expected a finite number from 0 to 1"},
      {R"({"a": true})", [](R r) { return status(r.f32("a")); }, Errc::parse_failed,
       "a: found true, expected a finite number"},
      {R"({"a": 1})", [](R r) { return status(r.boolean("a")); }, Errc::parse_failed,
       "a: found 1, expected true or false"},
      {R"({"a": [1, 2]})", [](R r) { return status(r.string("a")); }, Errc::parse_failed,
       "a: found an array of 2, expected a string"},
      {R"({"a": "abc"})", [](R r) { return status(r.string("a", 2)); }, Errc::out_of_range,
       R"(a: found "abc", expected a string of at most 2 bytes)"},
      {R"({"a": {}})", [](R r) { return status(r.array("a")); }, Errc::parse_failed,
       "a: found an object, expected an array"},
      {R"({"a": [1]})", [](R r) { return status(r.array("a", 2, 3)); }, Errc::out_of_range,
       "a: found an array of 1, expected an array of 2 to 3"},
      {R"({"a": [1]})", [](R r) { return status(r.array("a", 2)); }, Errc::out_of_range,
       "a: found an array of 1, expected an array of at least 2"},
      {R"({"a": [1]})", [](R r) { return status(r.array("a", 4, 4)); }, Errc::out_of_range,
       "a: found an array of 1, expected an array of 4"},
      {R"({"a": []})", [](R r) { return status(r.object("a")); }, Errc::parse_failed,
       "a: found an array of 0, expected an object"},
      {R"({"a": "itn8"})", [](R r) { return status(r.one_of("a", parse_dtype, kNames)); }, Errc::unknown_name,
       R"(a: found "itn8", expected one of float32, int8, int4; did you mean 'int8'?)"},
      {R"({"a": "banana"})", [](R r) { return status(r.one_of_or("a", Dtype::fp4, parse_dtype, kNames)); },
       Errc::unknown_name, R"(a: found "banana", expected one of float32, int8, int4)"},
  };
  for (const Refused& entry : table) {
    const Json root = text(entry.json);
    auto reader = JsonReader::open(root);
    const Status result = entry.read(*reader);
    ASSERT_FALSE(result) << entry.json;
    EXPECT_EQ(name(result.error().code()), name(entry.code)) << entry.json;
    EXPECT_EQ(result.error().text(), entry.error);
  }
}

TEST(JsonReader, SpellsPathsThroughArraysAndOddKeys) {
  const Json root = text(R"({"layers": [{}, {"at": [0, [1, "x"]]}], "a key": {"": 1}})");
  auto reader = JsonReader::open(root);
  const auto layers = reader->array("layers");
  auto layer = (*layers)[1].object();
  const auto at = layer->array("at");
  const auto inner = (*at)[1].array();
  EXPECT_EQ((*inner)[1].u32().error().text(),
            R"(layers[1].at[1][1]: found "x", expected a whole number of at least 0)");
  auto odd = reader->object("a key");
  EXPECT_EQ(odd->boolean("").error().text(), R"(["a key"][""]: found 1, expected true or false)");
  EXPECT_EQ(JsonReader::open(Json(1), "layers[3]").error().text(), "layers[3]: found 1, expected an object");
}

TEST(JsonReader, RefusesKeysThatNobodyAskedFor) {
  const Json root = text(R"({"layers": [{"activaton": "tanh"}]})");
  auto reader = JsonReader::open(root);
  const auto layers = reader->array("layers");
  auto layer = (*layers)[0].object();
  (void)layer->string_or("activation", "linear");
  (void)layer->u32_or("out", 1);
  const Status finished = layer->finish();
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().code(), Errc::unknown_name);
  EXPECT_EQ(finished.error().text(), "layers[0].activaton: unknown key; did you mean 'activation'?");
  const Json far = text(R"({"weights": 1})");
  auto other = JsonReader::open(far);
  (void)other->u32_or("out", 1);
  EXPECT_EQ(other->finish().error().text(), "weights: unknown key");
}

TEST(JsonReader, KeepsErrorTextsShortAndPrintable) {
  const Json root{{"a", std::string(1000000, 'x')}, {std::string(1000000, 'k'), 1}, {"b", "\xFF\x01\x1B[31m"}};
  auto reader = JsonReader::open(root);
  EXPECT_LT(reader->u32("a").error().text().size(), 200u);
  EXPECT_EQ(reader->u32("b").error().text(), R"(b: found "\xff\x01\x1b[31m", expected a whole number of at least 0)");
  EXPECT_LT(reader->finish().error().text().size(), 200u);
}

TEST(JsonReader, TakesSignedNumbersThatCodeMade) {
  const Json root{{"a", 5}, {"b", -5}};  // int, not unsigned
  auto reader = JsonReader::open(root);
  EXPECT_EQ(*reader->u32("a"), 5u);
  EXPECT_EQ(reader->u32("b").error().code(), Errc::out_of_range);
  EXPECT_EQ(*reader->f32("b"), -5.0f);
}

TEST(NearestName, FindsSlipsOfTheHandOnly) {
  const std::vector<std::string_view> names{"activation", "out", "dtype", "from"};
  EXPECT_EQ(nearest_name("activation_", names), "activation");
  EXPECT_EQ(nearest_name("actviation", names), "activation");
  EXPECT_EQ(nearest_name("form", names), "from");
  EXPECT_EQ(nearest_name("ot", names), "out");
  EXPECT_FALSE(nearest_name("at", names));
  EXPECT_FALSE(nearest_name("bias", names));
  EXPECT_FALSE(nearest_name("", names));
  EXPECT_FALSE(nearest_name(std::string(1000000, 'x'), names));
}

}  // namespace
}  // namespace weft::json_reader_test
