// SPDX-License-Identifier: Apache-2.0

#include "weft.hpp"
#include <array>
#include <cstdio>

using namespace weft;

// It answers now, and is told later what it should have said.
int main() {
  NetworkBuilder network("xor", {.x = 2});
  network.input("bits", 2)
      .dense({0, 0, 0, 0}, 16, Activation::tanh)
      .dense({0, 0, 1, 0}, 2)
      .output("answer", {0, 0, 1, 0});
  auto mesh = Mesh::build(network.spec()).value();
  auto learner = Learner::build(mesh, {.optimizer = {.lr = 0.1f}}).value();

  int right = 0;
  for (int step = 0; step < 2000; ++step) {
    const std::array bits{static_cast<float>(step & 1), static_cast<float>(step >> 1 & 1)};
    const mesh::RunInput input{"bits", bits};

    std::array<float, 2> answer{};
    const mesh::RunOutput output{"answer", answer};
    if (!learner->predict({&input, 1}, 1, {&output, 1})) return 1;  // learns nothing, changes nothing
    const std::uint32_t said = answer[1] > answer[0];

    const std::uint32_t label = bits[0] != bits[1];  // the world's answer, a while later
    const learning::Target target{.output = "answer", .labels = {&label, 1}};
    if (!learner->learn({&input, 1}, {&target, 1}, 1)) return 1;
    if (step >= 1900) right += said == label;
  }
  std::printf("%d of the last 100 answers were right\n", right);
  return right == 100 ? 0 : 1;
}
