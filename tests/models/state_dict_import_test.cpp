// SPDX-License-Identifier: Apache-2.0

#include "models/state_dict/state_dict_import.hpp"

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/persistence/mesh_load.hpp"
#include "mesh/weights/weight_store.hpp"

#include "formats/safetensors/safetensors.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/numeric.hpp"

#include <gtest/gtest.h>

#include "tests/support/source_path.hpp"
#include "tests/support/temporary_directory.hpp"
#include <cmath>
#include <limits>
#include <list>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace weft::models::state_dict_import_test {
namespace {

std::string golden_path(const std::string& name) { return source_path("tests/data/models/state_dicts/" + name); }

Result<mesh::Mesh> imported(const std::string& path, const StateDictOptions& options = {}) {
  WEFT_TRY(const ImportedStateDict model, import_state_dict(storage::real_file_system(), path, options));
  WEFT_TRY(const ByteBuffer bytes, collect(model.content));
  return mesh::load_mesh(bytes, path);
}

/// The golden's input through the mesh, against what PyTorch made of it in binary64.
void expect_outputs(const mesh::Mesh& mesh, const std::string& name) {
  const auto text = storage::real_file_system().read(golden_path("outputs.json"), 1 << 20);
  const Json golden = (*parse_json(as_text(*text), "outputs"))[name];
  std::vector<float> x;
  for (const double value : golden["x"].get<std::vector<double>>()) x.push_back(static_cast<float>(value));
  const auto expected = golden["y"].get<std::vector<double>>();
  std::vector<float> y(expected.size());
  ASSERT_EQ(mesh.graph().nodes()[mesh.graph().outputs()[0]].width, y.size());
  const mesh::RunInput input{"x", x};
  const mesh::RunOutput output{"y", y};
  const Status ran = mesh.forward({&input, 1}, 1, {&output, 1});
  ASSERT_TRUE(ran) << ran.error().text();
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 2e-6 * largest) << name << " " << i;
}

/// All values of a mesh's parameters, by name and length, against the file's tensors: bit for bit.
void expect_bits(const mesh::Mesh& mesh, const std::string& path) {
  const auto file = formats::load_safetensors(storage::real_file_system(), path);
  ASSERT_TRUE(file) << file.error().text();
  std::multiset<std::vector<float>> ours, theirs;
  const mesh::WeightStore& weights = mesh::MeshAccess::weights(mesh);
  for (const mesh::WeightStore::Parameter& parameter : weights.parameters()) ours.insert(weights.read(parameter));
  for (const formats::Tensor& tensor : file->tensors()) {
    const auto values = file->values<float>(tensor.name);
    ASSERT_TRUE(values) << values.error().text();
    theirs.emplace(values->begin(), values->end());
  }
  EXPECT_EQ(ours, theirs);
}

struct Row {
  const char *name, *activation;
  Shape input;
  std::size_t heads;
  bool keeps_bits;
};
const Row kRows[] = {
    {"sequential", "relu", {}, 0, true}, {"classifier", "tanh", {}, 0, true}, {"pictures", "relu", {1, 8, 8}, 0, false},
    {"lstm", "", {5, 4}, 0, true},       {"gru", "", {5, 4}, 0, true},        {"words", "", {5}, 2, false},
    {"bfloat16", "", {}, 0, false}};

TEST(StateDictImport, ComputesWhatPyTorchComputes) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    const std::string path = golden_path(std::string(row.name) + ".safetensors");
    const auto mesh = imported(path, {.input = row.input, .activation = row.activation, .heads = row.heads});
    ASSERT_TRUE(mesh) << mesh.error().text();
    expect_outputs(*mesh, row.name);
    if (row.keeps_bits) expect_bits(*mesh, path);
  }
}

