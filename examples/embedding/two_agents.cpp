// SPDX-License-Identifier: Apache-2.0

#include "weft.hpp"
#include <array>
#include <cstdio>
#include <string>

using namespace weft;

// Two agents, each with a directory of its own, in one process. Run it again: they go on where they were.
int main(int count, char** words) {
  const std::string folder = count > 1 ? words[1] : ".";
  NetworkBuilder network("or", {.x = 1});
  network.input("bits", 2).dense({0, 0, 0, 0}, 2).output("answer", {0, 0, 0, 0});
  network.learning(LearningOptions{.rule = learning::Rule::backprop, .optimizer = {.lr = 0.05f}});
  const NetworkSpec spec = network.spec();

  for (const std::string name : {"ada", "bob"}) {
    auto opened = Agent::open(folder + "/" + name, spec);
    if (!opened) {
      std::fprintf(stderr, "%s\n", opened.error().text().c_str());
      return 1;
    }
    Agent& agent = **opened;
    const std::array bits{1.0f, name == "ada" ? 1.0f : 0.0f};
    const std::uint32_t label = 1;
    const mesh::RunInput input{"bits", bits};
    const learning::Target target{.output = "answer", .labels = {&label, 1}};
    if (!agent.learn({&input, 1}, {&target, 1}, 1) || !agent.acknowledge())
      return 1;  // from here on it survives kill -9
  }

  auto ada = Agent::open(folder + "/ada").value();  // the directory knows its network
  std::printf("ada has seen %lu samples\n", ada->learner()->samples());
  return Agent::open(folder + "/ada") ? 1 : 0;  // a directory has one agent at a time
}
