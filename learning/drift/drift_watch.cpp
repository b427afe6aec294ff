// SPDX-License-Identifier: Apache-2.0

#include "learning/drift/drift_watch.hpp"

#include "learning/learner.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace weft::learning {

DriftWatch::DriftWatch(const DriftOptions& options, std::uint64_t seed) : options_(options) {
  if (options.is_on()) detector_ = make_detector(options.detector, seed);
}

void DriftWatch::add(const Score& score) {
  if (!detector_ || score.label == kNoLabel || is_of_acting(options_.input)) return;
  const double error = score.prediction == score.label ? 0.0 : 1.0;
  take(options_.input == DriftInput::loss ? static_cast<double>(score.loss) : error, score.sample);
}

void DriftWatch::add(double value, std::uint64_t step) {
  if (detector_ && is_of_acting(options_.input)) take(value, step);
}

void DriftWatch::take(double value, std::uint64_t sample) {
  const DriftLevel level = detector_->add(value);
  const std::uint64_t number = counts_.scores++;
  const auto tell = [&] { events_.push_back({static_cast<std::uint64_t>(level), sample, number}); };
  if (level == DriftLevel::warning && counts_.is_warned == 0) {
    ++counts_.warnings;
    tell();
  }
  counts_.is_warned = level == DriftLevel::warning ? 1 : 0;
  if (level == DriftLevel::improvement) {
    ++counts_.improvements;
    tell();
  }
  if (level != DriftLevel::change) return;
  ++counts_.changes;
  counts_.last_change = number;
  tell();
}

std::uint64_t DriftWatch::wanted_boost() const noexcept {
  if (counts_.changes == 0) return 0;
  const auto whole = static_cast<std::uint64_t>(std::countr_zero(options_.rate_boost));
  const std::uint64_t halved = (counts_.scores - counts_.last_change - 1) / options_.boost_samples;
  return whole - std::min(whole, halved);
}

DriftReaction DriftWatch::due() const noexcept {
  if (!detector_) return {};
  const std::uint64_t wanted = wanted_boost();
  const int steps = static_cast<int>(wanted) - static_cast<int>(counts_.boost);
  const bool is_new = counts_.reacted != counts_.changes;
  return {std::ldexp(1.0f, steps), is_new && options_.checkpoint, is_new && options_.renews(),
          is_new && options_.swaps()};
}

void DriftWatch::reacted() noexcept {
  counts_.boost = wanted_boost();
  forgo();
}

void DriftWatch::visit_hash(OutArchive& archive) const {
  archive(Field{"drift_counts", Scope::control}, counts_);
  archive(Field{"drift_detector", Scope::control}, detector_->state());
}

void DriftWatch::visit_detector(InArchive& archive) {
  fits_ = detector_->visit(archive) && detector_->inputs() <= counts_.scores && counts_.changes <= counts_.scores &&
          counts_.boost <= 10 && counts_.last_change <= counts_.scores;
}

}  // namespace weft::learning
