// SPDX-License-Identifier: Apache-2.0

// A loop of 60 frames a second around a model that `weft run --save` wrote: each frame sees a flower, thinks about it
// for 2 ms at most, and shows what it is.

#include "weft.hpp"
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <thread>

using namespace weft;
using namespace std::chrono_literals;

int main(int count, char** words) {
  auto loaded = Mesh::load(count > 1 ? words[1] : "iris.entity");
  if (!loaded) {
    std::fprintf(stderr, "%s\n", loaded.error().text().c_str());
    return 1;
  }
  Mesh mesh = std::move(*loaded);
  const std::array<std::array<float, 4>, 3> flowers{
      {{5.0f, 3.4f, 1.5f, 0.2f}, {6.1f, 2.9f, 4.7f, 1.4f}, {7.2f, 3.2f, 6.0f, 1.8f}}};
  const std::array names{"setosa", "versicolor", "virginica"};

  auto longest = 0ns;
  auto next = std::chrono::steady_clock::now();
  for (std::size_t frame = 0; frame < 60; ++frame) {
    const auto begin = std::chrono::steady_clock::now();
    if (!mesh.set_input("x", flowers[frame / 20])) return 1;
    const auto ticks = mesh.tick_for(2ms);
    const auto answer = mesh.output("y");
    if (!ticks || !answer) return 1;
    const auto best = std::max_element(answer->begin(), answer->end()) - answer->begin();
    longest = std::max<std::chrono::nanoseconds>(longest, std::chrono::steady_clock::now() - begin);
    if (frame % 20 == 19)
      std::printf("frame %2zu: %s, %lu ticks\n", frame, names[best], static_cast<unsigned long>(*ticks));
    std::this_thread::sleep_until(next += 16667us);
  }
  std::printf("60 frames, the longest took %.2f ms of 16.67\n",
              std::chrono::duration<double, std::milli>(longest).count());
}
