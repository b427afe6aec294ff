// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/archive.hpp"
#include "core/result.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weft::learning {

struct Score;

/// Anomaly score of a sample: its loss, which under cross-entropy is -log p of the label, or by how many deviations
/// that is above the mean of the losses before.
enum class AnomalyScore : int { none, loss, deviation };
std::string_view name(AnomalyScore score) noexcept;

/// The section "anomaly" of "learning".
struct AnomalyOptions {
  AnomalyScore score = AnomalyScore::none;
  float threshold = 5.0f;      // above which a sample is an anomaly
  float decay = 0.999f;        // of the weights of losses, with each score
  std::uint32_t warmup = 100;  // scores before the first anomaly
  bool operator==(const AnomalyOptions&) const = default;

  bool is_on() const noexcept { return score != AnomalyScore::none; }
};

/// A sample whose score was above the threshold.
struct AnomalyEvent {
  std::uint64_t sample = 0;  // Score::sample
  float loss = 0.0f, score = 0.0f;
};

/// Scores of samples by what the network expected, before it learns from them. With the losses before this one
///   m = m + a (loss - m),  v = (1 - a) (v + a (loss - m)^2),  a = max(1 - decay, 1 / n) of the n-th
/// the score is the loss, or (loss - m) / sqrt(v + 1e-12), 0 for the first. Of an anomaly by deviations m and v take
/// the loss that has the threshold for its score. State of the learner: saved and hashed with
/// it; it reads losses alone.
/// @thread one at a time
/// @exact  binary64, nothing fused; the root is IEEE's
/// @source West 1979, "Updating mean and variance estimates: an improved method", CACM 22
class AnomalyWatch {
 public:
  AnomalyWatch() = default;
  explicit AnomalyWatch(const AnomalyOptions& options) : options_(options) {}

  bool is_on() const noexcept { return options_.is_on(); }
  /// The score of a sample with this loss, as things are.
  float score_of(float loss) const noexcept;
  /// Takes the loss of a score with a label, and writes Score::anomaly.
  void add(Score& score);
  /// Losses taken, and anomalies among them.
  std::uint64_t scores() const noexcept { return counts_.scores; }
  std::uint64_t anomalies() const noexcept { return counts_.anomalies; }
  double mean() const noexcept { return moments_[0]; }
  double deviation() const noexcept;
  /// Since they were last cleared.
  std::span<const AnomalyEvent> events() const noexcept { return events_; }
  void clear_events() noexcept { events_.clear(); }

  /// Events wait in memory alone, as scores do.
  template <class Self, class Archive>
  static void visit(Self& self, Archive& archive) {
    if (!self.is_on()) return;
    archive.same(Field{"anomaly_kind", Scope::messages}, std::uint64_t{1});
    archive(Field{"anomaly_counts", Scope::messages}, self.counts_);
    archive(Field{"anomaly_moments", Scope::messages}, std::span(self.moments_));
    archive.list(Field{"anomaly_events", Scope::answers}, self.events_);
  }
  /// The same as a part of a state's hash.
  void visit_hash(OutArchive& archive) const;
  /// Checks what came out of a file: false where it contradicts itself.
  bool fits() const noexcept;

 private:
  struct Counts {
    std::uint64_t scores = 0, anomalies = 0;
  };
  AnomalyOptions options_{};
  Counts counts_;
  std::array<double, 2> moments_{};  // mean and variance
  std::vector<AnomalyEvent> events_;
};

}  // namespace weft::learning
