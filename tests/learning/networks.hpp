// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/learner.hpp"
#include "learning/stream.hpp"

#include "storage/file_system.hpp"

#include "kernels/isa.hpp"

#include "tests/mesh/testing.hpp"
#include "tests/support/source_path.hpp"
#include <string>
#include <vector>

namespace weft::learning::test {

/// Runs on another instruction set for as long as it exists.
class ForIsa {
 public:
  explicit ForIsa(kernels::Isa isa) : before_(kernels::active_isa()) {
    const Status set = kernels::set_active_isa(isa);
    WEFT_ASSERT(set, set.error().text());
  }
  ~ForIsa() { (void)kernels::set_active_isa(before_).has_value(); }

 private:
  kernels::Isa before_;
};

/// The network of examples/digits.json: 64-64-64-10 with a cell that feeds back.
inline mesh::NetworkSpec digits_network(std::uint64_t seed) {
  using kernels::Activation;
  return mesh::NetworkBuilder("digits", GridShape{1, 2, 2, 1})
      .input("pixels", 64)
      .dense({0, 0, 0, 0}, 64, Activation::tanh)
      .from({"pixels", Coord{0, 1, 1, 0}})
      .dense({0, 0, 1, 0}, 64, Activation::tanh)
      .dense({0, 1, 0, 0}, 10)
      .dense({0, 1, 1, 0}, 16, Activation::tanh)
      .from({Coord{0, 0, 1, 0}})
      .output("digit", {0, 1, 0, 0})
      .seed(seed)
      .spec();
}

/// One of everything that learns: silu, which needs its pre-activation, a link to itself and two outputs among it.
inline mesh::NetworkSpec mixed_network(std::uint64_t seed) { return mesh::testing_support::mixed_network(seed).spec(); }

/// Layers with gates and hidden states, a link back to the first one, and the ports and outputs of `mixed_network`.
inline mesh::NetworkSpec recurrent_network(std::uint64_t seed) {
  return mesh::NetworkBuilder("recurrent", GridShape{1, 2, 3, 1})
      .input("a", 7)
      .input("b", 5)
      .layer({0, 0, 0, 0}, "lstm", 19)
      .from({"a", "b", Coord{0, 1, 0, 0}})
      .layer({0, 0, 1, 0}, "gru", 17)
      .layer({0, 0, 2, 0}, "swiglu", 18)
      .option("hidden", 33.0)
      .layer({0, 1, 0, 0}, "rnn", 11)
      .dense({0, 1, 1, 0}, 4)
      .dense({0, 1, 2, 0}, 3)
      .from({Coord{0, 1, 0, 0}, Coord{0, 0, 1, 0}})
      .output("left", {0, 1, 1, 0})
      .output("right", {0, 1, 2, 0})
      .seed(seed)
      .spec();
}

/// Inputs and labels drawn from a seed; `sessions` rows a sample, of which row 0 does not depend on how many there are.
struct Samples {
  std::vector<float> a, b;
  std::vector<std::uint32_t> left, right;
  std::uint64_t count;

  Samples(std::uint64_t samples, std::size_t sessions, std::uint64_t seed) : count(samples) {
    for (std::uint64_t s = 0; s < samples; ++s) {
      for (std::size_t r = 0; r < sessions; ++r) {
        RandomStream random(seed, s * 64 + r, RandomPurpose::test);
        for (int i = 0; i < 7; ++i) a.push_back(random.next_normal());
        for (int i = 0; i < 5; ++i) b.push_back(random.next_normal());
      }
      RandomStream random(seed + 1, s, RandomPurpose::test);
      left.push_back(random.next_below(4));
      right.push_back(s % 7 == 3 ? kNoLabel : random.next_below(3));
    }
  }
};

inline Dataset digits() {
  auto data = read_dataset(storage::real_file_system(), source_path("examples/data/digits.csv.gz"), {.scale = 0.0625f});
  WEFT_ASSERT(data, data.error().text());
  return *std::move(data);
}

}  // namespace weft::learning::test