TEST(StateDictImport, SaysWhichTensorsAreWhichLayerAndWhatItAssumed) {
  const auto model = import_state_dict(storage::real_file_system(), golden_path("classifier.safetensors"));
  ASSERT_TRUE(model) << model.error().text();
  EXPECT_EQ(model->layers, (std::vector<std::string>{"reduce: dense 12 -> 5 of reduce.weight, reduce.bias",
                                                     "expand: dense 5 -> 9 of expand.weight, expand.bias",
                                                     "answer: dense 9 -> 3 of answer.weight, answer.bias"}));
  ASSERT_EQ(model->notes.size(), 1u);
  EXPECT_NE(model->notes[0].find("no activations"), std::string::npos);
  EXPECT_EQ(model->parameters, 12u * 5 + 5 + 5 * 9 + 9 + 9 * 3 + 3);
}

TEST(StateDictImport, KeepsTheTypesOfMatrices) {
  const auto model = import_state_dict(storage::real_file_system(), golden_path("bfloat16.safetensors"));
  ASSERT_TRUE(model) << model.error().text();
  for (const mesh::LayerSpec& layer : model->graph->spec().layers) EXPECT_EQ(layer.dtype, Dtype::bfloat16);
  const auto small = imported(golden_path("sequential.safetensors"), {.encoding = Encoding(Dtype::int8)});
  ASSERT_TRUE(small) << small.error().text();
}

// Values that are allowed become those of torch.nan_to_num.
TEST(StateDictImport, RefusesWhatIsNotFiniteUnlessItIsAllowed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kLargest = std::numeric_limits<float>::max();
  const std::vector<float> values{1, kInfinity, std::numeric_limits<float>::quiet_NaN(), -kInfinity, 2, 3};
  const storage::TemporaryDirectory folder;
  const std::string path = folder.path() + "/w.safetensors";
  ASSERT_TRUE(formats::save_safetensors(storage::real_file_system(), path,
                                        {formats::make_tensor<float>("fc.weight", Shape{2, 3}, values)}));
  const auto refused = imported(path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::not_finite);
  EXPECT_NE(refused.error().text().find("weight 1 is inf"), std::string::npos) << refused.error().text();
  const auto mesh = imported(path, {.allow_nonfinite = true});
  ASSERT_TRUE(mesh) << mesh.error().text();
  const mesh::WeightStore& weights = mesh::MeshAccess::weights(*mesh);
  EXPECT_EQ(weights.read(weights.parameters()[0]), (std::vector<float>{1, kLargest, 0, -kLargest, 2, 3}));
  const auto model = import_state_dict(storage::real_file_system(), path, {.allow_nonfinite = true});
  ASSERT_TRUE(model) << model.error().text();
  const std::string& note = model->notes.back();
  EXPECT_TRUE(note.starts_with("3 weights")) << note;
  EXPECT_NE(note.find("weight 1 was inf"), std::string::npos) << note;
}

/// Files of given shapes.
class Shapes : public ::testing::Test {
 protected:
  std::string path(const std::map<std::string, Shape>& shapes) {
    std::vector<formats::Tensor> tensors;
    held_.clear();
    for (const auto& [name, shape] : shapes) {
      std::size_t count = 1;
      for (const std::size_t extent : shape) count *= extent;
      held_.emplace_back(count, 0.5f);
      tensors.push_back(formats::make_tensor<float>(name, shape, held_.back()));
    }
    const std::string at = folder_.path() + "/w.safetensors";
    EXPECT_TRUE(formats::save_safetensors(storage::real_file_system(), at, tensors));
    return at;
  }
  std::string refusal(const std::map<std::string, Shape>& shapes, const StateDictOptions& options = {}) {
    const auto model = import_state_dict(storage::real_file_system(), path(shapes), options);
    return model ? "" : model.error().text();
  }
  std::string types(const std::map<std::string, Shape>& shapes, const StateDictOptions& options = {}) {
    const auto model = import_state_dict(storage::real_file_system(), path(shapes), options);
    if (!model) return model.error().text();
    std::string all;
    for (const mesh::LayerSpec& layer : model->graph->spec().layers) all += (all.empty() ? "" : " ") + layer.type;
    return all;
  }
  std::list<std::vector<float>> held_;
  storage::TemporaryDirectory folder_;
};

