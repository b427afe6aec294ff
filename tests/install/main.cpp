// SPDX-License-Identifier: Apache-2.0

#include "learning/learner.hpp"

#include "mesh/mesh.hpp"

#include <cstdio>

using namespace weft;

int main() {
  // Two planes of two cells. A memory in the upper one reads the hidden layer, and is read by it: a remote link.
  const Coord hidden{0, 0, 0, 0}, answer{0, 0, 1, 0}, memory{1, 0, 1, 0};
  mesh::NetworkBuilder network("xor", {.z = 2, .y = 1, .x = 2});
  network.input("bits", 2).output("answer", answer);
  network.dense(hidden, 16, kernels::Activation::tanh).from({"bits", memory});
  network.dense(answer, 2).from({hidden});
  network.dense(memory, 8, kernels::Activation::tanh).from({hidden});
  auto mesh = mesh::Mesh::build(network.spec()).value();
  // fw_dtp: each layer learns towards a target that comes back to it, not along a gradient.
  auto learner = learning::Learner::build(mesh, {.rule = learning::Rule::fw_dtp}).value();

  const std::vector<float> bits{0, 0, 0, 1, 1, 0, 1, 1};
  const std::vector<std::uint32_t> labels{0, 1, 1, 0};
  const mesh::RunInput input{"bits", bits};
  const learning::Target target{"answer", labels, {}};
  for (int pass = 0; pass < 500; ++pass)
    if (!learner->learn({&input, 1}, {&target, 1}, labels.size())) return 1;
  learner.reset();  // from here on the mesh only ticks

  for (std::size_t i = 0; i < 4; ++i) {
    if (!mesh.set_input("bits", {&bits[2 * i], 2}) || !mesh.tick(2)) return 1;  // two links from bits to answer
    const auto y = mesh.output("answer").value();
    std::printf("%g xor %g = %d  (%.9g, %.9g)\n", bits[2 * i], bits[2 * i + 1], y[1] > y[0], y[0], y[1]);
  }
  std::printf("tick %lu, state %s\n", mesh.ticks(), to_string(mesh.state_hash()).c_str());
}
