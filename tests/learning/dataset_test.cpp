// SPDX-License-Identifier: Apache-2.0

#include "learning/dataset.hpp"

#include "learning/column_statistics.hpp"
#include "learning/split.hpp"

#include <gtest/gtest.h>

#include "tests/support/memory_file_system.hpp"
#include "tests/support/source_path.hpp"
#include <cmath>
#include <map>
#include <set>

namespace weft::learning::dataset_test {
namespace {

Result<Dataset> read(std::string_view text, const TableOptions& options = {}, const LabelBounds& bounds = {}) {
  storage::MemoryFileSystem files;
  auto file = *files.open("t", storage::OpenMode::create);
  EXPECT_TRUE(file->write(as_bytes(text)));
  EXPECT_TRUE(file->close());
  return read_dataset(files, "t", options, bounds);
}

using Labels = std::vector<std::uint32_t>;
using Names = std::vector<std::string>;
using Values = std::vector<float>;

// Figures computed from sklearn.datasets.load_digits() (scikit-learn 1.2.1) by numpy.
TEST(Dataset, ReadsSklearnsDigitsInSklearnsOrder) {
  const auto data = read_dataset(storage::real_file_system(), source_path("examples/data/digits.csv.gz"), {});
  ASSERT_TRUE(data) << data.error().text();
  ASSERT_EQ(data->size, 1797u);
  ASSERT_EQ(data->features, 64u);
  double sum = 0, by_column = 0, by_row = 0, labels_by_row = 0;
  for (std::size_t i = 0; i < data->size; ++i) {
    double row_sum = 0;
    for (std::size_t j = 0; j < 64; ++j) {
      const float value = data->row(i)[j];
      ASSERT_TRUE(value >= 0 && value <= 16 && value == std::floor(value));
      row_sum += value;
      by_column += value * static_cast<double>(j + 1);
    }
    sum += row_sum;
    by_row += row_sum * static_cast<double>(i);
    labels_by_row += data->labels[i] * static_cast<double>(i);
  }
  EXPECT_EQ(sum, 561718.0);
  EXPECT_EQ(by_column, 18222371.0);
  EXPECT_EQ(by_row, 503342547.0);
  EXPECT_EQ(labels_by_row, 7264791.0);
  EXPECT_TRUE(data->class_names.empty());
}

// Each of these was refused by the first reader, one habit at a time.
TEST(Dataset, ReadsTablesAsPeopleHaveThem) {
  struct Habit {
    const char* what;
    std::string text;
    TableOptions options;
    Names classes;
  };
  const Names kinds{"setosa", "virginica"};
  for (const Habit& habit : std::vector<Habit>{
           {"text labels", "1,2,virginica\n3,4,setosa\n", {}, kinds},
           {"a header", "a,b,kind\n1,2,virginica\n3,4,setosa\n", {}, kinds},
           {"quotes", "\"a\",\"b\",\"kind\"\n1,2,\"virginica\"\n3,4,\"setosa\"\n", {}, kinds},
           {"semicolons", "a;b;kind\n1;2;virginica\n3;4;setosa\n", {}, kinds},
           {"tabs", "1\t2\tvirginica\n3\t4\tsetosa\n", {}, kinds},
           {"blanks", "1, 2, virginica\n 3 ,4,setosa \n", {}, kinds},
           {"a mark, CRLF, a blank line at the end",
            "\xEF\xBB\xBF"
            "1,2,virginica\r\n3,4,setosa\r\n\r\n",
            {},
            kinds},
           {"the label first", "virginica,1,2\nsetosa,3,4\n", {.label = "first"}, kinds},
           {"the label by name", "a,kind,b\n1,virginica,2\n3,setosa,4\n", {.label = "kind"}, kinds},
           {"the label by number", "1,virginica,2\n3,setosa,4\n", {.label = "2"}, kinds},
           {"an id", "id,a,b,kind\n17,1,2,virginica\n18,3,4,setosa\n", {.skip = {"id"}}, kinds},
           {"an id by number, and a remark", "17,1,2,virginica,ok\n18,3,4,setosa,no\n", {.skip = {"1", "last"}}, kinds},
           {"plus signs", "+1,2,virginica\n3,+4,setosa\n", {}, kinds},
           {"labels from 1", "1,2,2\n3,4,1\n", {}, {"1", "2"}},
           {"labels as data frames write them", "1,2,2.0\n3,4,1.0\n", {}, {"1", "2"}},
           {"negative labels", "1,2,1\n3,4,-1\n", {}, {"-1", "1"}},
           {"labels apart", "1,2,100\n3,4,20\n", {}, {"20", "100"}},
           {"rows with missing values dropped",
            "NA,2,setosa\n1,2,virginica\n3,4,setosa\n3,4,\n",
            {.missing = Missing::drop},
            kinds},
       }) {
    const auto data = read(habit.text, habit.options, {.width = 2});
    ASSERT_TRUE(data) << habit.what << ": " << data.error().text();
    EXPECT_EQ(data->inputs, (Values{1, 2, 3, 4})) << habit.what;
    EXPECT_EQ(data->labels, (Labels{1, 0})) << habit.what;
    EXPECT_EQ(data->class_names, habit.classes) << habit.what;
    EXPECT_EQ(data->classes, 2u) << habit.what;
  }
}

TEST(Dataset, KeepsLabelsThatAreNumbersOfClasses) {
  const auto data = read("5,2\n6,0\n", {}, {.width = 3});
  EXPECT_EQ(data->labels, (Labels{2, 0}));
  EXPECT_EQ(data->classes, 3u);
  EXPECT_TRUE(data->class_names.empty());
  // Beyond the output's width they are names of numbers.
  EXPECT_EQ(read("5,3\n6,1\n", {}, {.width = 3})->class_names, (Names{"1", "3"}));
}

TEST(Dataset, KnowsTheClassesThatAModelKnows) {
  const TableOptions model{.classes = {"b", "a", "7"}};
  EXPECT_EQ(read("1,a\n2,b\n", model)->labels, (Labels{1, 0}));
  EXPECT_EQ(read("1,7.0\n", model)->labels, (Labels{2}));
  EXPECT_EQ(read("1,a\n", model)->classes, 3u);
  EXPECT_EQ(read("x,y\n1,a\n2,c\n", model).error().text(),
            "t:3: label \"c\" is none of the classes that the model knows: \"b\", \"a\", \"7\"");
  EXPECT_EQ(read("1,1\n2,3\n", {}, {.width = 3, .may_number = false}).error().text(),
            "t:2: label \"3\" is no class of the model, which knows them by number, 0 to 2");
}

TEST(Dataset, FillsOrRefusesMissingValues) {
  const std::string text = "a,b,kind\n1,NaN,x\n3,4,y\n?,8,x\n";
  EXPECT_EQ(read(text).error().text(),
            "t:2: column 2 'b': no value; --missing drop leaves such rows out, mean or zero fills them");
  EXPECT_EQ(read("1,2,\n").error().text(), "t:1: column 3: no label; --missing drop leaves such rows out");
  EXPECT_EQ(read("1,2,\n", {.missing = Missing::mean}).error().code(), Errc::parse_failed);
  EXPECT_EQ(read("a,b,c\n1,2,\n", {.labels = {"b", "c"}}).error().text(),
            "t:2: column 3 'c': no label; --missing drop leaves such rows out, zero takes the row's other labels");
  EXPECT_EQ(read("NA,x\n", {.missing = Missing::drop}).error().text(), "t: no rows left; 1 were dropped");
  const auto zero = read(text, {.missing = Missing::zero});
  EXPECT_EQ(zero->inputs, (Values{1, 0, 3, 4, 0, 8}));
  EXPECT_EQ(zero->missing, 2u);
  EXPECT_EQ(read(text, {.missing = Missing::mean, .fill = {10, 20}})->inputs, (Values{1, 20, 3, 4, 10, 8}));
  auto mean = *read(text, {.missing = Missing::mean, .scale = 2});
  EXPECT_TRUE(std::isnan(mean.inputs[1]));
  // Means of rows 1 and 2 alone; by hand: a (3) * 2, b (4 + 8) / 2 * 2.
  std::vector<float> fill;
  const Labels train{2, 1};
  ASSERT_TRUE(fill_missing(mean, train, fill));
  EXPECT_EQ(fill, (Values{6, 12}));
  EXPECT_EQ(mean.inputs, (Values{2, 12, 6, 8, 6, 16}));
  auto hopeless = *read("a,b\nNA,x\n3,y\n", {.missing = Missing::mean});
  fill.clear();
  EXPECT_EQ(fill_missing(hopeless, Labels{0}, fill).error().text(),
            "value 1 'a': missing in every row that is learned from, so there is no mean to fill it with; leave the "
            "column out with --skip");
}

TEST(Dataset, ReadsValuesToLearn) {
  const auto data = read("a,price,b,area\n1,10.5,2,-3\n4,1e3,5,0\n", {.targets = {"area", "price"}});
  ASSERT_TRUE(data) << data.error().text();
  EXPECT_EQ(data->targets, 2u);
  EXPECT_EQ(data->inputs, (Values{1, 2, 4, 5}));
  EXPECT_EQ(data->values, (Values{-3, 10.5f, 0, 1000}));
  EXPECT_EQ(data->target_names, (Names{"area", "price"}));
  EXPECT_TRUE(data->labels.empty());
  const ColumnStatistics statistics = target_statistics(*data, Labels{0, 1});
  EXPECT_DOUBLE_EQ(statistics.mean[1], 505.25);
  EXPECT_DOUBLE_EQ(statistics.deviation[0], 1.5);
  // Neither NaN nor an empty field is learned; `drop` leaves the row out, and nothing fills a target.
  for (const char* const text : {"a,y\n1,2\n1,nan\n", "a,y\n1,2\n1,\n"}) {
    for (const Missing missing : {Missing::refuse, Missing::mean, Missing::zero})
      EXPECT_EQ(read(text, {.targets = {"y"}, .missing = missing}).error().text(),
                "t:3: column 2 'y': no value; --missing drop leaves such rows out");
    EXPECT_EQ(read(text, {.targets = {"y"}, .missing = Missing::drop})->values, (Values{2}));
  }
}

// A file in memory, as the sizes and bytes of an IDX file say.
void put(storage::FileSystem& files, const std::string& path, const std::string& text) {
  auto file = *files.open(path, storage::OpenMode::create);
  EXPECT_TRUE(file->write(as_bytes(text)));
  EXPECT_TRUE(file->close());
}

TEST(Dataset, ReadsIdxFilesWithTheirLabelsBeside) {
  using namespace std::string_literals;
  storage::MemoryFileSystem files;
  put(files, "train-images-idx3", "\0\0\x08\3\0\0\0\3\0\0\0\1\0\0\0\2\0\x04\x08\x0C\x10\x14"s);
  put(files, "train-labels-idx1", "\0\0\x08\1\0\0\0\3\2\0\1"s);
  const auto data = read_dataset(files, "train-images-idx3", {.scale = 0.25f}, {.width = 3});
  ASSERT_TRUE(data) << data.error().text();
  EXPECT_EQ(data->features, 2u);
  EXPECT_EQ(data->inputs, (Values{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(data->labels, (Labels{2, 0, 1}));
  EXPECT_EQ(data->classes, 3u);
  EXPECT_TRUE(data->has_pixels);
  ASSERT_EQ(data->files.size(), 2u);
  EXPECT_EQ(data->files[0].path, "train-images-idx3");
  EXPECT_EQ(data->files[1].path, "train-labels-idx1");
  EXPECT_EQ(data->files[1].hash, hash_bytes("\0\0\x08\1\0\0\0\3\2\0\1", 11));
  const auto refused = [&](const std::string& labels, const TableOptions& options, const std::string& error) {
    put(files, "train-labels-idx1", labels);
    const auto bad = read_dataset(files, "train-images-idx3", options, {.width = 3});
    ASSERT_FALSE(bad) << error;
    EXPECT_NE(bad.error().text().find(error), std::string::npos) << bad.error().text();
  };
  refused("\0\0\x08\1\0\0\0\2\2\0"s, {}, "train-labels-idx1: 2 labels of 1 values; train-images-idx3 has 3 samples");
  refused("\0\0\x08\1\0\0\0\3\2\0\3"s, {}, "label 2: 3.000000; the network's output has 3 values");
  refused("\0\0\x08\1\0\0\0\3\2\0"s, {}, "train-labels-idx1: 10 bytes, its sizes say 11; it is cut short");
  refused("x", {}, "does not begin as an IDX file");
  const std::string two = "\0\0\x08\2\0\0\0\3\0\0\0\2\2\0\0\0\1\0"s;
  refused(two, {.labels = {"1", "size"}}, "train-labels-idx1: no column 'size' of labels; they have no names and are");
  put(files, "train-labels-idx1", two);
  EXPECT_EQ(read_dataset(files, "train-images-idx3", {.labels = {"2", "1"}}, {.heads = {3, 3}})->labels,
            (Labels{0, 2, 0, 0, 0, 1}));
  EXPECT_EQ(read_dataset(files, "train-images-idx3", {.targets = {"1"}})->values, (Values{2, 0, 1}));
  put(files, "pictures", "\0\0\x08\1\0\0\0\1\1"s);
  EXPECT_NE(read_dataset(files, "pictures", {}).error().text().find("has \"images\" in its name"), std::string::npos);
}

TEST(Dataset, HoldsOutTheRowsOfFilesOfTheirOwn) {
  Dataset data = *read("1,0\n2,1\n3,0\n4,1\n");
  ASSERT_TRUE(append_part(data, *read("5,1\n"), Part::validation, "v"));
  Dataset without_test = data;
  ASSERT_TRUE(append_part(data, *read("6,0\n7,2\n"), Part::test, "t"));
  EXPECT_EQ(data.size, 7u);
  EXPECT_EQ(data.classes, 3u);
  const Split split = split_rows(data, 0.5, true, 0);
  EXPECT_EQ(split.validation, Labels{4});
  EXPECT_EQ(split.held_out, (Labels{5, 6}));
  EXPECT_EQ(std::set<std::uint32_t>(split.train.begin(), split.train.end()), (std::set<std::uint32_t>{0, 1, 2, 3}));
  // Without a test file the share is that of the rows to learn from.
  const Split shared = split_rows(without_test, 0.5, true, 0);
  EXPECT_EQ(shared.held_out.size(), 2u);
  EXPECT_EQ(shared.train.size(), 2u);
  EXPECT_LT(shared.held_out[0], 4u);
  EXPECT_EQ(append_part(data, *read("1,2,0\n"), Part::test, "t").error().text(),
            "t: 2 values a sample; the samples to learn from have 1");
}

TEST(Dataset, ReadsSeveralLabels) {
  const std::string table = "colour,a,size\nred,1,3\nblue,2,1\nred,3,1\n";
  const auto heads = read(table, {.labels = {"colour", "size"}}, {.heads = {2, 4}});
  ASSERT_TRUE(heads) << heads.error().text();
  ASSERT_EQ(heads->heads.size(), 2u);
  EXPECT_EQ(heads->heads[0].names, (Names{"blue", "red"}));
  EXPECT_EQ(heads->heads[1].count, 4u);
  EXPECT_TRUE(heads->heads[1].names.empty());
  EXPECT_EQ(heads->labels, (Labels{1, 3, 0, 1, 1, 1}));
  EXPECT_EQ(heads->inputs, (Values{1, 2, 3}));
  // A sequence has one set of classes, and a shorter one no label at its last places.
  const auto places = read("1,2,n,v\n3,,v,\n", {.labels = {"3", "4"}, .missing = Missing::zero});
  ASSERT_TRUE(places) << places.error().text();
  EXPECT_EQ(places->class_names, (Names{"n", "v"}));
  EXPECT_EQ(places->labels, (Labels{0, 1, 1, UINT32_MAX}));
  EXPECT_EQ(places->inputs, (Values{1, 2, 3, 0}));
  EXPECT_FALSE(read("1,2,n,v\n3,4,v,\n", {.labels = {"3", "4"}}));
}

TEST(Dataset, ReadsWeightsThatAreNoFeatures) {
  const std::string table = "a,w,b,kind\n1,0.5,2,x\n3,0,4,y\n";
  const auto data = read(table, {.weight = "w"}, {.width = 2});
  ASSERT_TRUE(data) << data.error().text();
  EXPECT_EQ(data->weights, (Values{0.5f, 0}));
  EXPECT_EQ(data->inputs, (Values{1, 2, 3, 4}));
  EXPECT_EQ(data->names, (Names{"a", "b"}));
  EXPECT_EQ(data->labels, (Labels{0, 1}));
  EXPECT_TRUE(read(table)->weights.empty());
  const auto by_number = read("1,2,0.5,x\n", {.weight = "3"}, {.width = 2});
  EXPECT_EQ(by_number->weights, Values{0.5f});
  // The last column is that of the class, or the one before a last one of weights.
  EXPECT_EQ(read("1,2,x,0.25\n", {.weight = "last"}, {.width = 2})->inputs, (Values{1, 2}));
  for (const auto& lines : {R"({"x":[1,2],"y":"n","weight":0.5}
{"x":[3,4],"y":"n"})",
                            R"({"a":1,"kind":"n","b":2,"weight":0.5}
{"a":3,"weight":1,"b":4,"kind":"n"})"}) {
    const auto json = read(lines, {.label = "kind", .weight = "weight"}, {.width = 2});
    ASSERT_TRUE(json) << json.error().text();
    EXPECT_EQ(json->weights, (Values{0.5f, 1}));
    EXPECT_EQ(json->inputs, (Values{1, 2, 3, 4}));
  }
}

TEST(Dataset, NamesColumnAndLineOfWhatItRefuses) {
  struct Case {
    std::string text;
    TableOptions options;
    std::string error;
  };
  for (const Case& c : std::vector<Case>{
           {"a,b,kind\n1,red,x\n",
            {},
            "t:2: column 2 'b': \"red\" is not a number; leave the column out with --skip, or name it with --label if "
            "it is the class"},
           {"1;2,5;x\n", {}, "t:1: column 2: \"2,5\" is not a number; write decimals with a point"},
           {"1,inf,x\n", {}, "t:1: column 2: \"inf\" is not a number; "},
           {"1,1e39,x\n", {}, "t:1: column 2: \"1e39\" is more than a float can hold"},
           {"1,1e38,x\n", {.scale = 10}, "t:1: column 2: \"1e38\" is more than a float can hold"},
           {"a,b,kind\n1,2,x\n", {.label = "species"}, "t: label: no column 'species'; there are a, b, kind"},
           {"1,2,x\n",
            {.label = "kind"},
            "t: label: no column 'kind'; the table has 3 columns, numbered from 1, and no line of names"},
           {"1,2,x\n", {.label = "4"}, "t: label: no column '4'; the table has 3 columns, numbered from 1"},
           {"1,2,x\n", {.label = "0"}, "t: label: no column '0'"},
           {"a,b,kind\n1,2,x\n", {.skip = {"id"}}, "t: skip: no column 'id'; there are a, b, kind"},
           {"a,b,kind\n1,2,x\n",
            {.label = "kind", .skip = {"kind"}},
            "t: label: column 3 'kind' is one of those left out by skip"},
           {"x\ny\n", {}, "t: 1 column; needed are samples with at least one value and a label"},
           {"1,0.5\n2,1.5\n", {}, "t:1: labels such as 0.5 are values, not classes"},
           {"a,y\n1,2\n1,red\n", {.targets = {"y"}}, "t:3: column 2 'y': \"red\" is not a number, and the network"},
           {"a,y\n1,1e39\n", {.targets = {"y"}}, "t:2: column 2 'y': \"1e39\" is more than a float can hold"},
           {"a,y\n1,inf\n", {.targets = {"y"}}, "t:2: column 2 'y': \"inf\" is not a number, and the network"},
           {"a,y\n1,2\n", {.targets = {"prize"}}, "t: target: no column 'prize'; there are a, y"},
           {"a,y\n1,2\n", {.targets = {"y", "2"}}, "t: target: column 2 'y' is named twice"},
           {"a,y\n1,2\n3\n", {.targets = {"y"}}, "t:3: 1 field, expected 2"},
           {"1,a\n2,b\n3,c\n", {}, "t: 3 classes (\"a\", \"b\", \"c\"); the network's output has 2 values"},
           {"a,w,kind\n1,-1,x\n", {.weight = "w"}, "t:2: column 2 'w': \"-1\"; weights are finite and not below 0"},
           {"a,w,kind\n1,1,x\n2,1e39,x\n", {.weight = "w"}, "t:3: column 2 'w': \"1e39\"; weights are finite"},
           {"a,w,kind\n1,nan,x\n", {.weight = "w"}, "t:2: column 2 'w': no weight"},
           {"a,w,kind\n1,inf,x\n", {.weight = "w"}, "t:2: column 2 'w': \"inf\" is not a number, and samples have"},
           {"a,w,kind\n1,1,x\n", {.weight = "v"}, "t: weight: no column 'v'; there are a, w, kind"},
           {"a,w,kind\n1,1,x\n", {.weight = "w", .skip = {"w"}}, "t: weight: column 2 'w' is one of those left out"},
           {"a,w,kind\n1,1,x\n", {.label = "w", .weight = "w"}, "t: label: column 2 'w' is that of the weights"},
           {"{\"x\":[1],\"y\":\"n\",\"weight\":-1}", {.weight = "weight"}, "t:1: 'weight': -1.000000; weights are"},
           {"{\"x\":[1],\"y\":\"n\",\"weight\":1}", {}, "t:1: 'weight': a sample with a weight, and samples have none"},
           {"", {}, "t: no rows"},
       }) {
    const auto data = read(c.text, c.options, {.width = 2});
    ASSERT_FALSE(data) << c.text;
    EXPECT_EQ(data.error().text().substr(0, c.error.size()), c.error) << data.error().text();
  }
}

TEST(Dataset, PutsNoPartWithOtherHeadsBehindIt) {
  Dataset data = *read("1,x\n2,y\n", {}, {.heads = {2}});
  ASSERT_EQ(data.heads.size(), 1u);
  EXPECT_EQ(append_part(data, *read("3,0\n"), Part::test, "t").error().code(), Errc::shape_mismatch);
  ASSERT_TRUE(append_part(data, *read("3,y\n", {.head_classes = {Names{"x", "y"}}}, {.heads = {2}}), Part::test, "t"));
  EXPECT_EQ(data.size, 3u);
}

}  // namespace
}  // namespace weft::learning::dataset_test
