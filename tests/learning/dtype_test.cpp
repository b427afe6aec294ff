// SPDX-License-Identifier: Apache-2.0

// The promise for weights of every type: the same bits on any number of threads, instruction set, batch and step
// length, in ticks and while learning; errors travel back through what computed.

#include "mesh/mesh_access.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/runtime/command.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/isa.hpp"
#include "kernels/linear.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <cmath>
#include <fstream>

namespace weft::learning::dtype_test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSamples = 20, kMorphTicks = 2000;
#else
constexpr std::uint64_t kSamples = 120, kMorphTicks = 100000;
#endif

struct Type {
  Dtype dtype;
  Activations activations;
};

std::vector<Type> all_types() {
  std::vector<Type> types;
  for (int i = 0; i < kDtypeCount; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    types.push_back({dtype, Activations::int8});
    if (has_integer_kernel(dtype)) types.push_back({dtype, Activations::float32});
  }
  return types;
}

/// Every matrix of a network in one type, learning through it.
mesh::NetworkSpec in_type(mesh::NetworkSpec spec, const Type& type) {
  for (mesh::LayerSpec& layer : spec.layers) {
    if (layer.type != "dense") continue;
    layer.dtype = type.dtype;
    layer.activations = type.activations;
    layer.quantization_aware = true;
  }
  return spec;
}

mesh::MeshOptions mesh_options(std::size_t threads, std::size_t sessions) {
  mesh::MeshOptions options;
  options.threads = threads;
  options.sessions = sessions;
  options.grain_bytes = 0;
  options.pin = false;
  return options;
}

class OfType : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, OfType, ::testing::ValuesIn(all_types()), [](const auto& row) {
  return std::string(name(row.param.dtype)) + "_" + std::string(name(row.param.activations));
});

Hash128 train(const Type& type, Rule rule, Schedule schedule, std::size_t threads, std::size_t sessions, bool at_once) {
  auto mesh = mesh::Mesh::build(in_type(test::mixed_network(3), type), mesh_options(threads, sessions));
  WEFT_ASSERT(mesh, mesh.error().text());
  LearningOptions options;
  options.rule = rule;
  options.schedule = schedule;
  options.optimizer.lr = 0.01f;
  auto learner = Learner::build(*mesh, options);
  WEFT_ASSERT(learner, learner.error().text());
  const test::Samples data(kSamples, sessions, 11);
  const std::uint64_t step = at_once ? kSamples : 1;
  for (std::uint64_t s = 0; s < kSamples; s += step) {
    const mesh::RunInput inputs[] = {{"a", std::span(data.a).subspan(s * sessions * 7, step * sessions * 7)},
                                     {"b", std::span(data.b).subspan(s * sessions * 5, step * sessions * 5)}};
    const Target targets[] = {{"left", std::span(data.left).subspan(s, step), {}},
                              {"right", std::span(data.right).subspan(s, step), {}}};
    const Status learned = (*learner)->learn(inputs, targets, step);
    WEFT_ASSERT(learned, learned.error().text());
    (*learner)->clear_scores();
  }
  const Status drained = (*learner)->drain();
  WEFT_ASSERT(drained, drained.error().text());
  return mesh->state_hash(0);
}

TEST_P(OfType, LearningEndsInTheSameStateOnEveryMachineShape) {
  const Hash128 settled = train(GetParam(), Rule::backprop, Schedule::settle, 1, 1, true);
  const Hash128 pipelined = train(GetParam(), Rule::fw_dtp, Schedule::pipelined, 1, 1, true);
  for (const kernels::Isa isa : kernels::available_isas()) {
    const test::ForIsa scope(isa);
    for (const std::size_t threads : {1, 2, 7})
      for (const std::size_t sessions : {1, 5}) {
        const bool at_once = (threads + sessions) % 2 == 0;
        EXPECT_EQ(to_string(train(GetParam(), Rule::backprop, Schedule::settle, threads, sessions, at_once)),
                  to_string(settled))
            << name(isa) << " " << threads << " threads, " << sessions << " sessions";
        EXPECT_EQ(to_string(train(GetParam(), Rule::fw_dtp, Schedule::pipelined, threads, sessions, !at_once)),
                  to_string(pipelined))
            << name(isa) << " " << threads << " threads, " << sessions << " sessions";
      }
  }
}

