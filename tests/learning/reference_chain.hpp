// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/philox.hpp"

#include "networks.hpp"
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

/// The network and samples of references in float64 (tools/make_renewal_goldens.py).
namespace weft::learning::test {

inline mesh::NetworkBuilder reference_chain(kernels::Activation first = kernels::Activation::relu,
                                            kernels::Activation second = kernels::Activation::relu) {
  return mesh::NetworkBuilder("chain", GridShape{1, 1, 3, 1})
      .input("x", 6)
      .dense({0, 0, 0, 0}, 24, first)
      .from({"x"})
      .dense({0, 0, 1, 0}, 9, second)
      .dense({0, 0, 2, 0}, 3)
      .output("y", {0, 0, 2, 0})
      .seed(3);
}

/// Learns samples whose targets turn over at one of them.
struct ReferenceChain {
  explicit ReferenceChain(const LearningOptions& options, const mesh::MeshOptions& wanted = shape(),
                          const mesh::NetworkSpec& spec = reference_chain().spec())
      : run(spec, options, wanted) {}
  /// The samples of the reference, the same for every session.
  void learn(std::uint64_t samples, std::uint64_t block = 1) {
    const std::size_t sessions = run.mesh->sessions(), learners = run.learner->options().learners;
    for (std::uint64_t done = 0; done < samples; done += block) {
      const std::uint64_t now = std::min(block, samples - done);
      std::vector<float> inputs, targets;
      for (std::uint64_t s = 0; s < now; ++s, ++seen) {
        const auto [x, y] = sample(seen);
        for (std::size_t b = 0; b < sessions; ++b) inputs.insert(inputs.end(), x.begin(), x.end());
        for (std::size_t b = 0; b < learners; ++b) targets.insert(targets.end(), y.begin(), y.end());
      }
      run.train(inputs, {}, targets, now);
    }
  }
  /// The same of one session, whose targets come when `delay` others have entered behind them, up to sample `end`.
  void teach_late(std::uint64_t end, std::uint64_t delay) {
    for (; seen < end; ++seen) {
      const std::vector<float> x = sample(seen).first;
      const mesh::RunInput input{"x", x};
      mesh::testing_support::must(run.learner->observe({&input, 1}));
      if (seen < delay) continue;
      const std::vector<float> y = sample(seen - delay).second;
      const Target target{.output = "y", .values = y};
      mesh::testing_support::must(run.learner->teach(seen - delay, {&target, 1}));
    }
  }
  std::pair<std::vector<float>, std::vector<float>> sample(std::uint64_t number) const {
    RandomStream random(7, number, RandomPurpose::test);
    std::vector<float> x(6);
    for (float& value : x) value = 2.0f * random.next_uniform() - 1.0f;
    const float sign = number >= turns_at ? -1.0f : 1.0f;
    return {x, {sign * (x[0] * x[1]), sign * (std::fabs(x[2]) - x[3]), sign * (x[4] - x[5])}};
  }
  LearningRun run;
  std::uint64_t seen = 0, turns_at = 200;
};

}  // namespace weft::learning::test
