// SPDX-License-Identifier: Apache-2.0

#include "models/peft.hpp"

#include "models/peft_export.hpp"

#include "formats/safetensors/safetensors.hpp"
#include "storage/durable.hpp"

#include "tests/models/imported.hpp"
#include "tests/support/temporary_directory.hpp"
#include <filesystem>
#include <fstream>
#include <map>

namespace weft::models::peft_test {
namespace {

constexpr std::size_t kRank = 3;

/// Adapters for q_proj and down_proj of a model of the shared data, of numbers that a formula gives.
class Peft : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    source_ = shared_data("language/families/" + std::string(GetParam()));
    if (source_.empty()) GTEST_SKIP() << "no ../shared/data";
    const auto file = formats::load_safetensors(storage::real_file_system(), source_ + "/model.safetensors");
    ASSERT_TRUE(file) << file.error().text();
    for (const formats::Tensor& tensor : file->tensors()) {
      const auto values = file->values<float>(tensor.name);
      ASSERT_TRUE(values) << values.error().text();
      weights_[tensor.name] = {tensor.shape, {values->begin(), values->end()}};
      if (!tensor.name.ends_with("q_proj.weight") && !tensor.name.ends_with("down_proj.weight") &&
          !tensor.name.ends_with("c_attn.weight"))
        continue;
      const bool is_turned = tensor.name.ends_with("c_attn.weight");
      const std::size_t out = tensor.shape[is_turned ? 1 : 0], in = tensor.shape[is_turned ? 0 : 1];
      const std::string module = "base_model.model." + tensor.name.substr(0, tensor.name.size() - 7);
      add(module + ".lora_A.weight", {kRank, in});
      add(module + ".lora_B.weight", {out, kRank});
      // W += 2 B A, in binary64.
      const auto &a = adapter_[module + ".lora_A.weight"].values, &b = adapter_[module + ".lora_B.weight"].values;
      auto& w = weights_[tensor.name].values;
      for (std::size_t o = 0; o < out; ++o)
        for (std::size_t k = 0; k < in; ++k) {
          double sum = 0;
          for (std::size_t r = 0; r < kRank; ++r) sum += static_cast<double>(b[o * kRank + r]) * a[r * in + k];
          float& value = w[is_turned ? k * out + o : o * in + k];
          value = static_cast<float>(value + 2 * sum);
        }
    }
    config_ = {{"peft_type", "LORA"},
               {"r", kRank},
               {"lora_alpha", 2 * kRank},
               {"bias", "none"},
               {"rank_pattern", Json::object()}};
  }
  struct Values {
    Shape shape;
    std::vector<float> values;
  };
  void add(const std::string& name, const Shape& shape) {
    Values& values = adapter_[name];
    values.shape = shape;
    for (std::size_t i = 0; i < shape[0] * shape[1]; ++i)
      values.values.push_back(static_cast<float>(seed_++ * 37 % 61) / 256.0f - 0.11f);
  }
  static void save(const std::string& path, const std::map<std::string, Values>& all) {
    std::vector<formats::Tensor> tensors;
    for (const auto& [name, values] : all)
      tensors.push_back(formats::make_tensor<float>(name, values.shape, values.values));
    ASSERT_TRUE(formats::save_safetensors(storage::real_file_system(), path, tensors));
  }
  std::string adapter_folder() {
    const std::string at = folder_.path() + "/adapter";
    std::filesystem::create_directories(at);
    std::ofstream(at + "/adapter_config.json") << *write_json(config_);
    save(at + "/adapter_model.safetensors", adapter_);
    return at;
  }
  std::string merged_folder() {
    const std::string at = folder_.path() + "/merged";
    std::filesystem::create_directories(at);
    std::filesystem::copy_file(source_ + "/config.json", at + "/config.json");
    save(at + "/model.safetensors", weights_);
    return at;
  }
  std::string refusal() {
    const auto model = import_model(storage::real_file_system(), source_, {.adapter = adapter_folder()});
    return model ? "" : model.error().text();
  }

