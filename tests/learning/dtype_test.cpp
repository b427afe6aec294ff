// SPDX-License-Identifier: Apache-2.0

// Weights of every type: the same bits in ticks on any number of threads and instruction set, and in files; errors
// travel back through what computed. Learning: exactness_test.cpp.

#include "kernels/linear.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <cmath>
#include <fstream>
#include <iterator>

namespace weft::learning::dtype_test {
namespace {

#ifdef WEFT_SANITIZED
constexpr std::uint64_t kMorphTicks = 2000;
#else
constexpr std::uint64_t kMorphTicks = 100000;
#endif

using namespace mesh::testing_support;
using namespace test;

class OfType : public ::testing::TestWithParam<std::tuple<int, Activations>> {
 protected:
  static mesh::NetworkSpec network() {
    return in_type(mixed_network(3), static_cast<Dtype>(std::get<0>(GetParam())), std::get<1>(GetParam()), true);
  }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, OfType,
                         ::testing::Combine(::testing::Range(0, kDtypeCount),
                                            ::testing::Values(Activations::int8, Activations::float32)),
                         [](const auto& row) {
                           return std::string(name(static_cast<Dtype>(std::get<0>(row.param)))) + "_" +
                                  std::string(name(std::get<1>(row.param)));
                         });

TEST_P(OfType, ManyTicksAtOnceAreTheSameAsOneByOne) {
  constexpr std::uint64_t kTicks = 40;
  const auto spec = network();
  const auto a = noise(kTicks * 7, 1), b = noise(kTicks * 5, 2);
  mesh::Mesh one = must(mesh::Mesh::build(spec, shape()));
  for (std::uint64_t t = 0; t < kTicks; ++t) {
    must(one.set_input("a", std::span(a).subspan(t * 7, 7)));
    must(one.set_input("b", std::span(b).subspan(t * 5, 5)));
    must(one.tick());
  }
  for (const kernels::Isa isa : kernels::available_isas()) {
    const ForIsa scope(isa);
    for (const std::size_t threads : {1, 2, 7}) {
      auto all = mesh::Mesh::build(spec, shape(threads));
      const mesh::RunInput inputs[] = {{"a", a}, {"b", b}};
      ASSERT_TRUE(all->run(inputs, kTicks));
      EXPECT_EQ(all->state_hash(), one.state_hash()) << name(isa) << " " << threads << " threads";
    }
  }
}

TEST_P(OfType, SavesTheSameBytesThatItLoaded) {
  for (const bool live : {false, true}) {
    mesh::Mesh mesh = must(mesh::Mesh::build(network(), shape()));
    must(mesh.set_input("a", noise(7, 1)));
    must(mesh.tick(3));
    const ByteBuffer first = must(mesh::encode_mesh(mesh, live, {}));
    mesh::Mesh again = mesh_of_file(first, shape(2));
    if (live) {
      EXPECT_EQ(again.state_hash(), mesh.state_hash());
    }
    const ByteBuffer second = must(mesh::encode_mesh(again, live, {}));
    EXPECT_TRUE(std::equal(first.begin(), first.end(), second.begin(), second.end())) << "live: " << live;
  }
}

TEST(QuantizationAware, ErrorsTravelBackThroughTheStoredWeights) {
  // in -> hidden (int2 of tensor granularity) -> middle (float32) -> out: what the middle layer's error becomes for the
  // first depends on which weights of the hidden layer it went through.
  const auto moved = [](bool aware) {
    auto spec = mesh::NetworkBuilder("straight", {1, 1, 3, 1})
                    .input("in", 6)
                    .dense({0, 0, 0, 0}, 8, kernels::Activation::tanh)
                    .dense({0, 0, 1, 0}, 8)
                    .dtype(Dtype::ternary)
                    .activations(Activations::float32)
                    .quantization_aware(aware)
                    .dense({0, 0, 2, 0}, 3)
                    .output("out", {0, 0, 2, 0})
                    .seed(5)
                    .spec();
    LearningRun run(spec, {.loss = Loss::mse, .optimizer = {.kind = OptimizerKind::sgd, .lr = 1.0f}});
    mesh::WeightStore& weights = run.store();
    const auto hidden = run.node({0, 0, 1, 0});
    const auto w1 = run.weights({0, 0, 0, 0})[0], master = run.weights({0, 0, 1, 0})[0],
               w3 = run.weights({0, 0, 2, 0})[0];
    AlignedBuffer<float> panels(kernels::panels_size(8, 8));
    weights.stored(weights.first(hidden))->dequantize({panels.data(), 8, 8});
    std::vector<float> stored(64);
    kernels::unpack_panels({panels.data(), 8, 8}, {stored.data(), 8, 8, 8});

    const auto x = noise(6, 3), wanted = noise(3, 4);
    run.train(x, {}, wanted);
    const auto after = run.weights({0, 0, 0, 0})[0];

    // The same step in float64.
    std::vector<double> h(8), m(8), dm(8, 0), dh(8, 0);
    for (std::size_t o = 0; o < 8; ++o) {
      double z = 0;
      for (std::size_t k = 0; k < 6; ++k) z += double(w1[o * 6 + k]) * x[k];
      h[o] = std::tanh(z);
    }
    for (std::size_t o = 0; o < 8; ++o) {
      m[o] = 0;
      for (std::size_t k = 0; k < 8; ++k) m[o] += double(stored[o * 8 + k]) * h[k];
    }
    for (std::size_t o = 0; o < 3; ++o) {
      double y = 0;
      for (std::size_t k = 0; k < 8; ++k) y += double(w3[o * 8 + k]) * m[k];
      for (std::size_t k = 0; k < 8; ++k) dm[k] += 2.0 * (y - wanted[o]) / 3.0 * w3[o * 8 + k];
    }
    double worst = 0;
    const auto& through = aware ? stored : master;
    for (std::size_t o = 0; o < 8; ++o)
      for (std::size_t k = 0; k < 8; ++k) dh[k] += dm[o] * through[o * 8 + k];
    for (std::size_t o = 0; o < 8; ++o)
      for (std::size_t k = 0; k < 6; ++k) {
        const double expected = w1[o * 6 + k] - dh[o] * (1 - h[o] * h[o]) * x[k];
        worst = std::max(worst, std::fabs(after[o * 6 + k] - expected));
      }
    EXPECT_LT(worst, 1e-5) << (aware ? "qat" : "through masters");
    return after;
  };
  EXPECT_NE(moved(true), moved(false));
}

TEST(Morph, ALayerWithoutMasterPassesErrorsOnAndStaysAsItIs) {
  LearningOptions options;
  options.optimizer.lr = 0.01f;
  options.optimizer.weight_decay = 0.1f;
  mesh::Mesh mesh = must(mesh::Mesh::build(mixed_network(3), shape()));
  mesh::WeightStore& weights = mesh::MeshAccess::weights(mesh);
  const auto frozen = *mesh.graph().find_layer({1, 0, 1, 0}), before_it = *mesh.graph().find_layer({0, 0, 0, 0});
  must(weights.morph(frozen, "frozen", Encoding(Dtype::int8)));
  const mesh::NodeId nodes[] = {frozen};
  must(weights.release_masters(mesh.graph(), nodes));
  const auto kept = weights.read(weights.of(frozen)[0]), moved = weights.read(weights.of(before_it)[0]);
  const auto learner = must(Learner::build(mesh, options));
  Samples(mixed_network(3), options, 50).train(*learner, 0, 50);
  EXPECT_EQ(weights.read(weights.of(frozen)[0]), kept);
  EXPECT_NE(weights.read(weights.of(before_it)[0]), moved);
}

/// A run that morphs a random layer to a random type every 100 ticks, by commands to running cells.
Hash128 morphing_run(std::size_t threads, std::uint64_t ticks, std::vector<std::uint64_t>* resident) {
  mesh::Mesh mesh = must(mesh::Mesh::build(mixed_network(3), shape(threads)));
  std::vector<Coord> places;
  for (const mesh::LayerSpec& layer : mesh.spec().layers)
    if (layer.type == "dense") places.push_back(layer.at);
  RandomStream random(17, 0, RandomPurpose::test);
  const auto draw = [&](std::size_t n) { return random.next_below(static_cast<std::uint32_t>(n)); };
  const auto a = noise(7, 1), b = noise(5, 2);
  for (std::uint64_t t = 0; t < ticks; t += 100) {
    const Coord at = places[draw(places.size())];
    const auto dtype = static_cast<Dtype>(draw(kDtypeCount));
    const auto granularity = static_cast<Granularity>(draw(std::size(kGranularities)));
    const Encoding encoding(dtype, check_granularity(dtype, granularity) ? granularity : Granularity::block32);
    const auto morph = post(mesh, at, {.kind = mesh::CommandKind::morph, .encoding = encoding, .level = at.l});
    must(mesh.set_input("a", a));
    must(mesh.set_input("b", b));
    must(mesh.tick(100));
    WEFT_ASSERT(morph->is_done() && morph->status(), "the morph at tick " + std::to_string(t));
    if (resident && t % 10000 == 0) {
      std::ifstream file("/proc/self/statm");
      std::uint64_t size = 0, pages = 0;
      file >> size >> pages;
      resident->push_back(pages * 4096);
    }
  }
  return mesh.state_hash();
}

TEST(Morph, AThousandTimesInAWalkNeitherLeaksNorDivergesBetweenThreads) {
  std::vector<std::uint64_t> resident;
  const Hash128 alone = morphing_run(1, kMorphTicks, &resident);
  EXPECT_EQ(to_string(morphing_run(2, kMorphTicks, nullptr)), to_string(alone));
  if (resident.size() > 3) {
    EXPECT_LE(resident.back(), resident[2] + 256 * 1024) << "resident memory grew from " << resident[2];
  }
}

}  // namespace
}  // namespace weft::learning::dtype_test
