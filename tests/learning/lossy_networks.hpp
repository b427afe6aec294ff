// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/learner.hpp"

#include "networks.hpp"
#include <string>
#include <utility>
#include <vector>

/// Small networks and targets of every kind, for tests of losses.
namespace weft::learning::test {

inline constexpr std::size_t kIn = 5, kOut = 9;
/// Widths of the output's heads.
inline const std::vector<std::uint32_t> kHeads{3, 2, 4};

inline mesh::NetworkSpec one_layer() {
  return mesh::NetworkBuilder("one", {1, 1, 1, 1})
      .input("x", kIn)
      .dense({0, 0, 0, 0}, kOut)
      .output("y", {0, 0, 0, 0})
      .seed(4)
      .spec();
}

inline mesh::NetworkSpec two_layers() {
  return mesh::NetworkBuilder("two", {1, 1, 2, 1})
      .input("x", kIn)
      .dense({0, 0, 0, 0}, 12, kernels::Activation::tanh)
      .dense({0, 0, 1, 0}, kOut)
      .output("y", {0, 0, 1, 0})
      .seed(4)
      .spec();
}

/// Samples with targets of a loss.
struct LossSamples {
  std::vector<float> x, values;
  std::vector<std::uint32_t> labels;

  LossSamples(Loss loss, std::uint64_t seed, std::uint64_t samples) {
    RandomStream random(31 + seed, 0, RandomPurpose::test);
    for (std::uint64_t s = 0; s < samples; ++s) {
      for (std::size_t i = 0; i < kIn; ++i) x.push_back(random.next_normal());
      switch (targets_of(loss)) {
        case LossTargets::labels:
          labels.push_back(random.next_below(kOut));
          break;
        case LossTargets::head_labels:
          for (const std::uint32_t width : kHeads) labels.push_back(random.next_below(width));
          break;
        case LossTargets::values:
          for (std::size_t i = 0; i < kOut; ++i)
            values.push_back(loss == Loss::binary_cross_entropy ? random.next_uniform() : random.next_normal());
      }
    }
  }
  Target target() const { return {"y", labels, values}; }
  void give_to(Learner& learner, std::uint64_t samples) const {
    const mesh::RunInput inputs[] = {{"x", x}};
    const Target targets[] = {target()};
    mesh::testing_support::must(learner.learn(inputs, targets, samples));
  }
};

}  // namespace weft::learning::test
