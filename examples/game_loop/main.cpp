// SPDX-License-Identifier: Apache-2.0
// A game's loop: 60 frames a second, of which the mesh has 2 ms. A clock says when a frame is due and counts those that
// were dropped; the mesh runs as many ticks as fit into its time.

#include "scheduler/clock.hpp"

#include "weft.hpp"
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

using namespace weft;
using namespace std::chrono_literals;

namespace {

constexpr double kFramesASecond = 60;
constexpr auto kBudget = 2ms;

NetworkSpec creature() {
  NetworkBuilder network("creature", {.x = 3});
  network.input("senses", 64).output("muscles", {0, 0, 2, 0});
  network.dense({0, 0, 0, 0}, 128, Activation::tanh).from({"senses", {0, 0, 1, 0}});
  network.dense({0, 0, 1, 0}, 128, Activation::tanh).from({{0, 0, 0, 0}});
  network.dense({0, 0, 2, 0}, 8, Activation::tanh).from({{0, 0, 1, 0}});
  return network.spec();
}

}  // namespace

int main(int argc, char** argv) {
  // game_loop [FRAMES [FRAME_THAT_STALLS]]: one frame takes 100 ms, as when a level is loaded.
  const long frames = argc > 1 ? std::atol(argv[1]) : 600, stall = argc > 2 ? std::atol(argv[2]) : -1;
  if (frames < 1) return std::fprintf(stderr, "game_loop: frames, 1 or more\n"), 2;

  auto mesh = Mesh::build(creature(), {.threads = 1}).value();  // the game has the other cores
  // Times that were missed are dropped: the next frame is shown at the next time on the grid.
  auto clock = scheduler::make_fixed_rate_clock({.hertz = kFramesASecond, .overrun = scheduler::Overrun::skip}).value();
  std::vector<float> senses(64, 0.0f);
  std::uint64_t ticks = 0, over_budget = 0;
  for (long frame = 0; frame < frames && clock->await(1) == 1; ++frame) {
    senses[static_cast<std::size_t>(frame) % senses.size()] = std::sin(0.1f * static_cast<float>(frame));
    if (!mesh.set_input("senses", senses)) return 1;
    const auto begin = std::chrono::steady_clock::now();
    ticks += mesh.tick_for(kBudget).value();
    over_budget += std::chrono::steady_clock::now() - begin > kBudget + 1ms;
    const auto muscles = mesh.output("muscles").value();  // here: move, draw
    if (muscles.size() != 8) return 1;
    if (frame == stall) std::this_thread::sleep_for(100ms);
    clock->finished(1);
  }

  const scheduler::ClockReport report = clock->report();
  const auto microseconds = [](std::chrono::nanoseconds time) { return static_cast<double>(time.count()) * 1e-3; };
  std::printf("%llu frames, %llu dropped; %.1f ticks a frame, budget exceeded %llu times\n",
              static_cast<unsigned long long>(report.ticks), static_cast<unsigned long long>(report.skipped),
              static_cast<double>(ticks) / static_cast<double>(report.ticks),
              static_cast<unsigned long long>(over_budget));
  std::printf("a frame begins late by %.0f us in the median, %.0f us at p99.9; jitter %.0f us\n",
              microseconds(report.late_median), microseconds(report.late_p999), microseconds(report.jitter));
  return ticks >= report.ticks ? 0 : 1;
}