TEST_F(Shapes, DecideTheLayer) {
  EXPECT_EQ(types({{"a.weight", {200, 8}}, {"b.weight", {3, 8}}, {"b.bias", {3}}}), "embedding dense");
  EXPECT_EQ(types({{"conv.weight", {4, 2, 3}}, {"conv.bias", {4}}, {"fc.weight", {5, 12}}}), "conv1d dense");
  EXPECT_EQ(types({{"0.weight", {4, 2, 3, 3, 3}}, {"1.weight", {2, 32}}}), "conv3d dense");
  EXPECT_EQ(types({{"a.weight", {3, 8}}, {"a.bias", {3}}, {"n.weight", {3}}}), "dense rms_norm");
  EXPECT_EQ(types({{"r.weight_ih_l0", {5, 3}}, {"r.weight_hh_l0", {5, 5}}}), "rnn");
  EXPECT_EQ(types({{"m.w1.weight", {6, 4}}, {"m.w2.weight", {4, 6}}, {"m.w3.weight", {6, 4}}}), "swiglu");
  const std::map<std::string, Shape> squares{{"att.q_proj.weight", {4, 4}},
                                             {"att.k_proj.weight", {2, 4}},
                                             {"att.v_proj.weight", {2, 4}},
                                             {"att.o_proj.weight", {4, 4}}};
  EXPECT_EQ(types(squares, {.heads = 2}), "attention");
  EXPECT_NE(refusal(squares).find("--heads"), std::string::npos);
}

TEST_F(Shapes, OfAConvolutionTellTheInputWhereADenseLayerFollows) {
  const auto model =
      import_state_dict(storage::real_file_system(),
                        path({{"c1.weight", {4, 1, 3, 3}}, {"c2.weight", {6, 4, 5, 5}}, {"f.weight", {2, 96}}}));
  ASSERT_TRUE(model) << model.error().text();
  EXPECT_EQ(model->graph->spec().inputs[0].shape, (Shape{1, 10, 10})) << "4 by 4 are left of 6 channels";
  EXPECT_NE(refusal({{"c.weight", {4, 1, 3, 3}}, {"f.weight", {2, 24}}}).find("--shape x=1"), std::string::npos);
  EXPECT_NE(refusal({{"c.weight", {4, 1, 3, 3}}, {"f.weight", {2, 64}}}, {.input = {1, 28, 28}}).find("pools"),
            std::string::npos);
}

TEST_F(Shapes, RefusesAllThatFitsNothingAtOnce) {
  const std::string text = refusal({{"a.weight", {3, 2, 2, 2, 2, 2}},
                                    {"b.bias", {3}},
                                    {"l.weight_ih_l0", {8, 2}},
                                    {"l.weight_hh_l0", {8, 2}},
                                    {"l.weight_ih_l0_reverse", {8, 2}},
                                    {"l.weight_hh_l0_reverse", {8, 2}}});
  for (const char* const part : {"a.weight", "b.bias", "both directions"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST_F(Shapes, RefuseOrdersThatAreSeveralOrNone) {
  const std::map<std::string, Shape> squares{{"one.weight", {4, 4}}, {"other.weight", {4, 4}}};
  const std::string several = refusal(squares);
  EXPECT_NE(several.find("one,other and other,one"), std::string::npos) << several;
  EXPECT_EQ(types(squares, {.order = {"other", "one"}}), "dense dense");
  EXPECT_NE(refusal(squares, {.order = {"other"}}).find("'one'"), std::string::npos);
  const std::string none = refusal({{"one.weight", {4, 3}}, {"other.weight", {7, 5}}});
  EXPECT_NE(none.find("no order"), std::string::npos) << none;
  // Numbers keep their order, though the widths would allow another.
  EXPECT_EQ(types({{"layer2.weight", {4, 4}}, {"layer10.weight", {4, 4}}}), "dense dense");
}

}  // namespace
}  // namespace weft::models::state_dict_import_test
