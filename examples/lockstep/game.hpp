// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/mesh.hpp"
#include "mesh/persistence/snapshot.hpp"

#include "core/result.hpp"
#include "core/state_hash.hpp"

#include "link.hpp"
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// The farthest back that a late input may reach.
inline constexpr std::uint32_t kDeepest = 12;

enum class Side : std::uint32_t { left, right };
inline const char* name(Side side) { return side == Side::left ? "left" : "right"; }

struct Settings {
  std::uint32_t frames = 600, seed = 1;
  std::uint32_t latency = 3, jitter = 6;  // frames; together at most kDeepest
  std::uint32_t every = 20;               // frames from hash to hash
  std::uint32_t quit_at = UINT32_MAX;     // a frame at which this side drops dead
  std::uint32_t stray_at = UINT32_MAX;    // a frame at which it plays something else than it says
};

using Input = std::array<float, 4>;

struct Report {
  std::uint32_t frames = 0, rollbacks = 0, deepest = 0, played_again = 0;
  weft::Hash128 hash;
};

/// One side of the game.
class Game {
 public:
  static weft::Result<Game> make(Side side, const Settings& settings);
  /// Plays all frames with the program at the other end.
  weft::Result<Report> play(Link& link);

 private:
  Game(Side side, const Settings& settings, weft::mesh::Mesh mesh);
  weft::Status greet(Link& link);
  weft::Status hear(Link& link, std::uint32_t frame);
  weft::Status simulate(std::uint32_t frame);
  weft::Status correct(std::uint32_t now);
  weft::Status tell_hashes(Link& link);
  weft::Status compare();
  std::uint32_t delay(std::uint32_t frame) const;
  const Input& predicted(std::uint32_t frame) const;

  Side side_;
  Settings settings_;
  weft::mesh::Mesh mesh_;
  std::array<weft::mesh::Snapshot, kDeepest + 1> ring_;  // the state before a frame
  std::vector<Input> own_, used_, theirs_;               // by frame; used_: what was taken for theirs
  std::vector<bool> heard_;
  std::vector<weft::Hash128> hashes_, their_hashes_;    // after each `every` frames
  std::uint32_t arrived_ = 0;                           // inputs that came over the link, late ones among them
  std::uint32_t known_ = 0;                             // frames whose inputs are all known
  std::uint32_t told_ = 0, compared_ = 0, agreed_ = 0;  // hashes: sent, come, found the same
  Report report_;
};

}  // namespace lockstep
