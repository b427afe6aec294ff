// SPDX-License-Identifier: Apache-2.0

#include "formats/csv/csv.hpp"

#include "formats/csv/gzip.hpp"
#include "storage/file_system.hpp"

#include <gtest/gtest.h>

#include <zlib.h>

#include "tests/support/temporary_directory.hpp"
#include <cfloat>
#include <clocale>
#include <cmath>
#include <fstream>

namespace weft::formats {
namespace {

Result<CsvTable> parse(std::string_view text, const CsvOptions& options = {}) {
  return parse_csv(as_bytes(text), "t", options);
}

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
  EXPECT_EQ(plain->rows, 2u);
  EXPECT_EQ(plain->columns, 3u);
  EXPECT_EQ(plain->values, (std::vector<float>{1, 2.5f, -300, 0.1f, 0.5f, 5}));
  EXPECT_EQ(plain->row(1)[0], 0.1f);
  EXPECT_TRUE(plain->names.empty());

  const auto named = parse("width (cm),label\r\n1,2\r\n3,4");
  ASSERT_TRUE(named) << named.error().text();
  EXPECT_EQ(named->names, (std::vector<std::string>{"width (cm)", "label"}));
  EXPECT_EQ(named->values, (std::vector<float>{1, 2, 3, 4}));

