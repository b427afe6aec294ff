// SPDX-License-Identifier: Apache-2.0

// Errors travel back through every kind of softmax, those that draw too, and learning stays the same to the bit.

#include "kernels/isa.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <algorithm>
#include <string>
#include <vector>

namespace weft::learning::softmax_test {
namespace {

struct Kind {
  std::string name;
  bool is_straight = false;
};

constexpr std::size_t kIn = 4, kOut = 4, kSamples = 3000;

mesh::NetworkSpec network(const Kind& kind) {
  mesh::NetworkBuilder builder("choosing", GridShape{1, 1, 3, 1});
  builder.input("x", kIn).dense({0, 0, 0, 0}, 12).layer({0, 0, 1, 0}, "softmax").option("kind", kind.name);
  if (kind.is_straight) builder.option("straight_through", true);
  if (kind.name == "gumbel") builder.option("temperature", 0.7);
  return builder.option("groups", 2.0).dense({0, 0, 2, 0}, kOut).output("y", {0, 0, 2, 0}).seed(3).spec();
}

struct Outcome {
  double first, last;  // mean loss of the first and the last 200 samples
  std::string hash;
};

/// Learns the largest of four values.
Outcome train(const Kind& kind, std::size_t threads) {
  mesh::MeshOptions shape;
  shape.threads = threads;
  shape.grain_bytes = 0;
  shape.pin = false;
  auto mesh = mesh::Mesh::build(network(kind), shape);
  WEFT_ASSERT(mesh, mesh.error().text());
  LearningOptions options;
  options.optimizer.lr = 0.03f;
  auto learner = Learner::build(*mesh, options);
  WEFT_ASSERT(learner, learner.error().text());
  const std::vector<float> x = mesh::testing_support::noise(kSamples * kIn, 12);
  std::vector<std::uint32_t> labels;
  for (std::size_t i = 0; i < x.size(); i += kIn)
    labels.push_back(static_cast<std::uint32_t>(std::max_element(&x[i], &x[i] + kIn) - &x[i]));
  const mesh::RunInput input{"x", x};
  const Target target{"y", labels, {}};
  const Status learned = (*learner)->learn({&input, 1}, {&target, 1}, kSamples);
  WEFT_ASSERT(learned, learned.error().text());
  Outcome outcome{0, 0, to_string(mesh->state_hash(0))};
  const auto& scores = (*learner)->scores();
  for (std::size_t i = 0; i < 200; ++i) {
    outcome.first += scores[i].loss / 200;
    outcome.last += scores[scores.size() - 1 - i].loss / 200;
  }
  return outcome;
}

TEST(EverySoftmax, LearnsWithTheSameBitsEverywhere) {
  for (const Kind& kind : {Kind{"standard"}, Kind{"sparsemax"}, Kind{"entmax"}, Kind{"gumbel"}, Kind{"gumbel", true}}) {
    SCOPED_TRACE(kind.name + (kind.is_straight ? ", straight through" : ""));
    const Outcome want = train(kind, 1);
    EXPECT_LT(want.last, 0.75 * want.first) << "guessing costs 2 ln 2";
    const kernels::Isa before = kernels::active_isa();
    for (const kernels::Isa isa : kernels::available_isas()) {
      ASSERT_TRUE(kernels::set_active_isa(isa));
      EXPECT_EQ(train(kind, 2).hash, want.hash) << kernels::name(isa);
    }
    ASSERT_TRUE(kernels::set_active_isa(before));
  }
}

}  // namespace
}  // namespace weft::learning::softmax_test
