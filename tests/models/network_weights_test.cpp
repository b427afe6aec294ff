// SPDX-License-Identifier: Apache-2.0

#include "models/state_dict/network_weights.hpp"

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/persistence/mesh_load.hpp"
#include "mesh/weights/weight_store.hpp"

#include "formats/safetensors/safetensors.hpp"
#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include "tests/support/source_path.hpp"
#include "tests/support/temporary_directory.hpp"
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weft::models::network_weights_test {
namespace {

using Floats = std::vector<float>;

std::string golden_path(const std::string& name) {
  return source_path("tests/data/models/state_dicts/" + name + ".safetensors");
}

/// A chain of layers from "x".
mesh::NetworkSpec chain(const std::string& x, const std::vector<std::string>& layers) {
  const std::string depth = std::to_string(layers.size()), last = std::to_string(layers.size() - 1);
  std::string text = R"({"weft": 2, "inputs": {"x": [)" + x + R"(]}, "grid": {"z": )" + depth +
                     R"(}, "outputs": {"y": [)" + last + R"(, 0, 0, 0]}, "layers": [)";
  for (std::size_t i = 0; i < layers.size(); ++i)
    text += std::string(i ? ", " : "") + R"({"at": [)" + std::to_string(i) + ", 0, 0, 0], " + layers[i] + "}";
  auto spec = mesh::read_network(text + "]}", "chain");
  EXPECT_TRUE(spec) << spec.error().text();
  return spec ? *std::move(spec) : mesh::NetworkSpec();
}

Result<mesh::Mesh> imported(const std::string& path, mesh::NetworkSpec network, const StateDictOptions& options = {}) {
  WEFT_TRY(const ImportedStateDict model,
           import_network_weights(storage::real_file_system(), path, std::move(network), options));
  WEFT_TRY(const ByteBuffer bytes, collect(model.content));
  return mesh::load_mesh(bytes, path);
}

const std::string kDense = R"("type": "dense", "out": )";
/// The networks of tools/make_state_dicts.py, described by hand.
mesh::NetworkSpec sequential() {
  return chain("6", {kDense + R"(10, "activation": "relu")", R"("type": "layer_norm")",
                     kDense + R"(10, "activation": "relu")", kDense + "4"});
}

// PyTorch wrote the files and computed the outputs in binary64.
TEST(NetworkWeights, ComputeWhatPyTorchComputes) {
  const auto text =
      storage::real_file_system().read(source_path("tests/data/models/state_dicts/outputs.json"), 1 << 20);
  const Json goldens = *parse_json(as_text(*text), "outputs");
  const std::vector<std::pair<std::string, mesh::NetworkSpec>> rows{
      {"sequential", sequential()},
      {"classifier",
       chain("12", {kDense + R"(5, "activation": "tanh")", kDense + R"(9, "activation": "tanh")", kDense + "3"})},
      {"lstm", chain("5, 4", {R"("type": "lstm", "out": 6)", R"("type": "lstm", "out": 6)", kDense + "3"})},
      {"words",
       chain("5", {R"("type": "embedding", "out": 8, "vocabulary": 90)", R"("type": "attention", "heads": 2)",
                   R"("type": "layer_norm")", R"("type": "swiglu", "hidden": 12)", kDense + R"(90, "bias": false)"})}};
  for (const auto& [name, network] : rows) {
    SCOPED_TRACE(name);
    const auto mesh = imported(golden_path(name), network);
    ASSERT_TRUE(mesh) << mesh.error().text();
    const Json golden = goldens[name];
    Floats x, y(golden["y"].size());
    for (const double value : golden["x"].get<std::vector<double>>()) x.push_back(static_cast<float>(value));
    const mesh::RunInput input{"x", x};
    const mesh::RunOutput output{"y", y};
    ASSERT_TRUE(mesh->forward({&input, 1}, 1, {&output, 1}));
    double largest = 0;
    const auto expected = golden["y"].get<std::vector<double>>();
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 2e-6 * largest) << i;
  }
}

// The chain that import makes itself has the same weights in the same places.
TEST(NetworkWeights, AreThoseOfTheSameNetworkMadeOfThem) {
  for (const char* name : {"sequential", "classifier", "lstm", "gru", "words", "bfloat16"}) {
    SCOPED_TRACE(name);
    const auto made = import_state_dict(storage::real_file_system(), golden_path(name), {.input = {}, .heads = 2});
    ASSERT_TRUE(made) << made.error().text();
    const auto mesh = mesh::load_mesh(*collect(made->content), name);
    const auto again = imported(golden_path(name), made->graph->spec());
    ASSERT_TRUE(again) << again.error().text();
    EXPECT_EQ(to_string(mesh->state_hash()), to_string(again->state_hash()));
  }
}

/// Files of given tensors, in this order; the values of each are its number.
class Files : public ::testing::Test {
 protected:
  using Tensors = std::vector<std::pair<std::string, Shape>>;
  /// As the bytes say, since writing by library sorts by name.
  std::string path(const Tensors& shapes) {
    std::string header, data;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const auto& [name, shape] = shapes[i];
      std::size_t count = 1;
      std::string extents;
      for (const std::size_t extent : shape) {
        count *= extent;
        extents += (extents.empty() ? "" : ",") + std::to_string(extent);
      }
      const std::size_t begin = data.size();
      const auto value = static_cast<float>(i + 1);
      for (std::size_t k = 0; k < count; ++k) data.append(reinterpret_cast<const char*>(&value), sizeof value);
      header += (i ? ",\"" : "{\"") + name + R"(":{"dtype":"F32","shape":[)" + extents + R"(],"data_offsets":[)" +
                std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
    }
    header += "}";
    header.append((8 - header.size() % 8) % 8, ' ');
    const auto length = static_cast<std::uint64_t>(header.size());
    const std::string bytes = std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
    const std::string at = folder_.path() + "/w.safetensors";
    EXPECT_TRUE(storage::write_file_durably(storage::real_file_system(), at, ByteSource(as_bytes(bytes))));
    return at;
  }
  /// The first value of each parameter, or why not.
  std::string firsts(const Tensors& tensors, const mesh::NetworkSpec& network, const StateDictOptions& options = {}) {
    const auto mesh = imported(path(tensors), network, options);
    if (!mesh) return mesh.error().text();
    std::string all;
    const mesh::WeightStore& weights = mesh::MeshAccess::weights(*mesh);
    for (const auto& parameter : weights.parameters())
      all += (all.empty() ? "" : " ") + std::to_string(static_cast<int>(weights.read(parameter)[0]));
    return all;
  }
  storage::TemporaryDirectory folder_;
};

const std::string kSquare = R"("type": "dense", "out": 4, "bias": false)";

TEST_F(Files, AreAssignedByTheNumbersInTheirNamesOrTheirOwnOrder) {
  const auto network = chain("4", {kSquare, kSquare, kSquare});
  EXPECT_EQ(firsts({{"fc1.weight", {4, 4}}, {"fc10.weight", {4, 4}}, {"fc2.weight", {4, 4}}}, network), "1 3 2");
  EXPECT_EQ(firsts({{"in.weight", {4, 4}}, {"hidden.weight", {4, 4}}, {"out.weight", {4, 4}}}, network), "1 2 3")
      << "not by name, so the file's order is one of its own";
  const Tensors by_name{{"answer.weight", {4, 4}}, {"body.weight", {4, 4}}, {"stem.weight", {4, 4}}};
  const std::string refused = firsts(by_name, network);
  for (const char* part : {"'answer' and 'body' both fit", "--order NAME,NAME..."})
    EXPECT_NE(refused.find(part), std::string::npos) << refused;
  EXPECT_EQ(firsts(by_name, network, {.order = {"stem", "body", "answer"}}), "3 2 1");
  EXPECT_NE(firsts(by_name, network, {.order = {"stem", "body"}}).find("does not say where 'answer' is"),
            std::string::npos);
  EXPECT_NE(firsts(by_name, network, {.order = {"stem", "body", "stem"}}).find("no module 'stem' left"),
            std::string::npos);
}

TEST_F(Files, AreAssignedByTheNamesOfLayersInsideContainers) {
  const auto network = chain("4", {R"("type": "sequential", "layers": [
      {"type": "dense", "out": 4, "bias": false, "name": "stem"}, {"type": "dense", "out": 4, "bias": false,
       "name": "body"}])"});
  EXPECT_EQ(firsts({{"body.weight", {4, 4}}, {"stem.weight", {4, 4}}}, network), "2 1");
  EXPECT_NE(firsts({{"body.weight", {4, 4}}, {"stem.weight", {4, 3}}}, network)
                .find("'stem.weight' [4, 3] does not fit [0,0,0,0] layers[0] 'stem': dense (weight [4, 4])"),
            std::string::npos);
}

TEST_F(Files, TellAllThatFitsNothingAtOnce) {
  const auto network =
      chain("4", {kDense + "5", kDense + "6",
                  R"("type": "standardize", "mean": [0, 0, 0, 0, 0, 0], "deviation": [1, 1, 1, 1, 1, 1])"});
  const std::string text =
      firsts({{"a.weight", {5, 4}}, {"a.bias", {5}}, {"b.weight", {6, 4}}, {"b.bias", {6}}}, network);
  for (const char* part : {"[1,0,0,0]: dense (weight [6, 5], bias [6]): no tensors of the file fit",
                           "'b.weight' [6, 4], 'b.bias' [6]: no layer has just these weights"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  EXPECT_EQ(text.find("standardize"), std::string::npos) << text;
  const std::string missing = firsts({{"a.weight", {5, 4}}, {"a.bias", {5}}}, network);
  EXPECT_NE(missing.find("[1,0,0,0]: dense"), std::string::npos) << missing;
  EXPECT_EQ(missing.find("a.weight"), std::string::npos) << missing;
  const std::string more = firsts({{"a1.weight", {5, 4}}, {"a2.weight", {5, 4}}},
                                  chain("4", {R"("type": "dense", "out": 5, "bias": false)"}));
  EXPECT_NE(more.find("2 modules fit 1 layers: 'a1.weight' [5, 4], 'a2.weight' [5, 4]"), std::string::npos) << more;
  const std::string norm =
      firsts({{"n.running_mean", {5}}, {"n.running_var", {5}}, {"a.weight", {5, 4}}, {"a.bias", {5}}}, network);
  EXPECT_NE(norm.find("'n.running_mean' [5]"), std::string::npos) << norm;
}

TEST_F(Files, TakeTheTypesOfTheNetwork) {
  const auto network = chain("4", {kDense + R"(5, "dtype": "int8")"});
  const Tensors tensors{{"a.weight", {5, 4}}, {"a.bias", {5}}};
  auto mesh = imported(path(tensors), network);
  ASSERT_TRUE(mesh) << mesh.error().text();
  EXPECT_EQ(to_string(mesh::MeshAccess::weights(std::as_const(*mesh)).encoding_of(0)), "int8/channel");
  mesh = imported(path(tensors), network, {.encoding = Encoding(Dtype::float16)});
  ASSERT_TRUE(mesh) << mesh.error().text();
  EXPECT_EQ(to_string(mesh::MeshAccess::weights(std::as_const(*mesh)).encoding_of(0)), "float16");
  Floats values(20, 1.0f);
  values[1] = std::numeric_limits<float>::infinity();
  const std::string file = path(tensors);
  ASSERT_TRUE(formats::save_safetensors(
      storage::real_file_system(), file,
      {formats::make_tensor<float>("a.weight", Shape{5, 4}, values),
       formats::make_tensor<float>("a.bias", Shape{5}, std::span<const float>(values).last(5))}));
  const auto refused = imported(file, network);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::not_finite);
  EXPECT_TRUE(imported(file, network, {.allow_nonfinite = true}));
}

}  // namespace
}  // namespace weft::models::network_weights_test
