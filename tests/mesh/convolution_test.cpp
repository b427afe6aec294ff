// SPDX-License-Identifier: Apache-2.0

// Convolutions and pools against PyTorch, in meshes, in every type of weight, and what they refuse. Finite differences
// and single rows of a batch: layers_test.cpp; bits on every instruction set: tests/kernels/convolve_test.cpp.

#include "mesh/mesh_access.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/isa.hpp"
#include "kernels/quantize.hpp"

#include "goldens.hpp"

namespace weft::mesh::convolution_test {
namespace {

using testing_support::bits;
using testing_support::must;
using testing_support::noise;
using testing_support::output_of;
using List = std::vector<double>;

LayerSpec spec_of(const std::string& type, std::size_t out, Options options) {
  LayerSpec spec;
  spec.type = type;
  spec.out = out;
  spec.options = std::move(options);
  return spec;
}

class Windows : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Types, Windows,
                         testing::Values("conv1d", "conv2d", "conv3d", "conv_transposed1d", "conv_transposed2d",
                                         "conv_transposed3d", "max_pool", "avg_pool", "adaptive_max_pool",
                                         "adaptive_avg_pool"),
                         [](const auto& type) { return type.param; });

TEST_P(Windows, ComputeAndSendBackWhatPyTorchDoes) {
  const auto rows = goldens::read(GetParam());
  ASSERT_GE(rows.size(), 12u);
  for (const goldens::Golden& golden : rows) goldens::expect_as_pytorch(golden);
}

TEST_P(Windows, ComputeTheSameBitsOnEveryInstructionSet) {
  const auto before = kernels::active_isa();
  for (const goldens::Golden& golden : goldens::read(GetParam())) {
    std::vector<std::uint32_t> y, dx;
    std::vector<std::vector<std::uint32_t>> gradients;
    for (const auto isa : kernels::available_isas()) {
      must(kernels::set_active_isa(isa));
      goldens::Sequence run(golden.spec, golden.in, 1, golden.rows);
      run.forward(0, golden.rows);
      run.backward();
      gradients.emplace_back();
      for (std::size_t i = 0; i < run.layer->parameters().size(); ++i) {
        const auto one = bits(run.gradient(i));
        gradients.back().insert(gradients.back().end(), one.begin(), one.end());
      }
      if (y.empty()) y = bits(run.y), dx = bits(run.dx);
      EXPECT_EQ(bits(run.y), y) << name(isa);
      EXPECT_EQ(bits(run.dx), dx) << name(isa);
      EXPECT_EQ(gradients.back(), gradients.front()) << name(isa);
    }
  }
  must(kernels::set_active_isa(before));
}

TEST(Convolutions, KnowTheirSizes) {
  const auto conv = must(make_layer(
      spec_of("conv2d", 6, {{"kernel", List{3, 5}}, {"stride", 2.0}, {"padding", List{1, 0}}, {"groups", 2.0}}),
      Shape{4, 9, 12}, "layer"));
  EXPECT_EQ(conv->out_shape(), (Shape{6, 5, 4}));
  EXPECT_EQ(conv->parameters()[0].out, 6u);
  EXPECT_EQ(conv->parameters()[0].in, 2u * 15);
  EXPECT_EQ(conv->parameters()[1].out, 6u);
  EXPECT_EQ(conv->multiply_adds(), 6.0 * 20 * 30);
  EXPECT_EQ(conv->mixing_matrix(), -1);
  const auto back = must(make_layer(
      spec_of("conv_transposed2d", 6,
              {{"kernel", 3.0}, {"stride", 2.0}, {"padding", 1.0}, {"output_padding", List{1, 0}}, {"groups", 2.0}}),
      Shape{4, 5, 4}, "layer"));
  EXPECT_EQ(back->out_shape(), (Shape{6, 10, 7}));
  EXPECT_EQ(back->parameters()[0].out, 4u);
  EXPECT_EQ(back->parameters()[0].in, 3u * 9);
  EXPECT_EQ(back->multiply_adds(), 4.0 * 20 * 27);
  // PyTorch: a window that would start in the lower padding is left out.
  const auto pool = must(make_layer(spec_of("max_pool", 0, {{"kernel", 2.0}, {"padding", 1.0}, {"ceil_mode", true}}),
                                    Shape{3, 7, 8}, "layer"));
  EXPECT_EQ(pool->out_shape(), (Shape{3, 4, 5}));
  EXPECT_EQ(must(make_layer(spec_of("adaptive_avg_pool", 3, {{"size", List{2, 9}}}), Shape{3, 7, 8}, "x"))->out_shape(),
            (Shape{3, 2, 9}));
}

TEST(Convolutions, StartFromTheDistributionOfTheirFans) {
  const auto deviation = [](const LayerSpec& spec, const Shape& in) {
    const auto layer = must(make_layer(spec, in, "layer"));
    const ParameterSpec& p = layer->parameters()[0];
    std::vector<float> values(p.out * p.in);
    RandomStream random(3, 0, RandomPurpose::init);
    p.init(random, values);
    double squares = 0;
    for (const float v : values) squares += double{v} * v;
    return squares / static_cast<double>(values.size());
  };
  // Variance 2 / fan in, whatever the output's channels: 5 standard errors.
  const Options he{{"kernel", 3.0}, {"init", std::string("he")}};
  EXPECT_NEAR(deviation(spec_of("conv2d", 64, he), {16, 5, 5}), 2.0 / 144, 5 * 2.0 / 144 * std::sqrt(2.0 / 9216));
  EXPECT_NEAR(deviation(spec_of("conv_transposed2d", 64, he), {16, 5, 5}), 2.0 / 144,
              5 * 2.0 / 144 * std::sqrt(2.0 / 9216));
  EXPECT_NEAR(deviation(spec_of("conv2d", 64, {{"kernel", 3.0}}), {16, 5, 5}), 2.0 / (144 + 576),
              5 * 2.0 / 720 * std::sqrt(2.0 / 9216));
  EXPECT_NEAR(deviation(spec_of("conv2d", 16, {{"kernel", 3.0}, {"init", std::string("orthogonal")}}), {16, 5, 5}),
              1.0 / 144, 1e-8)
      << "rows of length 1";
}

struct Refused {
  std::string type;
  Shape in;
  std::size_t out;
  Options options;
  Errc code;
  std::vector<std::string> fragments;
};

TEST(Convolutions, RefuseWhatCannotBe) {
  const std::vector<Refused> all = {
      {"conv2d",
       {3, 8, 8},
       0,
       {{"kernel", 3.0}},
       Errc::parse_failed,
       {".out", "needed and not given", "channels of the output"}},
      {"conv2d", {3, 8, 8}, 4, {}, Errc::parse_failed, {".kernel", "needed and not given"}},
      {"conv2d", {3, 8}, 4, {{"kernel", 3.0}}, Errc::shape_mismatch, {"[channels, height, width]", "[3, 8]", "view"}},
      {"conv1d", {3, 8, 8}, 4, {{"kernel", 3.0}}, Errc::shape_mismatch, {"[channels, length]", "[3, 8, 8]"}},
      {"conv3d", {3, 8, 8}, 4, {{"kernel", 3.0}}, Errc::shape_mismatch, {"[channels, depth, height, width]"}},
      {"conv2d", {3, 8, 4}, 4, {{"kernel", 5.0}}, Errc::shape_mismatch, {".kernel", "spans 5", "width", "is 4"}},
      {"conv2d",
       {3, 5, 9},
       4,
       {{"kernel", 3.0}, {"dilation", 4.0}, {"padding", List{1, 0}}},
       Errc::shape_mismatch,
       {".kernel", "spans 9", "height", "is 7"}},
      {"conv2d",
       {4, 8, 8},
       6,
       {{"kernel", 3.0}, {"groups", 4.0}},
       Errc::out_of_range,
       {".groups: 4", "4 input", "6 out"}},
      {"conv2d",
       {4, 8, 8},
       6,
       {{"kernel", 3.0}, {"groups", 3.0}},
       Errc::out_of_range,
       {".groups: 3", "4 input", "6 out"}},
      {"conv2d", {3, 8, 8}, 4, {{"kernel", List{3, 3, 3}}}, Errc::shape_mismatch, {".kernel", "3 numbers", "2 are"}},
      {"conv2d", {3, 8, 8}, 4, {{"kernel", 0.0}}, Errc::out_of_range, {".kernel", "0"}},
      {"conv2d", {3, 8, 8}, 4, {{"kernel", 1.5}}, Errc::out_of_range, {".kernel", "1.5"}},
      {"conv2d", {3, 8, 8}, 4, {{"kernel", 3.0}, {"stride", 0.0}}, Errc::out_of_range, {".stride"}},
      {"conv2d", {3, 8, 8}, 4, {{"kernel", 3.0}, {"strides", 2.0}}, Errc::unknown_name, {".strides", "'stride'"}},
      {"conv2d", {3, 8, 8}, 4, {{"kernel", 3.0}, {"output_padding", 1.0}}, Errc::unknown_name, {".output_padding"}},
      {"conv2d", {3, 8, 8}, 4, {{"kernel", 3.0}, {"activation", std::string("rely")}}, Errc::unknown_name, {"rely"}},
      {"conv2d", {3, 8, 8}, 4, {{"kernel", 3.0}, {"init", std::string("best")}}, Errc::unknown_name, {"best"}},
      {"conv2d", {1, 8, 8}, 4, {{"kernel", 3.0}, {"padding", 65536.0}}, Errc::too_large, {"2^31"}},
      {"conv_transposed2d",
       {3, 4, 4},
       4,
       {{"kernel", 3.0}, {"stride", List{2, 1}}, {"output_padding", 1.0}},
       Errc::out_of_range,
       {".output_padding: 1", "width", "below 1"}},
      {"conv_transposed2d",
       {3, 1, 4},
       4,
       {{"kernel", 3.0}, {"padding", 2.0}},
       Errc::shape_mismatch,
       {".padding: 2 x 2", "height", "3"}},
      {"conv_transposed1d", {3, 4}, 4, {{"kernel", 3.0}, {"groups", 2.0}}, Errc::out_of_range, {".groups: 2"}},
      {"max_pool", {3, 8, 8}, 5, {{"kernel", 2.0}}, Errc::shape_mismatch, {".out", "3 channels", "5"}},
      {"max_pool", {8}, 0, {{"kernel", 2.0}}, Errc::shape_mismatch, {"max_pool", "[8]"}},
      {"max_pool", {1, 2, 3, 4, 5}, 0, {{"kernel", 2.0}}, Errc::shape_mismatch, {"max_pool", "[1, 2, 3, 4, 5]"}},
      {"max_pool", {3, 8, 8}, 0, {}, Errc::parse_failed, {".kernel"}},
      {"max_pool", {3, 8, 8}, 0, {{"kernel", 3.0}, {"padding", 2.0}}, Errc::out_of_range, {".padding: 2", "kernel, 3"}},
      {"max_pool", {3, 2, 8}, 0, {{"kernel", 3.0}}, Errc::shape_mismatch, {".kernel", "spans 3", "height", "is 2"}},
      {"max_pool",
       {3, 2},
       0,
       {{"kernel", 2.0}, {"dilation", 3.0}, {"padding", 1.0}},
       Errc::shape_mismatch,
       {".dilation", "window 0", "2 elements", "3 apart"}},
      {"max_pool", {1, 4097, 4097}, 0, {{"kernel", 2.0}}, Errc::too_large, {"16785409", "16777216"}},
      {"avg_pool", {3, 8, 8}, 0, {{"kernel", 2.0}, {"dilation", 2.0}}, Errc::unknown_name, {".dilation"}},
      {"max_pool",
       {3, 8},
       0,
       {{"kernel", 2.0}, {"count_include_pad", false}},
       Errc::unknown_name,
       {"count_include_pad"}},
      {"adaptive_avg_pool", {3, 8, 8}, 0, {}, Errc::parse_failed, {".size"}},
      {"adaptive_max_pool", {3, 8, 8}, 0, {{"size", 0.0}}, Errc::out_of_range, {".size"}},
      {"adaptive_max_pool", {3, 8, 8}, 0, {{"size", List{1}}}, Errc::shape_mismatch, {".size", "1 numbers"}},
  };
  for (const Refused& refused : all) {
    SCOPED_TRACE(refused.type + " " + refused.fragments.front());
    const auto layer = make_layer(spec_of(refused.type, refused.out, refused.options), refused.in, "layers[3]");
    testing_support::expect_error(layer, refused.code, {"layers[3]"});
    if (layer.has_value()) continue;
    for (const std::string& fragment : refused.fragments)
      EXPECT_NE(layer.error().text().find(fragment), std::string::npos)
          << "'" << fragment << "' is missing in: " << layer.error().text();
  }
}

/// y, dx and the weight's gradient of a layer whose weight is stored as `encoding`.
std::vector<std::vector<float>> run_coded(const LayerSpec& spec, const Shape& in, const Encoding& encoding,
                                          Activations activations) {
  const auto layer = must(make_layer(spec, in, "layer"));
  const kernels::FlushSubnormals exact;
  kernels::CpuStream stream;
  const ParameterSpec& p = layer->parameters()[0];
  const auto values = noise(p.out * p.in, 6), bias = noise(layer->parameters()[1].out, 7);
  AlignedBuffer<float> master(p.stored_size()), sums(p.stored_size()), bias_sums(bias.size());
  AlignedBuffer<float> workspace(layer->workspace_size());
  kernels::pack_panels({values.data(), p.out, p.in, p.in}, {master.data(), p.out, p.in});
  const auto bytes = kernels::weight_bytes(encoding, p.out, p.in);
  AlignedBuffer<std::uint8_t> codes(bytes.codes), scales(bytes.scales), zeros(bytes.zeros);
  kernels::Weight stored;
  stored.codes = codes.data(), stored.scales = scales.data(), stored.zeros = zeros.data();
  stored.out = p.out, stored.in = p.in, stored.dtype = encoding.dtype, stored.granularity = encoding.granularity;
  kernels::quantize({master.data(), p.out, p.in}, stored);
  std::vector<kernels::ConstWeight> weights{stored, kernels::ConstPanels{bias.data(), bias.size(), 0}};
  weights[0].activations = activations;
  auto x = noise(2 * layer->in(), 1), dy = noise(2 * layer->out(), 2);
  std::vector<float> y(dy.size()), dx(x.size());
  const std::size_t n = layer->in(), m = layer->out();
  layer->forward(stream,
                 {{weights.data()}, {x.data(), 2, n, n}, {}, {y.data(), 2, m, m}, {}, {}, {}, workspace.data()});
  float* gradients[] = {sums.data(), bias_sums.data()};
  BackwardArgs args;
  args.weights = {weights.data()};
  args.x = {x.data(), 2, n, n};
  args.y = {y.data(), 2, m, m};
  args.dy = {dy.data(), 2, m, m};
  args.dx = {dx.data(), 2, n, n};
  args.gradients = {gradients};
  args.workspace = workspace.data();
  layer->backward(stream, args);
  return {y, dx, {sums.begin(), sums.end()}};
}

TEST(Convolutions, TakeWeightsOfEveryKindWithTheSameBitsOnEveryInstructionSet) {
  const auto before = kernels::active_isa();
  for (const std::string type : {"conv2d", "conv_transposed2d"})
    for (const double groups : {1.0, 2.0, 6.0}) {
      const LayerSpec spec = spec_of(type, 12,
                                     {{"kernel", 3.0},
                                      {"padding", 1.0},
                                      {"stride", List{1, 2}},
                                      {"groups", groups},
                                      {"activation", std::string("relu")}});
      for (const Dtype dtype : {Dtype::float32, Dtype::int8, Dtype::fp8_e4m3, Dtype::ternary, Dtype::float64}) {
        const Encoding encoding(dtype, Granularity::channel);
        std::vector<std::vector<float>> reference;
        for (const auto isa : kernels::available_isas()) {
          must(kernels::set_active_isa(isa));
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
  must(kernels::set_active_isa(before));
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
