// SPDX-License-Identifier: Apache-2.0

#include "weft.hpp"
#include <algorithm>
#include <cstdio>

using namespace weft;

// A network file, or an .entity file that `weft run --save` or `weft morph` wrote.
int main(int count, char** words) {
  auto loaded = Mesh::load(count > 1 ? words[1] : "digits.entity");
  if (!loaded) {
    std::fprintf(stderr, "%s\n", loaded.error().text().c_str());
    return 1;
  }
  Mesh mesh = std::move(*loaded);

  const std::vector<float> pixels(64, 0.5f);
  if (!mesh.set_input("pixels", pixels) || !mesh.tick(12)) return 1;  // held until the answer stands
  const auto scores = mesh.output("digit").value();
  const auto best = std::max_element(scores.begin(), scores.end());
  std::printf("class %td, tick %lu, state %s\n", best - scores.begin(), mesh.ticks(),
              to_string(mesh.state_hash()).c_str());
}
