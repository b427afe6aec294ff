// SPDX-License-Identifier: Apache-2.0

#include "weft.hpp"
#include <array>
#include <cstdio>

using namespace weft;

// The other player's input comes late: it is guessed, and the frames since are done again where the guess was wrong.
int main() {
  NetworkBuilder network("duel", {.x = 2});
  network.input("ours", 4).input("theirs", 4).output("move", {0, 0, 1, 0});
  network.dense({0, 0, 0, 0}, 32, Activation::tanh).from({"ours", "theirs", {0, 0, 1, 0}});
  network.dense({0, 0, 1, 0}, 4, Activation::tanh).from({{0, 0, 0, 0}});
  auto mesh = Mesh::build(network.spec(), {.threads = 1}).value();
  auto truth = Mesh::build(network.spec(), {.threads = 1}).value();  // a mesh that had every input in time

  const auto advance = [](Mesh& m, float ours, float theirs) {
    return m.set_input("ours", std::array{ours, 0.0f, 0.0f, 1.0f}) &&
           m.set_input("theirs", std::array{theirs, 1.0f, 0.0f, 0.0f}) && m.tick();
  };
  mesh::Snapshot saved;  // allocates once
  for (int frame = 0; frame < 100; ++frame) {
    const float ours = 0.01f * static_cast<float>(frame), theirs = frame % 3 == 0 ? 1.0f : 0.0f;
    mesh.take_snapshot(saved);
    if (!advance(mesh, ours, 0.0f)) return 1;  // the guess: they do nothing
    if (theirs != 0.0f && (!mesh.restore_snapshot(saved) || !advance(mesh, ours, theirs))) return 1;
    if (!advance(truth, ours, theirs)) return 1;
  }
  std::printf("%s\n", mesh.state_hash() == truth.state_hash() ? "the same bits" : "parted");
  return mesh.state_hash() == truth.state_hash() ? 0 : 1;
}
