// SPDX-License-Identifier: Apache-2.0

#include "weft.hpp"
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

using namespace weft;

// A stream of which each label comes five samples later. late_labels DIRECTORY [N]: kills itself before sample N; run
// again it goes on with the samples that were open.
int main(int count, char** words) {
  NetworkBuilder network("xor", {.x = 2});
  network.input("bits", 2)
      .dense({0, 0, 0, 0}, 16, Activation::tanh)
      .dense({0, 0, 1, 0}, 2)
      .output("answer", {0, 0, 1, 0});
  network.learning(LearningOptions{.optimizer = {.lr = 0.1f}, .late = learning::Late::meet, .patience = 8});
  auto opened = Agent::open(count > 1 ? words[1] : "late", network.spec());
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().text().c_str());
    return 1;
  }
  Agent& agent = **opened;
  const auto bits_of = [](std::uint64_t sample) {
    return std::array{static_cast<float>(sample & 1), static_cast<float>(sample >> 1 & 1)};
  };
  const std::uint64_t end = count > 2 ? std::strtoull(words[2], nullptr, 10) : 1000;

  for (std::uint64_t sample = agent.learner()->late_counts().observed; sample < 1000; ++sample) {
    if (sample == end) {
      if (!agent.acknowledge()) return 1;  // what it has seen survives
      std::raise(SIGKILL);
    }
    const std::array bits = bits_of(sample);
    const mesh::RunInput input{"bits", bits};
    const auto ticket = agent.observe({&input, 1});
    if (!ticket) return 1;
    const auto answer = agent.learner()->answer(*ticket, "answer");  // what a program would act on
    if (!answer || sample < 5) continue;

    const std::array then = bits_of(sample - 5);
    const std::uint32_t label = then[0] != then[1];
    const learning::Target target{.output = "answer", .labels = {&label, 1}};
    if (!agent.teach(*ticket - 5, {&target, 1})) return 1;
  }
  if (!agent.acknowledge()) return 1;
  const learning::LateCounts seen = agent.learner()->late_counts();
  std::printf("%lu samples, %lu trained, %lu open, state %s\n", seen.observed, seen.taught, seen.open(),
              to_string(agent.mesh().state_hash()).c_str());
}
