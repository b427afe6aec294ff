// SPDX-License-Identifier: Apache-2.0

#include "weft.hpp"
#include <chrono>
#include <cstdio>
#include <thread>

using namespace weft;
using namespace std::chrono_literals;

// A frame is 16.7 ms; the mesh has 2 ms of it.
int main() {
  NetworkBuilder network("creature", {.x = 3});
  network.input("senses", 64).output("muscles", {0, 0, 2, 0});
  network.dense({0, 0, 0, 0}, 256, Activation::tanh).from({"senses", {0, 0, 1, 0}});
  network.dense({0, 0, 1, 0}, 256, Activation::tanh).from({{0, 0, 0, 0}});
  network.dense({0, 0, 2, 0}, 8, Activation::tanh).from({{0, 0, 1, 0}});
  auto mesh = Mesh::build(network.spec(), {.threads = 1}).value();  // the game has the other cores

  std::vector<float> senses(64, 0.0f);
  std::uint64_t ticks = 0;
  auto frame = std::chrono::steady_clock::now();
  for (int i = 0; i < 30; ++i) {
    senses[i] = 1.0f;
    if (!mesh.set_input("senses", senses)) return 1;
    ticks += mesh.tick_for(2ms).value();  // as many as fit; at least one
    const auto muscles = mesh.output("muscles").value();
    if (muscles.size() != 8) return 1;  // here: move
    std::this_thread::sleep_until(frame += 16667us);
  }
  std::printf("%s\n", ticks >= 30 && ticks == mesh.ticks() ? "30 frames, every one with ticks" : "no time for ticks");
}