  EXPECT_EQ(parse("1,2\n3,4\n", {.header = CsvHeader::present})->names, (std::vector<std::string>{"1", "2"}));
  EXPECT_FALSE(parse("a,b\n1,2\n", {.header = CsvHeader::absent}));
  EXPECT_EQ(parse("7", {.columns = 1})->values, (std::vector<float>{7}));
}

TEST(Csv, RoundsEachNumberToTheNearestFloat) {
  const auto table = parse("16777217,16777219,3.4028235e38,3.40282356e38,1e-45,7e-46,1e-46,-1e-60,1e-9999,0e999,0." +
                           std::string(500, '0') + "1,1" + std::string(50, '0') + "e-50");
  ASSERT_TRUE(table) << table.error().text();
  // 16777217 = 2^24 + 1 is a tie (to even, down); 2^24 + 3 is a tie (to even, up).
  EXPECT_EQ(table->values,
            (std::vector<float>{16777216, 16777220, FLT_MAX, FLT_MAX, 0x1p-149f, 0, 0, -0.0f, 0, 0, 0, 1}));
  EXPECT_TRUE(std::signbit(table->values[7]));
  // Rounded to a double first this would be a tie and go down: 1 + 2^-24 + 2^-60.
  EXPECT_EQ(parse("1.00000005960464477626")->values[0], 0x1.000002p0f);
}

TEST(Csv, DoesNotListenToTheLocale) {
  if (!std::setlocale(LC_ALL, "de_DE.UTF-8")) GTEST_SKIP() << "no German locale on this machine";
  const auto table = parse("0.5,1.25\n");
  std::setlocale(LC_ALL, "C");
  EXPECT_EQ(table->values, (std::vector<float>{0.5f, 1.25f}));
}

struct Malformed {
  const char* what;
  std::string text;
  Errc code;
  const char* error;
};

TEST(Csv, RefusesMalformedTablesAndNamesTheLine) {
  const std::string nul("1,2\n3,\0", 7);
  const std::vector<Malformed> table{
      {"nothing", "", Errc::parse_failed, "t: no rows"},
      {"only a header", "a,b\n", Errc::parse_failed, "t: no rows"},
      {"one field less", "1,2\n3\n", Errc::parse_failed, "t:2: 1 fields, expected 2"},
      {"one field more", "1,2\n3,4\n5,6,7\n", Errc::parse_failed, "t:3: 3 fields, expected 2"},
      {"empty line", "1\n\n2\n", Errc::parse_failed, "t:2: an empty line"},
      {"empty line at the end", "1\n\n", Errc::parse_failed, "t:2: an empty line"},
      {"empty field", "1,,2\n", Errc::parse_failed, "t:1: field 2: \"\" is not a plain decimal number"},
      {"comma at the end", "1,2\n1,2,\n", Errc::parse_failed, "t:2: 3 fields"},
      {"a word", "1,2\n3,x\n", Errc::parse_failed, "t:2: field 2: \"x\""},
      {"half a header", "a,2\n", Errc::parse_failed, "t:1: field 1: \"a\""},
      {"number and more", "1,2\n3,4x\n", Errc::parse_failed, "t:2: field 2: \"4x\""},
      {"space", "1, 2\n", Errc::parse_failed, "t:1: field 2: \" 2\""},
      {"tab", "1,2\t\n", Errc::parse_failed, "t:1: field 2: \"2\\x09\""},
      {"quotes", "\"1\",2\n", Errc::parse_failed, "t:1: field 1"},
      {"quoted header", "\"a\",\"b\"\n1,2\n", Errc::parse_failed, "t:1: \"\"a\"\" cannot name a column"},
      {"semicolons", "1\n1;2\n", Errc::parse_failed, "t:2: field 1: \"1;2\""},
      {"decimal comma", "1\n1,5\n", Errc::parse_failed, "t:2: 2 fields"},
      {"NaN", "1,nan\n", Errc::parse_failed, "t:1: field 2: \"nan\""},
      {"Infinity", "1,-inf\n", Errc::parse_failed, "t:1: field 2: \"-inf\""},
      {"hexadecimal", "1,0x1p3\n", Errc::parse_failed, "t:1: field 2"},
      {"plus", "1,+2\n", Errc::parse_failed, "t:1: field 2"},
      {"two points", "1,1.2.3\n", Errc::parse_failed, "t:1: field 2"},
      {"two signs", "1,--2\n", Errc::parse_failed, "t:1: field 2"},
      {"cut exponent", "1,2e\n", Errc::parse_failed, "t:1: field 2"},
      {"overflow", "1\n3.5e38\n", Errc::out_of_range, "t:2: field 1: \"3.5e38\" is more than a float can hold"},
      {"overflow past double", "1\n-1e999\n", Errc::out_of_range, "t:2: field 1"},
      {"overflow past int64", "1\n1e99999999999999999999\n", Errc::out_of_range, "t:2: field 1"},
      {"overflow by digits", "1\n" + std::string(400, '9') + "\n", Errc::out_of_range, "t:2: field 1"},
      {"overflow by digits and exponent", "1\n0.0001e9999\n", Errc::out_of_range, "t:2: field 1"},
      {"NUL", nul, Errc::parse_failed, "t:2: field 2: \"\\x00\""},
      {"byte order mark",
       "\xEF\xBB\xBF"
       "1,2\n",
       Errc::parse_failed, "t:1: field 1"},
      {"old Mac lines", "1\r2\r", Errc::parse_failed, "t:1: \"1\\x0d2\" cannot name a column"},
      {"duplicate names", "a,b,a\n1,2,3\n", Errc::duplicate_name, "t:1: column \"a\" is there twice"},
      {"header not UTF-8", "a,\xFF\n1,2\n", Errc::parse_failed, "t:1: \"\\xff\" cannot name a column"},
      {"binary", std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16), Errc::parse_failed, "t:1: "},
  };
  for (const Malformed& entry : table) {
    const auto result = parse(entry.text);
    ASSERT_FALSE(result) << entry.what;
    EXPECT_EQ(name(result.error().code()), name(entry.code)) << entry.what << ": " << result.error().text();
    EXPECT_EQ(result.error().text().substr(0, std::string(entry.error).size()), entry.error) << entry.what;
  }
}

TEST(Csv, KeepsItsLimits) {
  EXPECT_EQ(parse("1,2,3\n", {.max_columns = 2}).error().code(), Errc::too_large);
  EXPECT_EQ(parse("1,2\n3,4\n5,6\n", {.max_values = 5}).error().text(), "t:3: more than 5 values");
  EXPECT_TRUE(parse("1,2\n3,4\n", {.max_values = 4}));
  EXPECT_EQ(parse("1,2\n", {.max_bytes = 3}).error().code(), Errc::too_large);
  EXPECT_EQ(parse("1,2\n", {.columns = 3}).error().text(), "t:1: 2 fields, expected 3");
  EXPECT_EQ(parse("a,b\n1,2\n", {.columns = 3}).error().text(), "t:1: 2 column names, expected 3");
}