std::vector<float> noise(std::size_t n, std::uint64_t seed) {
  RandomStream random(seed, 0, RandomPurpose::test);
  std::vector<float> values(n);
  for (float& value : values) value = random.next_normal();
  return values;
}

TEST_P(OfType, ManyTicksAtOnceAreTheSameAsOneByOne) {
  constexpr std::uint64_t kTicks = 40;
  const auto spec = in_type(test::mixed_network(3), GetParam());
  const auto a = noise(kTicks * 7, 1), b = noise(kTicks * 5, 2);
  auto one = mesh::Mesh::build(spec, mesh_options(1, 1));
  WEFT_ASSERT(one, one.error().text());
  for (std::uint64_t t = 0; t < kTicks; ++t) {
    ASSERT_TRUE(one->set_input("a", std::span(a).subspan(t * 7, 7)));
    ASSERT_TRUE(one->set_input("b", std::span(b).subspan(t * 5, 5)));
    ASSERT_TRUE(one->tick());
  }
  for (const kernels::Isa isa : kernels::available_isas()) {
    const test::ForIsa scope(isa);
    for (const std::size_t threads : {1, 2, 7}) {
      auto all = mesh::Mesh::build(spec, mesh_options(threads, 1));
      const mesh::RunInput inputs[] = {{"a", a}, {"b", b}};
      ASSERT_TRUE(all->run(inputs, kTicks));
      EXPECT_EQ(all->state_hash(), one->state_hash()) << name(isa) << " " << threads << " threads";
    }
  }
}

