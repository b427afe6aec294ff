// SPDX-License-Identifier: Apache-2.0

// Layers inside containers that say how their own weights are stored. How they learn:
// tests/learning/container_types_test.cpp; on devices, and every instruction set: tests/conformance.

#include "mesh/layers/container.hpp"
#include "mesh/memory/memory_estimate.hpp"
#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/network/network_digest.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/weights/weight_store.hpp"

#include "goldens.hpp"
#include "testing.hpp"

namespace weft::mesh::container_types_test {
namespace {

using namespace testing_support;

NetworkSpec network(const std::string& container, const std::string& keys = "") {
  return must(read_network(R"({"weft": 2, "seed": 3, "inputs": {"x": [70]}, "chain": [{"type": "sequential", )" + keys +
                               R"("layers": [)" + container + "]}]}",
                           "types"));
}

const char* const kMixed = R"(
  {"type": "dense", "out": 40, "activation": "tanh"},
  {"type": "dense", "out": 64, "dtype": "int8", "granularity": "tensor", "activations": "float"},
  {"type": "parallel", "merge": "add", "dtype": "ternary", "layers": [
    {"type": "dense", "out": 8},
    {"type": "sequential", "layers": [{"type": "dense", "out": 8, "dtype": "float32"}]}]})";

std::vector<std::string> encodings(const WeightStore& weights) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < weights.parameters().size(); ++i)
    if (weights.parameters()[i].spec->is_matrix()) all.push_back(to_string(weights.encoding_of(i)));
  return all;
}

TEST(ContainerTypes, StoreEachLayerAsItSays) {
  const Mesh mesh = must(Mesh::build(network(kMixed, R"("dtype": "int4", )")));
  const WeightStore& weights = MeshAccess::weights(mesh);
  EXPECT_EQ(encodings(weights), (std::vector<std::string>{"int4/block32", "int8/tensor", "ternary/tensor", "float32"}));
  EXPECT_EQ(weights.view(1).matrix(0).activations, Activations::int8);
  EXPECT_EQ(weights.view(1).matrix(2).activations, Activations::float32);
  // Codes, float32 scales and biases: int4 of 40 x 70 in blocks of 32, int8 of 64 x 40, ternary and float32 of 8 x 64.
  // Panels hold 16 rows, words of int4 8 codes.
  const std::uint64_t wanted = (48 * 72 / 2 + 48 * 3 * 4) + (64 * 40 + 4) + (16 * 64 / 4 + 4) + 16 * 64 * 4;
  EXPECT_EQ(weights.bytes(1), wanted + (40 + 64 + 8 + 8) * 4);
  EXPECT_EQ(weight_bytes(mesh.graph().nodes()[1]), weights.bytes(1)) << "as it is estimated";
}

// The same layers compute the same when each has a cell of the grid.
TEST(ContainerTypes, ComputeWhatTheSameLayersDoInCellsOfTheirOwn) {
  const std::string first = R"({"type": "dense", "out": 40, "activation": "tanh", "dtype": "int4")",
                    second = R"({"type": "dense", "out": 33, "dtype": "int8", "granularity": "channel")",
                    third = R"({"type": "dense", "out": 5)";
  const NetworkSpec inside =
      network(first + "}," + second + "}," + third + R"(, "dtype": "float32"})", R"("dtype": "fp4", )");
  Mesh container = must(Mesh::build(inside));
  Mesh cells = must(Mesh::build(must(read_network(
      R"({"weft": 2, "seed": 3, "inputs": {"x": [70]}, "chain": [)" + first + "}," + second + "}," + third + "}]}",
      "cells"))));
  WeightStore& from = MeshAccess::weights(container);
  WeightStore& to = MeshAccess::weights(cells);
  ASSERT_EQ(from.parameters().size(), to.parameters().size());
  for (std::size_t i = 0; i < from.parameters().size(); ++i)
    must(to.write(to.parameters()[i], from.read(from.parameters()[i]), "w"));
  const auto x = noise(70, 9);
  std::vector<float> y(5), z(5);
  const RunInput input{"x", x};
  const RunOutput one{"y", y}, other{"y", z};
  must(container.forward({&input, 1}, 1, {&one, 1}));
  must(cells.forward({&input, 1}, 1, {&other, 1}));
  EXPECT_EQ(bits(y), bits(z));
  EXPECT_EQ(std::count(y.begin(), y.end(), 0.0f), 0);
}

TEST(ContainerTypes, SurviveAFileAndAnotherMesh) {
  const NetworkSpec spec = network(kMixed, R"("dtype": "int4", "qat": true, )");
  const NetworkSpec again = must(read_network(must(write_network(spec)), "again"));
  EXPECT_EQ(must(write_network(again)), must(write_network(spec)));
  EXPECT_TRUE(again.layers[0].layers[2].layers[1].layers[0].dtype.is_stated()) << "float32 in an int4 container";
  Mesh mesh = must(Mesh::build(spec)), other = must(Mesh::build(again));
  must(restore_weights(other, must(formats::decode_entity(must(encode_mesh(mesh, false)), "file"))));
  EXPECT_EQ(encodings(MeshAccess::weights(other)), encodings(MeshAccess::weights(mesh)));
  const auto answer = [x = noise(70, 9)](Mesh& of) {
    std::vector<float> y(8);
    const RunInput input{"x", x};
    const RunOutput output{"y", y};
    must(of.forward({&input, 1}, 1, {&output, 1}));
    return bits(y);
  };
  EXPECT_EQ(answer(other), answer(mesh));
}

