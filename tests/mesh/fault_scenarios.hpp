// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/runtime/command.hpp"

#include "testing.hpp"
#include <string>
#include <vector>

/// Runs with faults and commands in them, for tests that leave one and come back.
namespace weft::mesh::testing_support {

inline std::string hashes(const Mesh& mesh) {
  std::string all = std::to_string(mesh.ticks()) + ": ";
  for (std::size_t b = 0; b < mesh.sessions(); ++b) all += to_string(mesh.state_hash(b)) + " ";
  return all;
}

/// Two fragile cells under other policies beside one of everything.
inline NetworkSpec fragile_network() {
  register_fragile();
  NetworkBuilder builder = mixed_network();
  builder.input("fuse", 1)
      .layer({0, 1, 0, 1}, "fragile")
      .from({"fuse", Coord{0, 0, 0, 0}})
      .option("memory", true)
      .policy(actors::Policy::hold)
      .layer({1, 1, 0, 1}, "fragile")
      .from({"fuse", Coord{0, 1, 1, 0}})
      .option("memory", true)
      .policy(actors::Policy::restart);
  NetworkSpec spec = std::move(builder).spec();
  spec.supervision.max_restarts = 3;
  spec.supervision.window = 50;
  spec.supervision.escalation = actors::Policy::isolate;
  return spec;
}

inline void run_with_faults(Mesh& mesh, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t tick = from; tick < to; ++tick) {
    for (std::size_t b = 0; b < mesh.sessions(); ++b) {
      // Some inputs are held over several ticks, so that what a port holds matters too.
      if (tick % 3 == 0) must(mesh.set_input("a", noise(7, 10 * tick + b), b));
      must(mesh.set_input("b", noise(5, 7777 + 10 * tick + b), b));
      const bool fails = b == 1 && (tick == 4 || tick == 9 || tick == 13 || tick == 14 || tick == 15);
      must(mesh.set_input("fuse", std::vector<float>{fails ? kNan : 0.25f}, b));
    }
    must(mesh.tick());
  }
}

inline Mesh started(std::size_t sessions, MeshOptions options = {.threads = 1}) {
  options.sessions = sessions;
  Mesh mesh = must(Mesh::build(fragile_network(), options));
  post(mesh, {1, 0, 0, 0}, CommandKind::disable, 6);
  post(mesh, {0, 0, 0, 0}, CommandKind::set_period, 3, 2);
  return mesh;
}

}  // namespace weft::mesh::testing_support
