// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/learner.hpp"
#include "server/drift_detector.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace weft::server {

/// Hits and losses of the samples that were scored.
class ScoreWindow {
 public:
  static constexpr std::size_t kWindow = 1000;  // samples
  void add(const learning::Score& score) noexcept;
  std::uint64_t samples() const noexcept { return samples_; }
  /// Of the last kWindow samples with a label; nothing before the first.
  std::optional<double> accuracy() const noexcept;
  std::optional<double> mean_loss() const noexcept;
  const DriftDetector& drift() const noexcept { return drift_; }

  /// All of it, to the bit: a window that is read goes on as this one does.
  Json save() const;
  /// @error parse_failed and others of the JSON reader
  static Result<ScoreWindow> read(const Json& saved);

 private:
  struct Entry {
    bool is_hit = false;
    float loss = 0;
  };
  std::size_t count() const noexcept { return samples_ < kWindow ? static_cast<std::size_t>(samples_) : kWindow; }

  std::array<Entry, kWindow> entries_{};
  std::uint64_t samples_ = 0;
  DriftDetector drift_;
};

}  // namespace weft::server
