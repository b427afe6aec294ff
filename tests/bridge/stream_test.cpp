// SPDX-License-Identifier: Apache-2.0
// The worked examples (tests/data/bridge, of numpy in float64) in process; documents, reports and their comparison. The
// program itself, and random networks against numpy: tests/bindings/loom_stream_test.py.

#include "bridge/stream.hpp"

#include "bridge/comparison.hpp"

#include "storage/file_system.hpp"

#include <gtest/gtest.h>

#include "tests/support/source_path.hpp"
#include "tests/support/temporary_directory.hpp"
#include <algorithm>
#include <cmath>
#include <filesystem>

namespace weft::bridge::stream_test {
namespace {

using storage::TemporaryDirectory;

Json examples() {
  const auto bytes = storage::real_file_system().read(source_path("tests/data/bridge/examples.json"), 1 << 20);
  return parse_json(as_text(bytes.value()), "examples").value();
}

/// The samples of an example as a request's own: several arrays one behind the other.
Json inputs_of(const Json& fixture) {
  if (fixture.members().size() == 1) return fixture.members().begin()->second;
  const bool is_residual = fixture.contains("x_main_test");
  const Json& first = fixture[is_residual ? "x_main_test" : "x_test"];
  const Json& second = fixture[is_residual ? "x_skip_test" : "token_ids_test"];
  Json rows = Json::array();
  for (std::size_t i = 0; i < first.size(); ++i) {
    Json row = Json::array();
    const auto flatten = [&](const auto& self, const Json& value) -> void {
      if (value.is_number()) row.push_back(value);
      for (const Json& each : value) self(self, each);
    };
    flatten(flatten, first[i]);
    flatten(flatten, second[i]);
    rows.push_back(std::move(row));
  }
  return rows;
}

TEST(BridgeStream, ComputesEveryWorkedExample) {
  TemporaryDirectory folder;
  std::size_t seen = 0;
  for (const Json& example : examples()) {
    const std::string name = example["name"];
    Json document{{"bedrock", example["bedrock"]}, {"models_dir", folder.path()}};
    document["payload"] = example["payload"];
    document["inputs"] = inputs_of(example["fixture"]);
    const auto request = read_request(document.dump());
    ASSERT_TRUE(request) << name << ": " << request.error().text();
    const auto samples = samples_of(*request);
    ASSERT_TRUE(samples) << name << ": " << samples.error().text();
    const auto answer = stream(*request, *samples);
    ASSERT_TRUE(answer) << name << ": " << answer.error().text();
    const Json& wanted = example["outputs"];
    ASSERT_EQ(answer->sample_count, wanted.size()) << name;
    ASSERT_EQ(answer->output_dim, wanted[0].size()) << name;
    const bool is_exact = request->bedrock == Bedrock::embedding || request->bedrock == Bedrock::residual;
    for (std::size_t i = 0; i < answer->outputs.size(); ++i) {
      const double value = wanted[i / answer->output_dim][i % answer->output_dim];
      if (is_exact)
        EXPECT_EQ(answer->outputs[i], value) << name << " " << i;
      else
        EXPECT_NEAR(answer->outputs[i], value, 1e-6) << name << " " << i;
    }
    EXPECT_EQ(answer->layer_count, example["layer_count"].get<std::size_t>()) << name;
    EXPECT_EQ(answer->weight_bytes, example["weight_bytes"].get<std::size_t>()) << name;
    EXPECT_TRUE(std::filesystem::exists(answer->entity_path)) << name;
    ++seen;
  }
  EXPECT_EQ(seen, 14u);
}

TEST(BridgeStream, WritesNumbersThatReadBackAsTheSameDouble) {
  StreamAnswer answer;
  answer.entity_path = "/x";
  answer.layer_count = 1;
  answer.outputs = {0.1f, -0.0f, 1e-30f};
  answer.output_dim = 3;
  answer.sample_count = 1;
  const Json read = parse_json(write_answer(answer), "answer").value();
  EXPECT_EQ(read["outputs"][0][0].get<double>(), static_cast<double>(0.1f));
  EXPECT_EQ(read["outputs"][0][2].get<double>(), static_cast<double>(1e-30f));
  EXPECT_FALSE(read.contains("max_abs_diff"));
  EXPECT_FALSE(read.contains("weight_bytes"));
}

Report report_with(const std::string& stage, const std::string& format, std::vector<std::vector<double>> outputs) {
  Report report;
  report.planet = report.engine = "pytorch";
  report.model_id = "m";
  report.stage = stage;
  report.format = format;
  report.outputs = std::move(outputs);
  return report;
}

TEST(BridgeReports, PairsTheNativeStepWithEveryOther) {
  TemporaryDirectory folder;
  ReportStore store(folder.path());
  const auto pairs = [&]() -> Json {
    const Json all = comparison_of(store, Bedrock::dense).value();
    return all["models"].empty() ? Json::array() : all["models"][0]["pipelines"][0]["compare"];
  };
  EXPECT_EQ(pairs().size(), 0u);
  ASSERT_TRUE(store.store(report_with("export", "onnx", {{1, 2.5}})));
  EXPECT_EQ(pairs().size(), 0u);  // nothing to compare with
  ASSERT_TRUE(store.store(report_with("native", "native", {{1, 2}})));
  ASSERT_TRUE(store.store(report_with("export", "h5", {{1, 2}})));
  Json found = pairs();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0]["to_format"].text(), "h5");
  EXPECT_EQ(found[0]["exact_match"], Json(true));
  EXPECT_EQ(found[1]["max_abs_diff"], 0.5);
  EXPECT_EQ(found[1]["mean_abs_diff"], 0.25);
  EXPECT_EQ(found[2]["to_stage"].text(), "loom");
  EXPECT_TRUE(found[2].contains("pending"));
  ASSERT_TRUE(store.store(report_with("loom", "entity", {{1, 2, 3}})));
  EXPECT_TRUE(pairs()[2].contains("pending"));  // another shape
  ASSERT_TRUE(store.store(report_with("loom", "entity", {{1, 2}})));
  found = pairs();
  EXPECT_FALSE(found[2].contains("pending"));
  EXPECT_EQ(found[2]["exact_match"], Json(true));
  EXPECT_EQ(store.list(Bedrock::dense)->size(), 4u);
  EXPECT_NE(comparison_text_of(store, Bedrock::dense)->find("m pytorch native/native -> loom/entity max 0"),
            std::string::npos);
}