  storage::TemporaryDirectory folder_;
  std::string source_;
  std::map<std::string, Values> weights_, adapter_;
  Json config_;
  std::size_t seed_ = 1;
};

TEST_P(Peft, IsAddedToTheMatrices) {
  const auto adapted = imported_mesh(source_, {.tokens = 6, .adapter = adapter_folder()});
  const auto merged = imported_mesh(merged_folder(), {.tokens = 6}), plain = imported_mesh(source_, {.tokens = 6});
  ASSERT_TRUE(adapted) << adapted.error().text();
  ASSERT_TRUE(merged) << merged.error().text();
  const std::vector<float> ids{3, 17, 5, 90, 41, 8};
  const std::vector<float> a = logits_of(*adapted, ids, 96), b = logits_of(*merged, ids, 96),
                           before = logits_of(*plain, ids, 96);
  float moved = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i], 2e-5f * std::max(1.0f, std::abs(b[i]))) << i;
    moved = std::max(moved, std::abs(a[i] - before[i]));
  }
  EXPECT_GT(moved, 0.1f);
}

TEST_P(Peft, ComesOutAgain) {
  const std::string base = folder_.path() + "/base.entity", learned = folder_.path() + "/learned.entity",
                    out = folder_.path() + "/out";
  auto& files = storage::real_file_system();
  const auto was = import_model(files, source_), is = import_model(files, source_, {.adapter = adapter_folder()});
  ASSERT_TRUE(is) << is.error().text();
  ASSERT_TRUE(storage::write_file_durably(files, base, was->content));
  ASSERT_TRUE(storage::write_file_durably(files, learned, is->content));
  const auto made = export_adapters(files, learned, out, base, kRank);
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ(made->tensors, adapter_.size());
  ASSERT_EQ(made->notes.size(), 1u) << made->notes[0];
  const auto again = LoraAdapters::open(files, out);
  ASSERT_TRUE(again) << again.error().text();
  const auto theirs = LoraAdapters::open(files, folder_.path() + "/adapter");
  ASSERT_TRUE(theirs) << theirs.error().text();
  ASSERT_EQ(again->pairs().size(), theirs->pairs().size());
  for (const auto& [name, pair] : theirs->pairs()) {
    const LoraAdapters::Pair& own = again->pairs().at(name);
    double left = 0, all = 0;
    for (std::size_t o = 0; o < pair.out; ++o) {
      std::vector<float> x(pair.in), y(pair.in);
      ASSERT_TRUE(theirs->add_to_row(pair, o, x));
      ASSERT_TRUE(again->add_to_row(own, o, y));
      for (std::size_t k = 0; k < pair.in; ++k) left += std::pow(x[k] - y[k], 2), all += std::pow(x[k], 2);
    }
    EXPECT_LT(std::sqrt(left / all), 2e-6) << name;
  }
  const auto nothing = export_adapters(files, base, out, base, kRank);
  ASSERT_FALSE(nothing);
  EXPECT_NE(nothing.error().text().find("nothing to adapt"), std::string::npos);
}

TEST_P(Peft, TellsAllThatItIsNot) {
  config_["use_dora"] = true;
  config_["bias"] = "all";
  config_["r"] = 5;
  adapter_["base_model.model.magnitude"] = {{2}, {1, 2}};
  const std::string text = refusal();
  for (const char* const part : {"use_dora", "bias", "magnitude", "r is 5"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST_P(Peft, RefusesAdaptersOfOtherModels) {
  add("base_model.model.model.layers.77.self_attn.q_proj.lora_A.weight", {kRank, 8});
  add("base_model.model.model.layers.77.self_attn.q_proj.lora_B.weight", {8, kRank});
  EXPECT_NE(refusal().find("layers.77.self_attn.q_proj.weight' belongs to no matrix"), std::string::npos) << refusal();
}

INSTANTIATE_TEST_SUITE_P(All, Peft, ::testing::Values("llama", "gpt2", "qwen3"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace weft::models::peft_test
