// SPDX-License-Identifier: Apache-2.0

// The layers that choose and have weights learn, in any stored type, and stay the same to the bit.

#include "networks.hpp"
#include <algorithm>
#include <string>
#include <vector>

namespace weft::learning::choosing_test {
namespace {

using mesh::testing_support::must;

constexpr std::size_t kIn = 6, kOut = 6, kSamples = 4000;

struct Kind {
  std::string name;
  Dtype dtype = Dtype::float32;
};

mesh::NetworkSpec network(const Kind& kind) {
  mesh::NetworkBuilder builder("choosing", GridShape{1, 1, 3, 1});
  builder.input("x", kIn).dense({0, 0, 0, 0}, 16, kernels::Activation::tanh);
  if (kind.name == "adaptive_softmax") {
    builder.layer({0, 0, 1, 0}, kind.name, kOut).option("cutoffs", std::vector<double>{2, 4}).option("div_value", 2.0);
    builder.dtype(kind.dtype).output("y", {0, 0, 1, 0});
  } else if (kind.name == "mixture_of_softmaxes") {
    builder.layer({0, 0, 1, 0}, kind.name, kOut).option("components", 3.0).option("hidden", 8.0);
    builder.dtype(kind.dtype).output("y", {0, 0, 1, 0});
  } else {
    builder.layer({0, 0, 1, 0}, "kmeans")
        .option("clusters", 8.0)
        .option("output", kind.name)
        .option("temperature", 4.0);
    builder.dtype(kind.dtype).dense({0, 0, 2, 0}, kOut).output("y", {0, 0, 2, 0});
  }
  return builder.seed(3).spec();
}

struct Outcome {
  double first, last;  // mean loss of the first and the last 300 samples
  std::string hash;
};

/// Learns the largest of six values.
Outcome train(const Kind& kind, std::size_t threads) {
  mesh::Mesh mesh = must(mesh::Mesh::build(network(kind), {.threads = threads, .pin = false, .grain_bytes = 0}));
  LearningOptions options;
  options.optimizer.lr = 0.03f;
  auto learner = must(Learner::build(mesh, options));
  const std::vector<float> x = mesh::testing_support::noise(kSamples * kIn, 12);
  std::vector<std::uint32_t> labels;
  for (std::size_t i = 0; i < x.size(); i += kIn)
    labels.push_back(static_cast<std::uint32_t>(std::max_element(&x[i], &x[i] + kIn) - &x[i]));
  const mesh::RunInput input{"x", x};
  const Target target{"y", labels, {}};
  must(learner->learn({&input, 1}, {&target, 1}, kSamples));
  Outcome outcome{0, 0, to_string(mesh.state_hash(0))};
  const auto& scores = learner->scores();
  for (std::size_t i = 0; i < 300; ++i) {
    outcome.first += scores[i].loss / 300;
    outcome.last += scores[scores.size() - 1 - i].loss / 300;
  }
  return outcome;
}

TEST(ChoosingLayers, LearnWithTheSameBitsEverywhere) {
  for (const Kind& kind : {Kind{"adaptive_softmax"}, Kind{"mixture_of_softmaxes"}, Kind{"probabilities"},
                           Kind{"features"}, Kind{"both"}, Kind{"adaptive_softmax", Dtype::bfloat16},
                           Kind{"mixture_of_softmaxes", Dtype::int8}, Kind{"both", Dtype::int8}}) {
    SCOPED_TRACE(kind.name + " " + std::string(name(kind.dtype)));
    const Outcome want = train(kind, 1);
    EXPECT_LT(want.last, 0.75 * want.first);
    for (const kernels::Isa isa : kernels::available_isas()) {
      const test::ForIsa active(isa);
      EXPECT_EQ(train(kind, 2).hash, want.hash) << kernels::name(isa);
    }
  }
}

}  // namespace
}  // namespace weft::learning::choosing_test
