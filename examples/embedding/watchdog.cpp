// SPDX-License-Identifier: Apache-2.0

#include "weft.hpp"
#include <chrono>
#include <cstdio>

using namespace weft;

// A mesh whose cells are watched: one that does not return for two seconds is named, while it stands.
int main() {
  NetworkBuilder network("watched", {.x = 2});
  network.input("in", 4).dense({0, 0, 0, 0}, 4).dense({0, 0, 1, 0}, 2).output("out", {0, 0, 1, 0});
  Mesh mesh = Mesh::build(network.spec()).value();
  WatchdogOptions options;
  options.limit = std::chrono::seconds(2);
  options.told = [](const Hang& hang) {  // on the watchdog's thread
    std::fprintf(stderr, "cell %u stands at tick %lu%s\n", hang.actor, hang.tick, hang.is_over ? " no more" : "");
  };
  const Watchdog watchdog(mesh.activity(), mesh.registry().size(), options);
  if (!mesh.tick(1000)) return 1;
  std::printf("%lu hangs\n", watchdog.hangs());
}
