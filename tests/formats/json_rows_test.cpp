// SPDX-License-Identifier: Apache-2.0

#include "formats/jsonl/json_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace weft::formats::json_rows_test {
namespace {

using Texts = std::vector<std::string>;

/// A source that gives `text` in pieces of `size` bytes; `taken` counts them.
CsvSource pieces(std::string text, std::size_t size) {
  return [text = std::move(text), size, at = std::size_t{0}](std::span<char> buffer) mutable -> Result<std::size_t> {
    const std::size_t now = std::min({size, buffer.size(), text.size() - at});
    std::copy_n(text.data() + at, now, buffer.data());
    at += now;
    return now;
  };
}

struct Seen {
  std::vector<Texts> rows;
  Texts ids, errors;
  std::vector<RowKind> kinds;
  bool operator==(const Seen&) const = default;
};

Seen read(const std::string& text, const JsonRowsOptions& options = {}, std::size_t size = 1 << 16) {
  Seen seen;
  auto opened = JsonRows::open(pieces(text, size), "t", options);
  if (!opened) {
    seen.errors.push_back(opened.error().text());
    return seen;
  }
  JsonRows& rows = **opened;
  for (;;) {
    const auto has_row = rows.next();
    if (!has_row) {
      seen.errors.push_back(has_row.error().text());
      continue;
    }
    if (!*has_row) return seen;
    Texts fields;
    for (const CsvField& field : rows.fields()) fields.emplace_back(field.text);
    seen.rows.push_back(fields);
    seen.ids.push_back(rows.id());
    seen.kinds.push_back(rows.kind());
  }
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(JsonRows, TakesColumnsFromTheFirstSampleInAnyOrder) {
  const Seen seen = read(R"({"a": 1, "b": -2.5e0, "kind": "x,\"y\""}
{"kind": null, "b": 3, "a": 18446744073709551615, "id": 7}

  {"id": "seven", "a": true}
)",
                         {.targets = {"kind"}});
  EXPECT_EQ(seen.errors, Texts());
  EXPECT_EQ(seen.rows,
            (std::vector<Texts>{{"1", "-2.5", "x,\"y\""}, {"18446744073709551615", "3", ""}, {"true", "", ""}}));
  EXPECT_EQ(seen.ids, (Texts{"", "7", "\"seven\""}));
}

TEST(JsonRows, TakesListsAndTargetsThatComeLater) {
  const Seen seen = read(R"({"id": 1, "y": 2}
{"x": [0.5, 1], "id": 2}
{"x": [3, 4], "y": "b"}
{"id": 2, "y": "a"}
{"forgo": true, "id": 3})",
                         {.targets = {"last"}, .features = 2});
  EXPECT_EQ(seen.errors, Texts());
  EXPECT_EQ(seen.rows, (std::vector<Texts>{{"2"}, {"0.5", "1", ""}, {"3", "4", "b"}, {"a"}, {}}));
  using enum RowKind;
  EXPECT_EQ(seen.kinds, (std::vector<RowKind>{target, sample, sample, target, forgo}));
}

TEST(JsonRows, NamesTargetsThatTheFirstSampleDoesNotHave) {
  const auto opened = JsonRows::open(pieces(R"({"id":1,"b":1,"a":2})", 99), "t", {.targets = {"kind", "place"}});
  ASSERT_TRUE(opened);
  EXPECT_EQ((*opened)->names(), (Texts{"b", "a", "kind", "place"}));
  // A network of two values: of three the last is the label.
  for (const auto& [line, names] : {std::pair{R"({"x":1,"y":2})", Texts{"x", "y", "last"}},
                                    std::pair{R"({"x":1,"y":2,"z":3})", Texts{"x", "y", "z"}}}) {
    const auto bare = JsonRows::open(pieces(line, 99), "t", {.targets = {"last"}, .features = 2});
    ASSERT_TRUE(bare);
    EXPECT_EQ((*bare)->names(), names);
  }
  const Seen several = read("{\"x\":[1],\"y\":[1,null]}\n{\"id\":1,\"kind\":3}\n", {.targets = {"kind", "place"}});
  EXPECT_EQ(several.rows, (std::vector<Texts>{{"1", "1", ""}, {"3", ""}}));
}

