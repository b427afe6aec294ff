// SPDX-License-Identifier: Apache-2.0

#include "learning/anomaly.hpp"

#include "learning/internal/anomaly_table.hpp"
#include "learning/learner.hpp"

#include <algorithm>
#include <cmath>

namespace weft::learning {
namespace {

const std::vector<std::string_view> kAnomalyScores{"none", "loss", "deviation"};
constexpr double kLeastVariance = 1e-12;

}  // namespace

std::string_view name(AnomalyScore score) noexcept { return kAnomalyScores[static_cast<std::size_t>(score)]; }

const OptionTable<AnomalyOptions>& anomaly_table() {
  using O = AnomalyOptions;
  static constexpr std::string_view kOn = "score=loss|deviation";
  static const OptionTable<AnomalyOptions> table({
      option("score", &O::score,
             {.names = kAnomalyScores,
              .meaning = "what tells that a sample is an anomaly, before it is learned from: its `loss` (-log p of a "
                         "label), or by how many deviations that is above the mean of the losses before "
                         "(`deviation`)"}),
      option("threshold", &O::threshold,
             {.low = -1e6, .high = 1e6, .meaning = "score above which a sample is one", .only_with = kOn}),
      option("decay", &O::decay,
             {.low = 0,
              .high = 0.9999999,
              .meaning = "weight of a loss over that of the one after it, in mean and deviation",
              .only_with = kOn}),
      option("warmup", &O::warmup,
             {.low = 0,
              .high = 1u << 30,
              .unit = "scores",
              .meaning = "scores before the first anomaly",
              .only_with = kOn}),
  });
  return table;
}

double AnomalyWatch::deviation() const noexcept { return std::sqrt(moments_[1]); }

float AnomalyWatch::score_of(float loss) const noexcept {
  if (options_.score != AnomalyScore::deviation) return loss;
  if (counts_.scores == 0) return 0.0f;
  return static_cast<float>((double{loss} - moments_[0]) / std::sqrt(moments_[1] + kLeastVariance));
}

void AnomalyWatch::add(Score& score) {
  if (!is_on() || score.label == kNoLabel || !std::isfinite(score.loss)) return;
  score.anomaly = score_of(score.loss);
  const std::uint64_t number = counts_.scores++;
  double loss = score.loss;
  if (number >= options_.warmup && score.anomaly > options_.threshold) {
    ++counts_.anomalies;
    events_.push_back({score.sample, score.loss, score.anomaly});
    // Taken whole, one anomaly would hide the next ones.
    const double edge = moments_[0] + double{options_.threshold} * std::sqrt(moments_[1] + kLeastVariance);
    if (options_.score == AnomalyScore::deviation) loss = std::min(loss, edge);
  }
  const double share = std::max(1.0 - double{options_.decay}, 1.0 / static_cast<double>(counts_.scores));
  const double distance = loss - moments_[0];
  moments_[0] += share * distance;
  moments_[1] = (1.0 - share) * (moments_[1] + share * (distance * distance));
}

void AnomalyWatch::visit_hash(OutArchive& archive) const {
  archive(Field{"anomaly_counts", Scope::control}, counts_);
  archive(Field{"anomaly_moments", Scope::control}, std::span(moments_));
}

bool AnomalyWatch::fits() const noexcept {
  return std::isfinite(moments_[0]) && std::isfinite(moments_[1]) && moments_[1] >= 0.0 &&
         counts_.anomalies <= counts_.scores;
}

}  // namespace weft::learning
