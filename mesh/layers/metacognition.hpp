// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"
#include "mesh/runtime/observer.hpp"

#include "core/encoding.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace weft::mesh {

/// Condition and action of a metacognition layer.
struct WatchRule {
  enum class Statistic : int { mean, deviation, active, rms, gain_drift, gradient_storm };
  enum class Action : int { morph, reset, swap };
  Statistic statistic = Statistic::rms;
  double above = std::numeric_limits<double>::infinity(), below = -std::numeric_limits<double>::infinity();
  Action action = Action::reset;
  Encoding encoding;              // wanted by morph
  std::uint64_t min_ticks = 1;    // ticks in a row
  std::uint64_t cooldown = 1000;  // ticks from one action to the next
  std::uint64_t horizon = 256;    // ticks of the slow averages
};

/// The deciding half of one metacognition layer: what it remembers from tick to tick. Decisions are made of committed
/// values alone, so they are the same on every thread count, and their memory is part of the state hash and of files.
/// @thread the one that runs the cell of the metacognition layer
class Watcher final : public Observer {
 public:
  Watcher(const WatchRule& rule, std::uint32_t node, CellPlace watched, CellPlace spare)
      : rule_(rule), node_(node), places_{watched, spare} {}

  const WatchRule& rule() const noexcept { return rule_; }
  /// The metacognition layer itself.
  std::uint32_t node() const noexcept { return node_; }
  /// The cell it watches now; the other one takes its place with every swap.
  const CellPlace& watched() const noexcept { return places_[is_swapped_]; }
  const CellPlace& spare() const noexcept { return places_[1 - is_swapped_]; }
  /// 0 while it watches its first source, 1 while the second.
  std::size_t watched_source() const noexcept { return is_swapped_; }
  std::uint64_t actions() const noexcept { return actions_; }

  /// Takes in one tick's value: what the rule looks at, or the size whose change it looks at (gain_drift: rms;
  /// gradient_storm: the gradient's rms, 0 when there was none). True when the rule acts now.
  bool update(std::uint64_t tick, double value) noexcept;

  void observe(const Observation& seen, CommandSink& to) override;
  bool may_change_weights() const noexcept override { return rule_.action == WatchRule::Action::morph; }
  void save(std::vector<std::uint64_t>& to) const override {
    const auto all = words();
    to.assign(all.begin(), all.end());
  }
  std::array<std::uint64_t, kWords> words() const noexcept {
    return {cooldown_until_, held_, seen_, std::bit_cast<std::uint64_t>(slow_), actions_ << 1 | is_swapped_};
  }
  Status restore(std::span<const std::uint64_t> words) override;

 private:
  bool holds(double value) noexcept;
  double value_of(const Observation& seen) const noexcept;
  void send(CommandSink& to, const CellPlace& place, CommandKind kind, std::uint64_t tick) const;

  WatchRule rule_;
  std::uint32_t node_;
  std::array<CellPlace, 2> places_;
  std::uint64_t cooldown_until_ = 0, held_ = 0, seen_ = 0, actions_ = 0;
  double slow_ = 0;
  std::size_t is_swapped_ = 0;
};

/// Watches another layer, its only source, and acts on it under a rule.
///   y = mean, deviation, active fraction and rms of what the source committed
/// While the rule's condition has held for `min_ticks` ticks in a row and `cooldown` ticks have passed since it last
/// acted, it sends the source's cell a command, which is executed 3 ticks later, on every thread count
/// (docs/decisions/0009):
///   morph  store the source's matrices as `to`
///   reset  outputs and hidden state of the source's cell to zero
///   swap   of two sources of equal width the one watched is reset and disabled, the other enabled, and watched from
///          then on: a spare. y then has the four numbers of each. Add the two up to read whichever works.
/// Conditions are about the mean over all sessions, since the source's weights serve them all:
///   mean, deviation, active, rms   as in y; `active` is the share of |x| above `active_above`
///   gain_drift                     rms against its slow average, the larger by the smaller: 1 is no drift
///   gradient_storm                 rms of the source's last gradient against its slow average; only while it learns
/// Slow averages run over `horizon` ticks; the last two act only after so many. Several rules are several such layers;
/// at most four may watch one cell. Nothing travels back: watching does not steer what is watched.
/// @shape  x [rows, ...] -> y [rows, 4], with swap [rows, 8]
/// @exact  statistics by rule R2; the rule in float64 with + - * / alone; its memory is part of checkpoints
/// @source original here
Result<std::unique_ptr<Layer>> make_metacognition(const Shape& in, std::size_t out, OptionReader& options);

/// The rule of a metacognition layer; null: it is of another type.
const WatchRule* watch_rule(const Layer& layer) noexcept;

}  // namespace weft::mesh
