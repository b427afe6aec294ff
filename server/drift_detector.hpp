// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"
#include "core/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace weft::server {

/// Concept drift seen by the hits and misses of one sample after another (STEPD): the last 100 are compared with all
/// before them since the last drift, by a test of two proportions with correction for continuity. After a drift it
/// waits until the last 100 are back at 95 % of what was before.
/// @source Nishida and Yamauchi 2007, "Detecting Concept Drift Using Statistical Testing", section 3; a stricter bound
///         than theirs, since it is asked at each sample
class DriftDetector {
 public:
  static constexpr std::size_t kRecent = 100;
  static constexpr double kBound = 4.5;  ///< standard deviations
  static constexpr double kBack = 0.95;  ///< of the accuracy before

  struct Event {
    bool is_recovery = false;
    std::uint64_t sample = 0;      ///< count of samples at which it was seen
    double before = 0, after = 0;  ///< accuracy before the drift, and of the last 100
    std::uint64_t since = 0;       ///< of a recovery: samples since the drift was seen
    std::uint64_t number = 0;      ///< counts events from 1
  };
  /// Takes a sample; something where it makes the difference.
  std::optional<Event> add(bool is_hit) noexcept;
  /// The last event; number 0: none.
  const Event& last() const noexcept { return last_; }
  std::uint64_t drifts() const noexcept { return drifts_; }

  /// All of it, to the bit. @error of read: parse_failed and others of the JSON reader
  Json save() const;
  static Result<DriftDetector> read(const Json& saved);

 private:
  double recent_accuracy() const noexcept;
  bool is_worse() const noexcept;
  void begin_anew() noexcept;

  std::array<bool, kRecent> recent_{};
  std::uint64_t samples_ = 0, drifts_ = 0;
  std::uint64_t count_ = 0, hits_ = 0;  // since the last drift or recovery
  std::uint64_t recent_hits_ = 0;
  std::optional<double> wanted_;  // accuracy before a drift that is not over
  Event last_;
};

}  // namespace weft::server