// Each bad line is named, and the next one is read.
TEST(JsonRows, GoesOnBehindARefusedLine) {
  struct Case {
    std::string line, error;
  };
  for (const Case& c :
       {Case{"{\"x\": [1, 2", "t:2: no JSON object on the line: column"}, Case{"[1,2]", "but no object"},
        Case{"{\"x\": [1]}", "'x': expected a list of 2 values, found 1"}, Case{"{\"x\": [1, NaN]}", "no JSON object"},
        Case{"{\"x\": [1, [2]]}", "\"x\": expected a number"}, Case{"{\"x\": [1, 2], \"z\": 1}", "unknown key \"z\""},
        Case{"{\"id\": 1.5, \"y\": 1}", "'id'"}, Case{"{\"forgo\": true}", "'forgo'"},
        Case{"{\"id\": 1, \"forgo\": false}", "'forgo'"},
        Case{"{\"x\": [1, 2], \"y\": [1, 2]}", "'y': expected a list of 1"},
        Case{"{\"x\": [1, 1e999]}", "no JSON object"}, Case{"{\"x\":[1,2],\"x\":[1,2]}", "x"},
        Case{"{\"id\": \"" + std::string(300, 'i') + "\", \"y\": 1}", "256 bytes"}}) {
    const Seen seen = read("{\"x\": [1, 2], \"y\": 0}\n" + c.line + "\n{\"x\": [3, 4], \"y\": 1}\n");
    EXPECT_EQ(seen.rows, (std::vector<Texts>{{"1", "2", "0"}, {"3", "4", "1"}})) << c.line;
    ASSERT_EQ(seen.errors.size(), 1u) << c.line;
    EXPECT_TRUE(seen.errors[0].starts_with("t:2:") && holds(seen.errors[0], c.error)) << seen.errors[0];
  }
}

TEST(JsonRows, ReadsTheSameInPieces) {
  const std::string text =
      "\xEF\xBB\xBF{\"x\": [1, 2], \"y\": 0}\r\n\r\n{\"x\": [3, 4]}\n{\"x\": 5}\n{\"id\": 1, \"y\": 7}";
  const Seen whole = read(text);
  EXPECT_EQ(whole.rows.size(), 3u);
  EXPECT_EQ(whole.errors.size(), 1u);
  for (const std::size_t size : {1, 2, 7}) EXPECT_TRUE(read(text, {}, size) == whole) << size;
}

TEST(JsonRows, SaysWhereTheDataEndInsideALine) {
  const Seen cut = read("{\"x\": [1], \"y\": 0}\n{\"x\": [2], \"y\":");
  ASSERT_EQ(cut.errors.size(), 1u);
  EXPECT_TRUE(holds(cut.errors[0], "t:2:") && holds(cut.errors[0], "inside which the data end")) << cut.errors[0];
  // An object that is whole needs no line break.
  EXPECT_EQ(read("{\"x\": [1], \"y\": 0}\n{\"x\": [2], \"y\": 1}").rows.size(), 2u);
}

TEST(JsonRows, BoundsWhatItKeeps) {
  auto opened =
      JsonRows::open(pieces("{\"x\": [1]}\n{\"x\": [" + std::string(100000, ' '), 4096), "t", {.max_line = 1000});
  ASSERT_TRUE(opened);
  ASSERT_TRUE(*(*opened)->next());
  const auto row = (*opened)->next();
  ASSERT_FALSE(row);
  EXPECT_EQ(row.error().code(), Errc::too_large);
  EXPECT_TRUE(holds(read("{\"x\": [1, 2, 3]}", {.max_columns = 2}).errors.at(0), "more than 2 values"));
  EXPECT_TRUE(holds(read("{\"weft\": 2, \"chain\": []}").errors.at(0), "no table of samples"));
}

}  // namespace
}  // namespace weft::formats::json_rows_test