// Of a network without such keys nothing changes; what is said is part of the network.
TEST(ContainerTypes, ArePartOfTheNetworksDigestWhereTheyChangeWhatItComputes) {
  const auto digest = [](const std::string& inside, const std::string& keys = "") {
    return network_digest(must(Graph::build(network(inside, keys))));
  };
  const std::string plain = R"({"type": "dense", "out": 4})";
  EXPECT_EQ(digest(plain), digest(R"({"type": "dense", "out": 4, "dtype": "int8", "qat": true})"))
      << "types are the weights', not the network's";
  EXPECT_NE(digest(plain), digest(R"({"type": "dense", "out": 4, "activations": "float"})"));
  EXPECT_NE(digest(plain, R"("activations": "float", )"),
            digest(R"({"type": "dense", "out": 4, "activations": "int8"})", R"("activations": "float", )"));
}

TEST(ContainerTypes, StayWhenTheContainerIsMorphed) {
  Mesh mesh = must(Mesh::build(network(kMixed)));
  WeightStore& weights = MeshAccess::weights(mesh);
  EXPECT_EQ(encodings(weights), (std::vector<std::string>{"float32", "int8/tensor", "ternary/tensor", "float32"}));
  must(weights.morph(1, "cell", Encoding(Dtype::bfloat16)));
  EXPECT_EQ(encodings(weights), (std::vector<std::string>{"bfloat16", "int8/tensor", "ternary/tensor", "float32"}));
  EXPECT_EQ(mesh.current_spec().layers[0].dtype, Dtype::bfloat16);
  EXPECT_FALSE(mesh.current_spec().layers[0].layers[0].dtype.is_stated());

  Mesh own = must(Mesh::build(network(R"({"type": "dense", "out": 4, "dtype": "int8"})")));
  expect_error(MeshAccess::weights(own).morph(1, "cell", Encoding(Dtype::int4)), Errc::unsupported,
               {"cell", "int4", "say their own types"});
}

TEST(ContainerTypes, ReleaseTheMastersOfWhatIsStored) {
  Mesh mesh = must(Mesh::build(network(kMixed)));
  WeightStore& weights = MeshAccess::weights(mesh);
  const NodeId node = 1;
  must(weights.release_masters(mesh.graph(), {&node, 1}));
  EXPECT_FALSE(weights.learns(node));
  for (std::size_t i = 0; i < weights.parameters().size(); ++i)
    EXPECT_EQ(weights.parameters()[i].data == nullptr, weights.stored(i) != nullptr) << i;
  const auto mesh_without = must(Mesh::build(network(kMixed), {.keeps_masters = false}));
  for (const auto& parameter : MeshAccess::weights(mesh_without).parameters())
    EXPECT_EQ(parameter.data == nullptr, MeshAccess::weights(mesh_without).stored(parameter.index) != nullptr);
}

TEST(ContainerTypes, AreRefusedWhereTheySayNothing) {
  const auto refuse = [](const std::string& inside, Errc code, std::initializer_list<std::string_view> words) {
    SCOPED_TRACE(inside);
    expect_error(Graph::build(network(inside)), code, words);
  };
  const std::string dense = R"({"type": "dense", "out": 4, )";
  refuse(dense + R"("granularity": "channel"})", Errc::unsupported, {"layers[0].layers[0].granularity", "dtype"});
  refuse(dense + R"("dtype": "bfloat16", "granularity": "channel"})", Errc::unsupported, {".granularity", "no scales"});
  refuse(dense + R"("dtype": "uint32", "granularity": "block32_f16"})", Errc::unsupported,
         {".granularity", "uint32", "float64", "block32_f16"});
  refuse(dense + R"("policy": "isolate"})", Errc::unsupported, {".layers[0].policy", "container"});
  refuse(dense + R"("device": "vulkan"})", Errc::unsupported, {".layers[0].device", "cpu"});
  refuse(dense + R"("activation_dtype": "bfloat16"})", Errc::unsupported, {".activation_dtype", "container"});
  refuse(R"({"type": "rms_norm", "dtype": "int8"})", Errc::unsupported, {".layers[0].dtype", "rms_norm", "matrix"});
  refuse(R"({"type": "rms_norm", "qat": true})", Errc::unsupported, {".layers[0].qat", "matrix"});
  refuse(R"({"type": "identity", "freeze": true})", Errc::unsupported, {".layers[0].freeze", "identity"});
  refuse(R"({"type": "identity", "rate_scale": 0.5})", Errc::unsupported, {".layers[0].rate_scale"});
}

}  // namespace
}  // namespace weft::mesh::container_types_test
