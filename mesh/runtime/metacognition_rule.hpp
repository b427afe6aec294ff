// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/encoding.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace weft::mesh {

/// What a metacognition layer looks at and what it does about it (mesh/layers/metacognition.hpp).
struct WatchRule {
  enum class Look : int { mean, deviation, active, rms, gain_drift, gradient_storm };
  enum class Action : int { morph, reset, swap };
  Look look = Look::rms;
  double above = std::numeric_limits<double>::infinity(), below = -std::numeric_limits<double>::infinity();
  Action action = Action::reset;
  Encoding encoding;              // wanted by morph
  std::uint64_t patience = 1;     // ticks in a row
  std::uint64_t cooldown = 1000;  // ticks from one action to the next
  std::uint64_t horizon = 256;    // ticks of the slow averages
};

/// The deciding half of one metacognition layer: what it remembers from tick to tick. Decisions are made of committed
/// values alone, so they are the same on every thread count, and their memory is part of the state hash and of files.
/// @thread the one that runs the cell of the metacognition layer
class Watcher {
 public:
  static constexpr std::size_t kWords = 5;
  /// A place that orders go to: a cell, by its index, and a layer in it.
  struct Place {
    std::uint32_t node = 0, cell = 0, level = 0;
  };

  Watcher(const WatchRule& rule, std::uint32_t node, Place watched, Place spare)
      : rule_(rule), node_(node), places_{watched, spare} {}

  const WatchRule& rule() const noexcept { return rule_; }
  /// The metacognition layer itself.
  std::uint32_t node() const noexcept { return node_; }
  /// What it watches now, and what would take over: they change places with every swap.
  const Place& watched() const noexcept { return places_[is_swapped_]; }
  const Place& spare() const noexcept { return places_[1 - is_swapped_]; }
  /// 0 while it watches its first source, 1 while the second.
  std::size_t watched_source() const noexcept { return is_swapped_; }
  std::uint64_t actions() const noexcept { return actions_; }

  /// Takes in one tick's value: what the rule looks at, or the size whose change it looks at (gain_drift: rms;
  /// gradient_storm: the gradient's rms, 0 when there was none). True when the rule acts now.
  bool look(std::uint64_t tick, double value) noexcept;

  std::array<std::uint64_t, kWords> words() const noexcept {
    return {quiet_until_, held_, seen_, std::bit_cast<std::uint64_t>(slow_), actions_ << 1 | is_swapped_};
  }
  /// False when they are no such words.
  bool restore(std::span<const std::uint64_t, kWords> words) noexcept;

 private:
  bool holds(double value) noexcept;

  WatchRule rule_;
  std::uint32_t node_;
  std::array<Place, 2> places_;
  std::uint64_t quiet_until_ = 0, held_ = 0, seen_ = 0, actions_ = 0;
  double slow_ = 0;
  std::size_t is_swapped_ = 0;
};

}  // namespace weft::mesh
