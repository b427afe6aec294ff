// SPDX-License-Identifier: Apache-2.0

#include "mesh/weights/weight_store.hpp"

#include "mesh/mesh_access.hpp"

#include "kernels/cpu_stream.hpp"
#include "kernels/float_environment.hpp"
#include "kernels/linear.hpp"

#include "topology/machine.hpp"

#include "testing.hpp"
#include <fstream>
#include <set>

namespace weft::mesh::weight_store_test {
namespace {

using namespace testing_support;

constexpr Coord kFirst{0, 0, 0, 0}, kSecond{0, 0, 1, 0};

NetworkSpec two_layers(Dtype dtype, std::size_t in = 70, std::size_t width = 33) {
  return NetworkBuilder("two", {1, 1, 2, 1})
      .input("in", in)
      .dense(kFirst, width, kernels::Activation::tanh)
      .dtype(dtype)
      .dense(kSecond, 5)
      .output("out", kSecond)
      .seed(3)
      .spec();
}

std::vector<Encoding> all_encodings() {
  std::vector<Encoding> all;
  for (int i = 0; i < kDtypeCount; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    for (const Granularity g : kGranularities)
      if (g == Granularity::tensor || (has_scale(dtype) && check_granularity(dtype, g))) all.emplace_back(dtype, g);
  }
  return all;
}

NodeId node_at(const Mesh& mesh, Coord at) { return *mesh.graph().find_layer(at); }

class OfType : public ::testing::TestWithParam<Encoding> {};
INSTANTIATE_TEST_SUITE_P(Encodings, OfType, ::testing::ValuesIn(all_encodings()), [](const auto& row) {
  return std::string(name(row.param.dtype)) + "_" + std::string(name(row.param.granularity));
});

TEST_P(OfType, ComputesWithWhatItsStoredWeightsDequantizeTo) {
  Mesh mesh = must(Mesh::build(two_layers(Dtype::float32)));
  const NodeId node = node_at(mesh, kFirst);
  must(MeshAccess::weights(mesh).morph(node, "first", GetParam()));
  EXPECT_EQ(MeshAccess::weights(mesh).encoding(node), GetParam());
  const auto input = noise(70, 5);
  must(mesh.set_input("in", input));
  must(mesh.tick());
  // The same sum in float64 over dequantized weights; int8 activations differ by at most half a step of each block.
  AlignedBuffer<float> dequantized(kernels::panels_size(33, 70));
  if (const QuantizedWeight* stored = MeshAccess::weights(mesh).stored(MeshAccess::weights(mesh).first(node)))
    stored->dequantize({dequantized.data(), 33, 70});
  else
    std::copy_n(MeshAccess::weights(mesh).of(node)[0].data, dequantized.size(), dequantized.data());
  const auto y = output_of(mesh, kFirst);
  const bool is_quantized = has_integer_kernel(GetParam().dtype);
  for (std::size_t o = 0; o < 33; ++o) {
    double z = MeshAccess::weights(mesh).of(node)[1].data[o], slack = 1e-5;
    for (std::size_t k = 0; k < 70; ++k) {
      const double w = dequantized[kernels::panel_index(70, o, k)];
      z += w * input[k];
      double largest = 0;
      for (std::size_t j = k / 32 * 32; j < std::min<std::size_t>(70, k / 32 * 32 + 32); ++j)
        largest = std::max(largest, std::fabs(double(input[j])));
      if (is_quantized) slack += std::fabs(w) * largest / 127 / 2;
    }
    EXPECT_NEAR(y[o], std::tanh(z), slack) << o;
  }
}

TEST_P(OfType, TakesItsTrueSize) {
  constexpr std::size_t kOut = 256, kIn = 512;
  Mesh mesh = must(Mesh::build(two_layers(Dtype::float32, kIn, kOut)));
  const NodeId node = node_at(mesh, kFirst);
  must(MeshAccess::weights(mesh).morph(node, "first", GetParam()));
  const std::size_t codes = kOut * kIn * static_cast<std::size_t>(weft::bits(GetParam().dtype)) / 8;
  const std::size_t groups = !has_scale(GetParam().dtype)                     ? 0
                             : GetParam().granularity == Granularity::tensor  ? 1
                             : GetParam().granularity == Granularity::channel ? kOut
                                                                              : kOut * kIn / 32;
  const std::size_t scale = has_double_scale(GetParam().dtype)                   ? 8
                            : GetParam().granularity == Granularity::block32_f16 ? 2
                                                                                 : 4;
  const std::size_t zero =
      has_zero_point(GetParam().dtype) ? static_cast<std::size_t>(std::max(weft::bits(GetParam().dtype), 8)) / 8 : 0;
  EXPECT_EQ(MeshAccess::weights(mesh).bytes(node), codes + groups * (scale + zero) + kOut * sizeof(float));
}

TEST_P(OfType, IsTheSameWhenItBeganThatWay) {
  NetworkSpec spec = two_layers(GetParam().dtype);
  if (has_scale(GetParam().dtype)) spec.layers[0].granularity = GetParam().granularity;
  Mesh started = must(Mesh::build(spec)), morphed = must(Mesh::build(two_layers(Dtype::float32)));
  must(MeshAccess::weights(morphed).morph(node_at(morphed, kFirst), "first", GetParam()));
  EXPECT_EQ(started.state_hash(), morphed.state_hash());
  EXPECT_EQ(morphed.current_spec().layers[0].dtype, GetParam().dtype);
}

TEST_P(OfType, ComesBackToItsMasterAndToWhatWasLeftOfIt) {
  Mesh mesh = must(Mesh::build(two_layers(Dtype::float32)));
  const NodeId node = node_at(mesh, kFirst);
  WeightStore& weights = MeshAccess::weights(mesh);
  const auto before = weights.read(weights.of(node)[0]);
  must(weights.morph(node, "first", GetParam()));
  must(weights.morph(node, "first", Encoding(Dtype::float32)));
  EXPECT_EQ(bits(weights.read(weights.of(node)[0])), bits(before));
  if (GetParam().dtype == Dtype::float32) return;
  // Without the master, what comes back is what the type kept, and it stays so.
  must(weights.morph(node, "first", GetParam()));
  const auto dequantize = [&] {
    AlignedBuffer<float> panels(kernels::panels_size(33, 70));
    weights.stored(weights.first(node))->dequantize({panels.data(), 33, 70});
    std::vector<float> rows(33 * 70);
    kernels::unpack_panels({panels.data(), 33, 70}, {rows.data(), 33, 70, 70});
    return rows;
  };
  const auto kept = dequantize();
  const NodeId nodes[] = {node};
  must(weights.release_masters(mesh.graph(), nodes));
  EXPECT_FALSE(weights.learns(node));
  EXPECT_EQ(bits(weights.read(weights.of(node)[0])), bits(kept));
  must(weights.morph(node, "first", Encoding(Dtype::float32)));
  EXPECT_TRUE(weights.learns(node));
  EXPECT_EQ(bits(weights.read(weights.of(node)[0])), bits(kept));
}

TEST(WeightStore, LeavesOtherLayersAlone) {
  Mesh mesh = must(Mesh::build(two_layers(Dtype::float32)));
  const NodeId second = node_at(mesh, kSecond);
  const void* const before = MeshAccess::weights(mesh).view(second).matrix(0).codes;
  must(MeshAccess::weights(mesh).morph(node_at(mesh, kFirst), "first", Encoding(Dtype::int4)));
  EXPECT_EQ(MeshAccess::weights(mesh).view(second).matrix(0).codes, before);
  EXPECT_EQ(MeshAccess::weights(mesh).encoding(second), Encoding(Dtype::float32));
}

TEST(WeightStore, GivesReleasedMastersBackToTheSystem) {
  constexpr std::size_t kWide = 1024;
  MeshOptions options{.threads = 1};
  Mesh mesh = must(Mesh::build(two_layers(Dtype::float32, kWide, kWide), options));
  const NodeId nodes[] = {node_at(mesh, kFirst)};
  const std::uint64_t before = MeshAccess::weights(mesh).allocated_bytes();
  must(MeshAccess::weights(mesh).morph(nodes[0], "first", Encoding(Dtype::int4)));
  EXPECT_GT(MeshAccess::weights(mesh).allocated_bytes(), before + kWide * kWide / 2);
  must(MeshAccess::weights(mesh).release_masters(mesh.graph(), nodes));
  EXPECT_LT(MeshAccess::weights(mesh).allocated_bytes(), kWide * kWide * 3 / 4);
  // The other way: never made.
  options.keeps_masters = false;
  const Mesh small = must(Mesh::build(two_layers(Dtype::int4, kWide, kWide), options));
  EXPECT_EQ(MeshAccess::weights(small).allocated_bytes(), MeshAccess::weights(mesh).allocated_bytes());
  EXPECT_FALSE(MeshAccess::weights(small).learns(nodes[0]));
  EXPECT_EQ(MeshAccess::weights(small).read(MeshAccess::weights(small).of(nodes[0])[0]),
            MeshAccess::weights(mesh).read(MeshAccess::weights(mesh).of(nodes[0])[0]));
}

TEST(WeightStore, AccountsForWhatTheAllocatorGave) {
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    std::uint64_t size = 0, pages = 0;
    file >> size >> pages;
    return pages * 4096;
  };
#ifdef WEFT_SANITIZED
  GTEST_SKIP() << "a sanitizer keeps freed memory";
#endif
  constexpr std::size_t kWide = 4096;
  Mesh mesh = must(Mesh::build(two_layers(Dtype::float32, kWide, kWide), {.threads = 1}));
  const NodeId nodes[] = {node_at(mesh, kFirst)};
  const auto at_first = static_cast<double>(resident());
  const auto held = static_cast<double>(MeshAccess::weights(mesh).allocated_bytes());
  must(MeshAccess::weights(mesh).morph(nodes[0], "first", Encoding(Dtype::int8)));
  must(MeshAccess::weights(mesh).release_masters(mesh.graph(), nodes));
  const double gone = at_first - static_cast<double>(resident());
  const double stated = held - static_cast<double>(MeshAccess::weights(mesh).allocated_bytes());
  EXPECT_NEAR(gone, stated, 2.0 * 1024 * 1024) << "of " << held;
}

TEST(WeightStore, RefusesWhatCannotBe) {
  Mesh mesh = must(Mesh::build(
      NetworkBuilder("n", {1, 1, 2, 1}).input("in", 4).dense(kFirst, 4).layer(kSecond, "layer_norm").spec()));
  WeightStore& weights = MeshAccess::weights(mesh);
  const NodeId first = node_at(mesh, kFirst), second = node_at(mesh, kSecond);
  expect_error(weights.morph(second, "layers[1]", Encoding(Dtype::int8)), Errc::unsupported,
               {"layers[1]", "no weight matrix", "int8/channel"});
  const NodeId nodes[] = {first};
  expect_error(weights.release_masters(mesh.graph(), nodes), Errc::unsupported, {"layers[0]", "morph it"});
  weights.of(first)[0].data[kernels::panel_index(4, 2, 1)] = NAN;
  const Hash128 before = mesh.state_hash();
  expect_error(weights.morph(first, "layers[0]", Encoding(Dtype::int4)), Errc::not_finite,
               {"layers[0] 'weight'", "weight 9", "nan", "int4/block32"});
  expect_error(weights.morph(first, "layers[0]", Encoding(Dtype::float16)), Errc::not_finite, {"weight 9", "float16"});
  expect_error(weights.morph(first, "layers[0]", Encoding(Dtype::int4), true), Errc::not_finite, {"weight 9"});
  EXPECT_EQ(mesh.state_hash(), before);
  EXPECT_EQ(weights.encoding(first), Encoding());
  EXPECT_TRUE(weights.morph(first, "layers[0]", Encoding(Dtype::float16), true).has_value());
}

// A view outlives the codes that it was made with, so what it says of them must follow.
TEST(QuantizedWeight, SaysWhetherItsCodesAreFreeOfNans) {
  topology::NodeMemory memory(must(topology::Machine::discover()));
  QuantizedWeight stored = must(QuantizedWeight::make(Encoding(Dtype::fp8_e4m3), 33, 64, memory, 0));
  const kernels::ConstWeight view = stored.view();
  EXPECT_EQ(*view.nan_free, 0) << "nobody has looked yet";
  AlignedBuffer<float> master(kernels::panels_size(33, 64));
  for (std::size_t i = 0; i < master.size(); ++i) master[i] = i % 16 == 0 ? 0.5f : 0.0f;
  const auto quantize = [&](float value) {
    master[kernels::panel_index(64, 32, 63)] = value;
    stored.quantize({master.data(), 33, 64});
    return int{*view.nan_free};
  };
  EXPECT_EQ(quantize(1.0f), 1);
  const auto finite = stored.ordered();
  EXPECT_EQ(quantize(std::numeric_limits<float>::quiet_NaN()), 0);
  EXPECT_EQ(stored.first_not_finite(), 32u * 64 + 63);
  const auto with_nan = stored.ordered();
  must(stored.restore(finite.codes, finite.scales, finite.zero_points));
  EXPECT_EQ(*view.nan_free, 1);
  EXPECT_FALSE(stored.restore({}, finite.scales, finite.zero_points));
  EXPECT_EQ(*view.nan_free, 1) << "nothing changed";
  must(stored.restore(with_nan.codes, with_nan.scales, with_nan.zero_points));
  EXPECT_EQ(*view.nan_free, 0);
  const std::vector<std::byte> block(stored.block(),
                                     stored.block() + QuantizedWeight::block_size(stored.encoding(), 33, 64));
  EXPECT_EQ(*QuantizedWeight::view(block.data(), stored.encoding(), 33, 64).nan_free, 0);
  EXPECT_EQ(quantize(2.0f), 1);
  EXPECT_EQ(must(QuantizedWeight::make(Encoding(Dtype::fp8_e5m2), 33, 64, memory, 0)).view().nan_free, nullptr);
}

TEST(WeightStore, ReportsHowFarTheStoredWeightsAreFromTheirMasters) {
  Mesh mesh = must(Mesh::build(two_layers(Dtype::float32)));
  WeightStore& weights = MeshAccess::weights(mesh);
  const std::size_t i = weights.first(node_at(mesh, kFirst));
  const kernels::ConstPanels master{weights.parameters()[i].data, 33, 70};
  double last = 0;
  for (const Dtype dtype : {Dtype::float32, Dtype::float16, Dtype::int8, Dtype::int4, Dtype::ternary, Dtype::binary}) {
    if (dtype == Dtype::float32) continue;
    const QuantizationError error = quantized(weights, i, Encoding(dtype)).error(master);
    EXPECT_GT(error.rmse, last) << name(dtype);
    EXPECT_GE(error.largest, error.rmse);
    EXPECT_LT(error.cosine, 1.0);
    EXPECT_GT(error.cosine, 0.6);
    last = error.rmse;
  }
}

}  // namespace
}  // namespace weft::mesh::weight_store_test