TEST(BridgeReports, RefusesWhatIsNone) {
  EXPECT_EQ(read_report(R"({"planet":"jax"})", "t").error().text(), "model_id required");
  EXPECT_EQ(read_report(R"({"model_id":"m"})", "t").error().text(), "planet or engine required");
  EXPECT_FALSE(read_report(R"({"model_id":"m","planet":"jax","outputs":[[NaN]]})", "t"));
  EXPECT_FALSE(read_report(R"({"model_id":"m","planet":"..","outputs":[]})", "t"));
  EXPECT_FALSE(read_report(R"({"model_id":"m","planet":"jax","outputs":[1]})", "t"));
  const auto report = read_report(R"({"model_id":" a b/c ","engine":"jax"})", "t");
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ(report->file_name(), "jax__a_b_c__native__native.json");
}

TEST(BridgeReports, ListsModelsWithTheirFiles) {
  TemporaryDirectory folder;
  ReportStore store(folder.path());
  const std::string model = store.directory_of(Bedrock::dense) + "/models/jax/m";
  std::filesystem::create_directories(model);
  const auto write = [&](const std::string& name, const std::string& text) {
    const auto file = storage::real_file_system().open(model + "/" + name, storage::OpenMode::create);
    ASSERT_TRUE(file);
    ASSERT_TRUE((*file)->write(as_bytes(text)));
  };
  write("meta.json", "{");
  EXPECT_EQ(catalog_of(store)->operator[]("models").size(), 0u);
  write("meta.json", R"({"engine":"jax","framework_version":"9","artifacts":["a.npz",3]})");
  write("m.stream.entity", "x");
  const Json all = catalog_of(store).value();
  ASSERT_EQ(all["models"].size(), 1u);
  const Json& row = all["models"][0]["planets"][0];
  EXPECT_EQ(row["framework_version"].text(), "9");
  EXPECT_EQ(row["artifacts"].size(), 1u);
  EXPECT_EQ(row["entity_files"][0].text(), "m.stream.entity");
  EXPECT_EQ(row["has_report"], Json(false));
  EXPECT_EQ(all["fixture"]["version"].text(), "dense_bedrock_v2");
}

}  // namespace
}  // namespace weft::bridge::stream_test
