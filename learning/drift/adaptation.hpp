// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace weft::learning {

/// A change of the task, and how a learner adapted to it. Accuracies are shares of hits in a window of scores.
struct Adaptation {
  std::uint64_t at = 0;      ///< number of the first score of the changed task; of one that was only seen, of the alarm
  bool is_declared = false;  ///< the stream knew of it; false: a detector saw it
  double before = 0;         ///< accuracy then
  double trough = 1;         ///< least accuracy since
  double area = 0;           ///< hits lost: sum of `before` less the hit, 1 or 0, up to `to_99`, the next change or now
  std::optional<std::uint64_t> to_95,
      to_99;                           ///< scores until the window, filled anew, is back at that share of `before`
  std::optional<std::uint64_t> delay;  ///< scores from a declared change to the detector's alarm
};

/// Mean and standard deviation of some numbers; of none, none.
struct Spread {
  double mean = 0, deviation = 0;
};
std::optional<Spread> spread_of_values(std::span<const double> values);

/// Follows a learner's scores through any number of changes.
/// @exact  binary64, in the order of the scores
class AdaptationTracker {
 public:
  AdaptationTracker() = default;
  explicit AdaptationTracker(std::uint64_t window) : window_(window) {}

  /// The task changes with the next score, where the accuracy is `accuracy`.
  void declare(double accuracy);
  /// A detector's alarm at the last score. It is of the last change while that is not at `to_99` and has no alarm yet;
  /// later ones up to there are no changes of their own.
  void detect(double accuracy);
  /// The next score; `accuracy`: of the window with it.
  void add(bool hit, double accuracy);

  std::uint64_t scores() const noexcept { return scores_; }
  /// So many scores came before, of which no change is known.
  void stand_at(std::uint64_t scores) noexcept { scores_ = scores; }
  /// In the order of their beginnings; at most kMost, the latest.
  std::span<const Adaptation> changes() const noexcept { return changes_; }
  /// Of all changes that have the number: `area`, `before - trough`, `to_95`, `to_99`, `delay`.
  std::optional<Spread> spread_of(std::optional<double> (*number)(const Adaptation&)) const;

  Json save() const;
  /// @error parse_failed, out_of_range
  Status load(const JsonValue& value);

  static constexpr std::size_t kMost = 4096;

 private:
  void begin(std::uint64_t at, bool is_declared, double accuracy);

  std::uint64_t window_ = 0, scores_ = 0;
  std::vector<Adaptation> changes_;
};

}  // namespace weft::learning