TEST(Csv, UnpacksGzipOfSeveralMembers) {
  const auto table = parse(gzip("1,2\n") + gzip("3,4\n"));
  ASSERT_TRUE(table) << table.error().text();
  EXPECT_EQ(table->values, (std::vector<float>{1, 2, 3, 4}));
  std::string many;
  for (int i = 0; i < 100000; ++i) many += std::to_string(i) + "\n";
  EXPECT_EQ(parse(gzip(many))->values.back(), 99999.0f);
}

TEST(Csv, RefusesGzipCutDamagedOrFollowed) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += std::to_string(i * 7919 % 1000) + "\n";
  const std::string packed = gzip(text);
  for (std::size_t size = 2; size < packed.size(); ++size) {
    const auto cut = parse(packed.substr(0, size));
    ASSERT_FALSE(cut) << size;
    EXPECT_EQ(cut.error().code(), Errc::corrupt) << size;
  }
  const auto whole = parse(packed);
  ASSERT_TRUE(whole);
  for (std::size_t bit = 0; bit < 8 * packed.size(); ++bit) {
    std::string flipped = packed;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    // Header fields that say nothing of the content (time, system, level, text hint) may change; the content may not.
    const auto result = parse(flipped);
    ASSERT_TRUE(!result || result->values == whole->values) << bit;
  }
  EXPECT_EQ(parse(packed + "x").error().text(), "t: bytes after the end of the gzip data");
}

TEST(Csv, StopsADecompressionBomb) {
  const std::string bomb = gzip(std::string(50'000'000, '1'));
  EXPECT_LT(bomb.size(), 100'000u);
  const auto result = parse(bomb, {.max_bytes = 1'000'000});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().text(), "t: unpacks to more than 1000000 bytes");
  const std::string exact(100'000, '7');
  EXPECT_EQ(*gunzip(as_bytes(gzip(exact)), exact.size(), "t"), exact);
  EXPECT_EQ(gunzip(as_bytes(gzip(exact)), exact.size() - 1, "t").error().code(), Errc::too_large);
  EXPECT_TRUE(gunzip(as_bytes(gzip("")), 0, "t")->empty());
  EXPECT_EQ(*gunzip(as_bytes(gzip(exact)), SIZE_MAX, "t"), exact);
}

TEST(Csv, ReadsFilesAndNamesThem) {
  const storage::TemporaryDirectory directory;
  const std::string path = directory.path() + "/x.csv";
  std::ofstream(path) << "1,2\n3,oops\n";
  EXPECT_EQ(read_csv(storage::real_file_system(), path).error().text(),
            path + ":2: field 2: \"oops\" is not a plain decimal number");
  EXPECT_EQ(read_csv(storage::real_file_system(), path + "x").error().code(), Errc::not_found);
}

// Figures computed from sklearn.datasets.load_digits() (scikit-learn 1.2.1) by numpy.
TEST(Digits, AreSklearnsInSklearnsOrder) {
  const auto table =
      read_csv(storage::real_file_system(), std::string(WEFT_SOURCE_DIR) + "/examples/data/digits.csv.gz");
  ASSERT_TRUE(table) << table.error().text();
  ASSERT_EQ(table->rows, 1797u);
  ASSERT_EQ(table->columns, 65u);
  double sum = 0, by_column = 0, by_row = 0, labels_by_row = 0;
  std::vector<int> classes(10);
  for (std::size_t i = 0; i < table->rows; ++i) {
    const auto row = table->row(i);
    double row_sum = 0;
    for (std::size_t j = 0; j < 64; ++j) {
      ASSERT_TRUE(row[j] >= 0 && row[j] <= 16 && row[j] == std::floor(row[j]));
      row_sum += row[j];
      by_column += row[j] * static_cast<double>(j + 1);
    }
    sum += row_sum;
    by_row += row_sum * static_cast<double>(i);
    ++classes.at(static_cast<std::size_t>(row[64]));
    labels_by_row += row[64] * static_cast<double>(i);
  }
  EXPECT_EQ(sum, 561718.0);
  EXPECT_EQ(by_column, 18222371.0);
  EXPECT_EQ(by_row, 503342547.0);
  EXPECT_EQ(labels_by_row, 7264791.0);
  EXPECT_EQ(classes, (std::vector<int>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}));
}

}  // namespace
}  // namespace weft::formats
