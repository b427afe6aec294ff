// SPDX-License-Identifier: Apache-2.0

#include "formats/csv/csv.hpp"

#include "formats/csv/gzip.hpp"

#include <gtest/gtest.h>

#include <zlib.h>

#include <algorithm>
#include <cfloat>
#include <clocale>
#include <cmath>

namespace weft::formats::csv_test {
namespace {

struct Table {
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> rows;  // a field in quotes has a ' before it
  std::vector<std::size_t> lines;
  char separator = 0;
};

Result<Table> read_all(Result<CsvReader> opened) {
  if (!opened) return fail(opened.error());
  CsvReader reader = *std::move(opened);
  Table table{reader.names(), {}, {}, reader.separator()};
  for (;;) {
    WEFT_TRY(const bool has_record, reader.next());
    if (!has_record) return table;
    table.lines.push_back(reader.line());
    table.rows.emplace_back();
    for (const CsvField& field : reader.fields())
      table.rows.back().push_back((field.is_quoted ? "'" : "") + std::string(field.text));
  }
}

Result<Table> parse(std::string_view text, const CsvOptions& options = {}) {
  return read_all(CsvReader::open(text, "t", options));
}

/// The same bytes, `step` at a time.
Result<Table> parse_in_steps(std::string_view text, std::size_t step, const CsvOptions& options = {}) {
  return read_all(CsvReader::open(
      [text, step](std::span<char> buffer) mutable -> Result<std::size_t> {
        const std::size_t count = std::min({step, text.size(), buffer.size()});
        std::copy_n(text.data(), count, buffer.data());
        text.remove_prefix(count);
        return count;
      },
      "t", options));
}

CsvNumber number(std::string_view text) { return csv_number({text, false}); }
using Rows = std::vector<std::vector<std::string>>;

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(::deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  ::deflateEnd(&stream);
  return out;
}

TEST(Csv, ReadsRowsWithAndWithoutAHeader) {
  const auto plain = parse("1,2.5,-3e2\n0.1,.5,5.\n");
  ASSERT_TRUE(plain) << plain.error().text();
  EXPECT_EQ(plain->rows, (Rows{{"1", "2.5", "-3e2"}, {"0.1", ".5", "5."}}));
  EXPECT_TRUE(plain->names.empty());

  const auto named = parse("width (cm),label\r\n1,2\r\n3,4");
  ASSERT_TRUE(named) << named.error().text();
  EXPECT_EQ(named->names, (std::vector<std::string>{"width (cm)", "label"}));
  EXPECT_EQ(named->rows, (Rows{{"1", "2"}, {"3", "4"}}));
  EXPECT_EQ(named->lines, (std::vector<std::size_t>{2, 3}));

  EXPECT_EQ(parse("1,2\n3,4\n", {.header = CsvHeader::present})->names, (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(parse("a,b\n1,2\n", {.header = CsvHeader::absent})->rows.size(), 2u);
  // A row number or a missing value makes a row of data; one empty name is what data frames write for their index.
  EXPECT_TRUE(parse("1,setosa\n2,virginica\n")->names.empty());
  EXPECT_TRUE(parse("NA,setosa\n2,virginica\n")->names.empty());
  EXPECT_EQ(parse(",width,kind\n0,1.5,a\n")->names, (std::vector<std::string>{"", "width", "kind"}));
}

// RFC 4180, section 2, rules 5 to 7, and its examples.
TEST(Csv, ReadsQuotedFields) {
  EXPECT_EQ(parse("\"aaa\",\"b\nbb\",\"ccc\"\nzzz,yyy,xxx\n", {.header = CsvHeader::absent})->rows,
            (Rows{{"'aaa", "'b\nbb", "'ccc"}, {"zzz", "yyy", "xxx"}}));
  EXPECT_EQ(parse("\"aaa\",\"b\"\"bb\",\"ccc\"", {.header = CsvHeader::absent})->rows,
            (Rows{{"'aaa", "'b\"bb", "'ccc"}}));
  const auto table = parse("1,\"a,b;c\"\r\n2, \"two\r\nlines\" \r\n3,\"\"\r\n4,\"\"\"\"\r\n5,x\r\n");
  ASSERT_TRUE(table) << table.error().text();
  EXPECT_EQ(table->separator, ',');
  EXPECT_EQ(table->rows, (Rows{{"1", "'a,b;c"}, {"2", "'two\r\nlines"}, {"3", "'"}, {"4", "'\""}, {"5", "x"}}));
  EXPECT_EQ(table->lines, (std::vector<std::size_t>{1, 2, 4, 5, 6}));
}

TEST(Csv, FindsTheSeparatorAndTrimsBlanks) {
  for (const auto& [text, separator] : std::vector<std::pair<std::string, char>>{{"a;b;c\n1; 2 ;3\n", ';'},
                                                                                 {"a\tb\tc\n1\t2\t 3\n", '\t'},
                                                                                 {"a|b|c\n1|2|3\n", '|'},
                                                                                 {"a,b,c\n1, 2,3 \n", ','}}) {
    const auto table = parse(text);
    ASSERT_TRUE(table) << table.error().text();
    EXPECT_EQ(table->separator, separator);
    EXPECT_EQ(table->rows, (Rows{{"1", "2", "3"}})) << text;
  }
  // Decimal commas are left to whoever reads numbers; a tab beside blanks is an empty field, not a blank.
  EXPECT_EQ(parse("1,5;2,5\n")->rows, (Rows{{"1,5", "2,5"}}));
  EXPECT_EQ(parse("1\t \t2\n")->rows, (Rows{{"1", "", "2"}}));
  EXPECT_EQ(parse("\"a;b\",c\n", {.header = CsvHeader::absent})->separator, ',');
  EXPECT_EQ(parse("1;2,3\n", {.separator = ','})->rows, (Rows{{"1;2", "3"}}));
  EXPECT_EQ(parse("7\n8\n")->rows, (Rows{{"7"}, {"8"}}));
}

// As Excel writes it, and reads it itself.
TEST(Csv, TakesTheSeparatorThatTheFirstLineNames) {
  for (const char separator : {',', ';', '\t', '|'})
    for (const std::string mark : {"", "\xEF\xBB\xBF"})
      for (const std::string end : {"\n", "\r\n"}) {
        const std::string text =
            mark + "sep=" + separator + end + "a" + separator + "b" + end + "1" + separator + "2" + end;
        for (const std::size_t step : {1u, 3u, 100u}) {
          const auto table = parse_in_steps(text, step);
          ASSERT_TRUE(table) << table.error().text();
          EXPECT_EQ(table->names, (std::vector<std::string>{"a", "b"})) << text;
          EXPECT_EQ(table->rows, (Rows{{"1", "2"}})) << text;
          EXPECT_EQ(table->lines, (std::vector<std::size_t>{3}));
          EXPECT_EQ(table->separator, separator);
        }
      }
  // An option counts for more, and a column may be called so.
  EXPECT_EQ(parse("sep=,\n1,5;2\n", {.separator = ';'})->rows, (Rows{{"1,5", "2"}}));
  EXPECT_EQ(parse("sep=,\n1;5,2;5\n", {.header = CsvHeader::absent})->rows, (Rows{{"1;5", "2;5"}}));
  EXPECT_EQ(parse("sep=:,b\n1,2\n")->names, (std::vector<std::string>{"sep=:", "b"}));
  EXPECT_EQ(parse("sep=;x\n1;2\n")->names, (std::vector<std::string>{"sep=", "x"}));
  EXPECT_TRUE(parse("sep=;")->rows.empty());
}

TEST(Csv, TakesAMarkAndBlankLinesAtTheEnd) {
  const std::string mark = "\xEF\xBB\xBF";
  EXPECT_EQ(parse(mark + "a,b\n1,2\n")->names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(parse(mark + "1,2\n")->rows, (Rows{{"1", "2"}}));
  EXPECT_EQ(parse(mark + "\"a\",b\n1,2\n")->names, (std::vector<std::string>{"a", "b"}));
  for (const char* end : {"", "\n", "\n\n", "\r\n\r\n", "\n \t\n\n"})
    EXPECT_EQ(parse(std::string("1,2") + end)->rows, (Rows{{"1", "2"}})) << end;
}

TEST(Csv, KnowsOtherFormatsInPieces) {
  for (const std::string text : {"\xEF\xBB\xBF"
                                 "ENTITY 1",
                                 "ENTITY", "\xEF\xBB\xBF \n\n  {\"chain\": []}", "\n\t ["}) {
    const auto whole = parse(text);
    ASSERT_FALSE(whole) << text;
    for (std::size_t step = 1; step <= text.size(); ++step) {
      const auto parts = parse_in_steps(text, step);
      ASSERT_FALSE(parts) << text << " by " << step;
      EXPECT_EQ(parts.error().text(), whole.error().text()) << step;
    }
  }
}

TEST(Csv, ReadsTheSameInPieces) {
  const std::string text =
      "\xEF\xBB\xBF"
      "a;b\r\n1;\"x\"\"y\r\n;z\"\r\n\"\"; 2 \r\n3;4\r\n\r\n";
  const auto whole = parse(text);
  ASSERT_TRUE(whole) << whole.error().text();
  EXPECT_EQ(whole->rows.size(), 3u);
  for (std::size_t step = 1; step <= text.size(); ++step) {
    const auto parts = parse_in_steps(text, step);
    ASSERT_TRUE(parts) << parts.error().text();
    EXPECT_EQ(parts->rows, whole->rows) << step;
    EXPECT_EQ(parts->lines, whole->lines) << step;
    EXPECT_EQ(parts->names, whole->names) << step;
  }
  std::string many;
  for (int i = 0; i < 40000; ++i) many += std::to_string(i) + ",\"" + std::to_string(i * 7) + "\"\n";
  EXPECT_EQ(parse_in_steps(many, 4093)->rows, parse(many)->rows);
}

// Whoever writes line by line is answered line by line.
TEST(Csv, GivesARecordOutAsSoonAsItsLineHasEnded) {
  int calls = 0;
  auto reader = *CsvReader::open(
      [&](std::span<char> buffer) -> Result<std::size_t> {
        const std::string line = std::to_string(++calls) + ",5\n";
        std::copy(line.begin(), line.end(), buffer.data());
        return line.size();
      },
      "t");
  for (int i = 1; i <= 5; ++i) {
    ASSERT_TRUE(*reader.next());
    EXPECT_EQ(reader.fields()[0].text, std::to_string(i));
    EXPECT_EQ(calls, i);
  }
}

TEST(Csv, RoundsEachNumberToTheNearestFloat) {
  // 16777217 = 2^24 + 1 is a tie (to even, down); 2^24 + 3 is a tie (to even, up).
  const std::vector<std::pair<std::string, float>> numbers{
      {"16777217", 16777216},
      {"16777219", 16777220},
      {"3.4028235e38", FLT_MAX},
      {"3.40282356e38", FLT_MAX},
      {"1e-45", 0x1p-149f},
      {"7e-46", 0},
      {"1e-46", 0},
      {"-1e-60", -0.0f},
      {"1e-9999", 0},
      {"0e999", 0},
      {"0." + std::string(500, '0') + "1", 0},
      {"1" + std::string(50, '0') + "e-50", 1},
      {"+2.5", 2.5f},
      {"+.5", 0.5f},
      {"-12", -12},
      {"5.", 5},
      // Rounded to a double first this would be a tie and go down: 1 + 2^-24 + 2^-60.
      {"1.00000005960464477626", 0x1.000002p0f}};
  for (const auto& [text, value] : numbers) {
    EXPECT_EQ(number(text).kind, CsvNumber::Kind::number) << text;
    EXPECT_EQ(number(text).value, value) << text;
    EXPECT_EQ(std::signbit(number(text).value), std::signbit(value)) << text;
  }
}

TEST(Csv, TellsNumbersFromMissingValuesAndText) {
  for (const char* text : {"", "NA", "na", "N/A", "NaN", "nan", "null", "NULL", "?"})
    EXPECT_EQ(number(text).kind, CsvNumber::Kind::missing) << text;
  EXPECT_EQ(csv_number({"NA", true}).kind, CsvNumber::Kind::text);
  EXPECT_EQ(csv_number({"", true}).kind, CsvNumber::Kind::missing);
  EXPECT_EQ(csv_number({"1.5", true}).kind, CsvNumber::Kind::number);
  for (const char* text :
       {"x", "4x", "0x1p3", "1.2.3", "--2", "+-2", "++2", "2e", "inf", "-inf", "1,5", "1 2", "naan", "??", "-"})
    EXPECT_EQ(number(text).kind, CsvNumber::Kind::text) << text;
  for (const std::string& text : {std::string("3.5e38"), std::string("-1e999"), std::string("1e99999999999999999999"),
                                  std::string(400, '9'), std::string("0.0001e9999")})
    EXPECT_EQ(number(text).kind, CsvNumber::Kind::too_large) << text;
}

TEST(Csv, WritesFieldsThatReadBackEqual) {
  EXPECT_EQ(csv_field("setosa"), "setosa");
  EXPECT_EQ(csv_field("a;b"), "a;b");
  for (const char* text : {"a,b", "say \"x\"", "two\nlines", " blank ", "\"", "", "plain"}) {
    const auto table = parse("7," + csv_field(text) + ",7\n");
    ASSERT_TRUE(table) << table.error().text();
    const std::string& field = table->rows.at(0).at(1);
    EXPECT_EQ(field.substr(field.starts_with('\'') ? 1 : 0), text);
  }
}

TEST(Csv, DoesNotListenToTheLocale) {
  if (!std::setlocale(LC_ALL, "de_DE.UTF-8")) GTEST_SKIP() << "no German locale on this machine";
  const float value = number("1.25").value;
  std::setlocale(LC_ALL, "C");
  EXPECT_EQ(value, 1.25f);
}

struct Malformed {
  const char* what;
  std::string text;
  Errc code;
  const char* error;
};

TEST(Csv, RefusesMalformedTablesAndNamesTheLine) {
  const std::vector<Malformed> table{
      {"one field less", "1,2\n3\n", Errc::parse_failed, "t:2: 1 field, expected 2"},
      {"one field more", "1,2\n3,4\n5,6,7\n", Errc::parse_failed, "t:3: 3 fields, expected 2"},
      {"empty line", "1\n\n2\n", Errc::parse_failed, "t:2: an empty line inside the table"},
      {"comma at the end", "1,2\n1,2,\n", Errc::parse_failed, "t:2: 3 fields"},
      {"other separator", "1,2\n1;2\n", Errc::parse_failed, "t:2: 1 field, expected 2"},
      {"open quote", "1,2\n3,\"4\n5,6\n", Errc::parse_failed, "t:2: field 2: a quote is not closed"},
      {"open doubled quote", "1,2\n3,\"4\"\"", Errc::parse_failed, "t:2: field 2: a quote is not closed"},
      {"text after a quote", "1,2\n3,\"4\"5\n", Errc::parse_failed, "t:2: field 2: \"5\" after the closing quote"},
      {"quote inside", "1,2\n3,4\"5\"\n", Errc::parse_failed, "t:2: field 2: \"4\"5\"\" has a quote inside"},
      {"old Mac lines", "a\rb\r", Errc::parse_failed, "t:1: lines end with a carriage return alone"},
      {"duplicate names", "a,b,a\n1,2,3\n", Errc::duplicate_name, "t:1: column \"a\" is there twice"},
      {"header not UTF-8", "a,\xFF\n1,2\n", Errc::parse_failed, "t:1: \"\\xff\" cannot name a column"},
      {"binary", std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16), Errc::parse_failed, "t:1: "},
  };
  for (const Malformed& entry : table) {
    for (const auto& result : {parse(entry.text), parse_in_steps(entry.text, 3)}) {
      ASSERT_FALSE(result) << entry.what;
      EXPECT_EQ(name(result.error().code()), name(entry.code)) << entry.what << ": " << result.error().text();
      EXPECT_EQ(result.error().text().substr(0, std::string(entry.error).size()), entry.error) << entry.what;
    }
  }
  for (const char* text : {"", "\n", "\xEF\xBB\xBF", "a,b\n"}) EXPECT_TRUE(parse(text)->rows.empty()) << text;
}

TEST(Csv, KeepsItsLimits) {
  EXPECT_EQ(parse("1,2,3\n", {.max_columns = 2}).error().code(), Errc::too_large);
  const std::string open = "1,2\n3,\"" + std::string(5000, 'x') + "\n" + std::string(5000, 'y');
  EXPECT_EQ(parse(open, {.max_record = 1000}).error().text(),
            "t:2: a record of more than 1000 bytes; is a quote not closed?");
  EXPECT_EQ(parse_in_steps(std::string(1 << 20, 'x'), 4096, {.max_record = 1000}).error().code(), Errc::too_large);
  EXPECT_EQ(parse_in_steps("\x1F\x8B\x08 packed", 100).error().code(), Errc::unsupported);
}

Result<std::string> unpack(const std::string& packed, std::size_t max_bytes = std::size_t{1} << 30) {
  return gunzip(as_bytes(packed), max_bytes, "t");
}

TEST(Gzip, UnpacksSeveralMembers) {
  EXPECT_EQ(*unpack(gzip("1,2\n") + gzip("3,4\n")), "1,2\n3,4\n");
  std::string many;
  for (int i = 0; i < 100000; ++i) many += std::to_string(i) + "\n";
  EXPECT_EQ(*unpack(gzip(many)), many);
}

TEST(Gzip, RefusesWhatIsCutDamagedOrFollowed) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += std::to_string(i * 7919 % 1000) + "\n";
  const std::string packed = gzip(text);
  for (std::size_t size = 2; size < packed.size(); ++size) {
    const auto cut = unpack(packed.substr(0, size));
    ASSERT_FALSE(cut) << size;
    EXPECT_EQ(cut.error().code(), Errc::corrupt) << size;
  }
  const auto whole = unpack(packed);
  ASSERT_TRUE(whole);
  for (std::size_t bit = 0; bit < 8 * packed.size(); ++bit) {
    std::string flipped = packed;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    // Header fields that say nothing of the content (time, system, level, text hint) may change; the content may not.
    const auto result = unpack(flipped);
    ASSERT_TRUE(!result || *result == *whole) << bit;
  }
  EXPECT_EQ(unpack(packed + "x").error().text(), "t: bytes after the end of the gzip data");
}

TEST(Gzip, StopsADecompressionBomb) {
  const std::string bomb = gzip(std::string(50'000'000, '1'));
  EXPECT_LT(bomb.size(), 100'000u);
  const auto result = unpack(bomb, 1'000'000);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().text(), "t: unpacks to more than 1000000 bytes");
  const std::string exact(100'000, '7');
  EXPECT_EQ(*gunzip(as_bytes(gzip(exact)), exact.size(), "t"), exact);
  EXPECT_EQ(gunzip(as_bytes(gzip(exact)), exact.size() - 1, "t").error().code(), Errc::too_large);
  EXPECT_TRUE(gunzip(as_bytes(gzip("")), 0, "t")->empty());
  EXPECT_EQ(*gunzip(as_bytes(gzip(exact)), SIZE_MAX, "t"), exact);
}

}  // namespace
}  // namespace weft::formats::csv_test
