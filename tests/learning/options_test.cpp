// SPDX-License-Identifier: Apache-2.0

#include "learning/options.hpp"

#include "learning/stream_options.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::learning::options_test {
namespace {

// Texts that files and checkpoints hold: written by the program before options were rows.
TEST(Options, AreWrittenAsTheyWere) {
  EXPECT_EQ(write_learning({}),
            R"({"feedback_scale":0.0,"hold":0,"horizon":0,"learners":1,"loss":"cross_entropy","optimizer":)"
            R"({"beta1":0.8999999761581421,"beta2":0.9990000128746033,"dampening":0.8999999761581421,)"
            R"("epsilon":9.99999993922529e-09,"lr":0.0,"momentum":0.8999999761581421,"nesterov":false,)"
            R"("type":"momentum","weight_decay":0.0},"output_step":0.0,"rule":"backprop","schedule":"settle"})");
  StreamOptions stream;
  stream.csv = "x.csv";
  EXPECT_EQ(write_stream(stream),
            R"({"csv":"x.csv","epochs":1,"held_out":0.2,"input":"","max_samples":0,"output":"","scale":1.0,)"
            R"("seed":0,"window":200})");
  stream.drift_at = 0.75;  // of a drift that there is not
  EXPECT_EQ(write_stream(stream).find("drift"), std::string::npos);
  stream.drift = Drift::pixels;
  stream.table.separator = '\t';
  stream.table.skip = {"id", "2"};
  stream.split_seed = 3;
  stream.stratified = true;
  EXPECT_EQ(write_stream(stream),
            R"({"csv":"x.csv","drift":{"at":0.75,"kind":"pixels","share":1.0},"epochs":1,"held_out":0.2,"input":"",)"
            R"("max_samples":0,"output":"","scale":1.0,"seed":0,"separator":"tab","skip":["id","2"],)"
            R"("split_seed":3,"stratified":true,"window":200})");
}

TEST(Options, DampeningIsMomentumUnlessItIsGiven) {
  const auto follows = read_learning(R"({"optimizer": {"momentum": 0.5}})");
  const auto given = read_learning(R"({"optimizer": {"momentum": 0.5, "dampening": 0.25}})");
  ASSERT_TRUE(follows && given);
  EXPECT_EQ(follows->optimizer.dampening, 0.5f);
  EXPECT_EQ(given->optimizer.dampening, 0.25f);
}

TEST(Options, ReadBackEqual) {
  LearningOptions options;
  options.rule = Rule::fw_dtp;
  options.schedule = Schedule::pipelined;
  options.loss = Loss::mse;
  options.optimizer.kind = OptimizerKind::adamw;
  options.optimizer.lr = 0.03f;
  options.optimizer.nesterov = true;
  options.horizon = 12;
  options.learners = 3;
  const auto read = read_learning(write_learning(options));
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(*read, options);
}

TEST(Options, ErrorsNameThePlace) {
  const auto text = [](const auto& result) { return result ? std::string("none") : result.error().text(); };
  EXPECT_EQ(text(read_learning(R"({"optimizer": {"momentun": 0.5}})")),
            "learning.optimizer.momentun: unknown key; did you mean 'momentum'?");
  EXPECT_EQ(text(read_learning(R"({"horizon": 2000})")),
            "learning.horizon: found 2000, expected a whole number from 0 to 1024");
  EXPECT_EQ(text(read_stream(R"({"epochs": 1})")), "stream: key \"csv\" is missing");
  EXPECT_EQ(text(read_stream(R"({"epochs": 1})", false)), "none");
  EXPECT_EQ(text(read_stream(R"({"csv": "x", "drift": {"at": 0.5}})")), "stream.drift: key \"kind\" is missing");
  EXPECT_EQ(text(read_stream(R"({"csv": "x", "label": 0})")),
            "stream.label: found 0, expected a whole number from 1 to 65536");
  EXPECT_EQ(text(read_stream(R"({"csv": "x", "classes": ["1", "1.0"]})")),
            "stream.classes[1]: found \"1.0\", expected each class once");
}

TEST(Options, EachRowSaysWhatItMeans) {
  const auto check = [](const auto& self, const std::vector<OptionRow>& rows) -> void {
    for (const OptionRow& row : rows) {
      EXPECT_FALSE(row.meaning.empty()) << row.key;
      EXPECT_EQ(row.kind == OptionKind::choice, !row.names.empty()) << row.key;
      for (const std::string_view condition : {row.only_with, row.applies})
        if (!condition.empty()) {
          const OptionRow& other = option_row(rows, parse_condition(condition).key);
          for (const std::string_view value : parse_condition(condition).values) {
            EXPECT_NE(std::find(other.names.begin(), other.names.end(), value), other.names.end())
                << row.key << " counts with " << value;
          }
        }
      self(self, row.options);
    }
  };
  check(check, learning_rows());
  check(check, stream_rows());
}

// Conditions and defaults come from the rows of kernels/formulas/; these are those of the papers' formulas there.
TEST(Options, RowsOfOptimizersAndSchedulesSayWhichCount) {
  const auto &optimizer = option_row(learning_rows(), "optimizer").options,
             &schedule = option_row(learning_rows(), "rate_schedule").options;
  for (const auto& [key, applies] : {std::pair("momentum", "type=momentum|rmsprop"),
                                     {"dampening", "type=momentum"},
                                     {"nesterov", "type=momentum"},
                                     {"beta1", "type=adamw|lion"},
                                     {"beta2", "type=adamw|lion"},
                                     {"alpha", "type=rmsprop"},
                                     {"centered", "type=rmsprop"},
                                     {"epsilon", "type=adamw|rmsprop"},
                                     {"weight_decay", ""}})
    EXPECT_EQ(option_row(optimizer, key).applies, applies) << key;
  for (const auto& [key, applies] : {std::pair("updates", "type=linear|cosine|warm_restarts|step|polynomial"),
                                     {"growth", "type=warm_restarts"},
                                     {"end", "type=linear|cosine|warm_restarts|polynomial"},
                                     {"factor", "type=exponential|step"},
                                     {"power", "type=polynomial"},
                                     {"warmup", ""}})
    EXPECT_EQ(option_row(schedule, key).applies, applies) << key;
  EXPECT_EQ(option_row(optimizer, "momentum").fallback_words, "0.9, `rmsprop` 0");
  EXPECT_EQ(option_row(optimizer, "beta2").fallback_words, "0.999, `lion` 0.99");
  EXPECT_EQ(option_row(optimizer, "weight_decay").meaning,
            "as a gradient (`sgd`, `momentum`, `rmsprop`) or apart from it (`adamw`, `lion`); biases and gains are "
            "spared");
}

// A key that is none would be a condition that nobody reads.
TEST(Options, RowsOfOptimizersAndSchedulesNameOptionsOnly) {
  const auto keys_of = [](std::string_view section) {
    std::vector<std::string> keys;
    for (const OptionRow& row : option_row(learning_rows(), section).options) keys.emplace_back(row.key);
    return keys;
  };
  std::vector<std::string> optimizer = keys_of("optimizer");
  optimizer.emplace_back("decoupled");
  const auto expect_known = [](std::span<const std::string_view> rows, const std::vector<std::string>& known) {
    for (const std::string_view row : rows) {
      std::istringstream words{std::string(row)};
      for (std::string word; words >> word;) EXPECT_EQ(std::count(known.begin(), known.end(), word), 1) << word;
    }
  };
  expect_known(kernels::optimizer_options(), optimizer);
  expect_known(kernels::rate_schedule_options(), keys_of("rate_schedule"));
}

TEST(StreamOptions, SayWhichKeysChooseSamples) {
  std::vector<std::string_view> keys = sample_keys();
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
  for (const std::string_view key : keys) EXPECT_EQ(option_row(stream_rows(), key).key, key);
  const auto is_one = [&](std::string_view key) { return std::binary_search(keys.begin(), keys.end(), key); };
  for (const char* const key : {"csv", "test", "labels", "missing", "epochs", "split_seed"}) EXPECT_TRUE(is_one(key));
  // These say what a sample is: a run that went on with others would go on with another task.
  for (const char* const key : {"scale", "fill", "classes", "target_mean", "drift", "input", "output", "window"})
    EXPECT_FALSE(is_one(key)) << key;
}

}  // namespace
}  // namespace weft::learning::options_test
