// SPDX-License-Identifier: Apache-2.0

// Convolutions in every type of weight, and in meshes. PyTorch: layer_goldens_test.cpp; finite differences:
// layers_test.cpp; bits on every instruction set: tests/kernels/op_cases.hpp.

#include "mesh/mesh_access.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/isa.hpp"
#include "kernels/quantize.hpp"

#include "goldens.hpp"

namespace weft::mesh::convolution_test {
namespace {

using namespace testing_support;
using List = std::vector<double>;

/// y, dx and the weight's gradient of a layer whose weight is stored as `encoding`.
std::vector<std::vector<float>> run_coded(const LayerSpec& spec, const Shape& in, const Encoding& encoding,
                                          Activations activations) {
  goldens::Sequence run(spec, in, 1, 2);
  const ParameterSpec& p = run.layer->parameters()[0];
  const auto values = run.parameter(0);
  AlignedBuffer<float> master(p.stored_size());
  kernels::pack_panels({values.data(), p.out, p.in, p.in}, {master.data(), p.out, p.in});
  const auto bytes = kernels::weight_bytes(encoding, p.out, p.in);
  AlignedBuffer<std::uint8_t> codes(bytes.codes), scales(bytes.scales), zero_points(bytes.zero_points);
  kernels::Weight stored;
  stored.codes = codes.data(), stored.scales = scales.data(), stored.zero_points = zero_points.data();
  stored.out = p.out, stored.in = p.in, stored.dtype = encoding.dtype, stored.granularity = encoding.granularity;
  kernels::quantize({master.data(), p.out, p.in}, stored);
  kernels::ConstWeight weight = stored;
  weight.activations = activations;
  run.set_weight(0, weight);
  run.forward(0, 2);
  run.backward();
  return {run.y, run.dx, run.gradient(0)};
}

TEST(Convolutions, TakeWeightsOfEveryKindWithTheSameBitsOnEveryInstructionSet) {
  for (const std::string type : {"conv2d", "conv_transposed2d"})
    for (const double groups : {1.0, 2.0, 6.0}) {
      const LayerSpec spec = goldens::layer(type,
                                            {{"kernel", 3.0},
                                             {"padding", 1.0},
                                             {"stride", List{1, 2}},
                                             {"groups", groups},
                                             {"activation", std::string("relu")}},
                                            12);
      for (const Dtype dtype : {Dtype::float32, Dtype::int8, Dtype::fp8_e4m3, Dtype::ternary, Dtype::float64}) {
        const Encoding encoding(dtype, Granularity::channel);
        std::vector<std::vector<float>> reference;
        for (const auto isa : kernels::available_isas()) {
          const ForIsa scope(isa);
          const auto got = run_coded(spec, {6, 7, 9}, encoding, Activations::int8);
          if (reference.empty()) reference = got;
          for (std::size_t i = 0; i < got.size(); ++i)
            EXPECT_EQ(bits(got[i]), bits(reference[i])) << type << " " << name(dtype) << " " << name(isa) << " " << i;
        }
        const auto plain = run_coded(spec, {6, 7, 9}, encoding, Activations::float32);
        const bool quantises = type == "conv2d" && (dtype == Dtype::int8 || dtype == Dtype::ternary);
        EXPECT_EQ(bits(plain[0]) != bits(reference[0]), quantises) << "activations are quantised";
        // Through relu, gradients differ where outputs do; without it they would not.
        if (!quantises) {
          EXPECT_EQ(bits(plain[1]), bits(reference[1])) << "gradients are never quantised";
        }
      }
    }
}

TEST(Convolutions, TickInAMeshAsTheyComputeAlone) {
  const auto spec = NetworkBuilder("eye", {1, 1, 3, 1})
                        .input("x", Shape{2, 6, 7})
                        .layer({0, 0, 0, 0}, "conv2d", 5)
                        .option("kernel", 3.0)
                        .option("padding", 1.0)
                        .layer({0, 0, 1, 0}, "max_pool")
                        .option("kernel", 2.0)
                        .dense({0, 0, 2, 0}, 3)
                        .output("y", {0, 0, 2, 0})
                        .seed(4)
                        .spec();
  std::string hash;
  for (const std::size_t threads : {1, 2}) {
    Mesh mesh = must(Mesh::build(spec, {.threads = threads, .sessions = 2, .grain_bytes = 0}));
    for (std::uint64_t t = 0; t < 4; ++t) {
      for (std::size_t s = 0; s < 2; ++s) must(mesh.set_input("x", noise(84, 10 * t + s), s));
      must(mesh.tick());
    }
    if (hash.empty()) hash = to_string(mesh.state_hash());
    EXPECT_EQ(to_string(mesh.state_hash()), hash) << threads << " threads";
    const NodeId node = *mesh.graph().find_layer({0, 0, 0, 0});
    const Layer& layer = *mesh.graph().nodes()[node].layer;
    EXPECT_EQ(layer.out_shape(), (Shape{5, 6, 7}));
    EXPECT_EQ(mesh.graph().nodes()[*mesh.graph().find_layer({0, 0, 1, 0})].layer->out_shape(), (Shape{5, 3, 3}));
    const kernels::FlushSubnormals exact;
    kernels::CpuStream stream;
    AlignedBuffer<float> workspace(layer.workspace_size());
    const auto x = noise(84, 31);
    std::vector<float> y(layer.out());
    layer.forward(stream, {MeshAccess::weights(mesh).view(node),
                           {x.data(), 1, 84, 84},
                           {},
                           {y.data(), 1, y.size(), y.size()},
                           {},
                           {},
                           {},
                           workspace.data()});
    EXPECT_EQ(bits(output_of(mesh, {0, 0, 0, 0}, 1)), bits(y)) << "the last tick's input of session 1";
  }
}

}  // namespace
}  // namespace weft::mesh::convolution_test