TEST_P(OfType, SavesTheSameBytesThatItLoaded) {
  for (const bool live : {false, true}) {
    auto mesh = mesh::Mesh::build(in_type(test::mixed_network(3), GetParam()), mesh_options(1, 1));
    ASSERT_TRUE(mesh->set_input("a", noise(7, 1)));
    ASSERT_TRUE(mesh->tick(3));
    const auto first = mesh::encode_mesh(*mesh, live, {});
    ASSERT_TRUE(first) << first.error().text();
    const auto file = formats::decode_entity(ByteSpan(*first), "first");
    const auto spec = mesh::network_of(*file);
    ASSERT_TRUE(spec) << spec.error().text();
    auto again = mesh::Mesh::build(*spec, mesh_options(2, 1));
    const Status restored = mesh::restore_weights(*again, *file);
    ASSERT_TRUE(restored) << restored.error().text();
    if (live) {
      ASSERT_TRUE(mesh::restore_live(*again, *file));
      EXPECT_EQ(again->state_hash(), mesh->state_hash());
    }
    const auto second = mesh::encode_mesh(*again, live, {});
    ASSERT_TRUE(second) << second.error().text();
    EXPECT_TRUE(std::equal(first->begin(), first->end(), second->begin(), second->end())) << "live: " << live;
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
    auto mesh = mesh::Mesh::build(spec, mesh_options(1, 1));
    WEFT_ASSERT(mesh, mesh.error().text());
    mesh::WeightStore& weights = mesh::MeshAccess::weights(*mesh);
    const auto first = *mesh->graph().find_layer({0, 0, 0, 0}), hidden = *mesh->graph().find_layer({0, 0, 1, 0}),
               last = *mesh->graph().find_layer({0, 0, 2, 0});
    const auto w1 = weights.read(weights.of(first)[0]), master = weights.read(weights.of(hidden)[0]),
               w3 = weights.read(weights.of(last)[0]);
    AlignedBuffer<float> panels(kernels::panels_size(8, 8));
    weights.stored(weights.first(hidden))->dequantize({panels.data(), 8, 8});
    std::vector<float> stored(64);
    kernels::unpack_panels({panels.data(), 8, 8}, {stored.data(), 8, 8, 8});

    LearningOptions options;
    options.loss = Loss::mse;
    options.optimizer.kind = OptimizerKind::sgd;
    options.optimizer.lr = 1.0f;
    auto learner = Learner::build(*mesh, options);
    const auto x = noise(6, 3), wanted = noise(3, 4);
    const mesh::RunInput input{"in", x};
    const Target target{"out", {}, wanted};
    const Status learned = (*learner)->learn({&input, 1}, {&target, 1}, 1);
    WEFT_ASSERT(learned, learned.error().text());
    const auto after = weights.read(weights.of(first)[0]);

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
  auto mesh = mesh::Mesh::build(test::mixed_network(3), mesh_options(1, 1));
  mesh::WeightStore& weights = mesh::MeshAccess::weights(*mesh);
  const auto frozen = *mesh->graph().find_layer({1, 0, 1, 0}), before_it = *mesh->graph().find_layer({0, 0, 0, 0});
  ASSERT_TRUE(weights.morph(frozen, "frozen", Encoding(Dtype::int8)));
  const mesh::NodeId nodes[] = {frozen};
  ASSERT_TRUE(weights.release_masters(mesh->graph(), nodes));
  const auto kept = weights.read(weights.of(frozen)[0]), moved = weights.read(weights.of(before_it)[0]);
  LearningOptions options;
  options.optimizer.lr = 0.01f;
  options.optimizer.weight_decay = 0.1f;
  auto learner = Learner::build(*mesh, options);
  const test::Samples data(50, 1, 11);
  const mesh::RunInput inputs[] = {{"a", data.a}, {"b", data.b}};
  const Target targets[] = {{"left", data.left, {}}, {"right", data.right, {}}};
  ASSERT_TRUE((*learner)->learn(inputs, targets, 50));
  EXPECT_EQ(weights.read(weights.of(frozen)[0]), kept);
  EXPECT_NE(weights.read(weights.of(before_it)[0]), moved);
}

/// A run that morphs a random layer to a random type every 100 ticks, by commands to running cells.
Hash128 morphing_run(std::size_t threads, std::uint64_t ticks, std::vector<std::uint64_t>* resident) {
  auto mesh = mesh::Mesh::build(test::mixed_network(3), mesh_options(threads, 1));
  WEFT_ASSERT(mesh, mesh.error().text());
  std::vector<Coord> places;
  for (const mesh::LayerSpec& layer : mesh->spec().layers)
    if (layer.type == "dense") places.push_back(layer.at);
  RandomStream random(17, 0, RandomPurpose::test);
  const auto draw = [&](std::size_t n) { return random.next_below(static_cast<std::uint32_t>(n)); };
  const auto a = noise(7, 1), b = noise(5, 2);
  for (std::uint64_t t = 0; t < ticks; t += 100) {
    auto order = std::make_shared<mesh::Command>();
    const Coord at = places[draw(places.size())];
    order->kind = mesh::CommandKind::morph;
    order->level = at.l;
    order->encoding = Encoding(static_cast<Dtype>(draw(kDtypeCount)), static_cast<Granularity>(draw(3)));
    const auto posted = mesh->post(at, order);
    WEFT_ASSERT(posted, posted.error().text());
    WEFT_ASSERT(mesh->set_input("a", a) && mesh->set_input("b", b), "inputs");
    const Status ran = mesh->tick(100);
    WEFT_ASSERT(ran, ran.error().text());
    WEFT_ASSERT(order->is_done() && order->status(), "the morph at tick " + std::to_string(t));
    if (resident && t % 10000 == 0) {
      std::ifstream file("/proc/self/statm");
      std::uint64_t size = 0, pages = 0;
      file >> size >> pages;
      resident->push_back(pages * 4096);
    }
  }
  return mesh->state_hash();
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
