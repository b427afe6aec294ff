// SPDX-License-Identifier: Apache-2.0

#include "server/drift_detector.hpp"

#include <cmath>

namespace weft::server {

double DriftDetector::recent_accuracy() const noexcept {
  return static_cast<double>(recent_hits_) / static_cast<double>(kRecent);
}

/// Both parts have kRecent samples at least.
bool DriftDetector::is_worse() const noexcept {
  if (count_ < 2 * kRecent) return false;
  const double recent = kRecent, older = static_cast<double>(count_ - kRecent);
  const double old_share = static_cast<double>(hits_ - recent_hits_) / older, share = recent_accuracy();
  if (share >= old_share) return false;
  const double all = static_cast<double>(hits_) / static_cast<double>(count_), inverse = 1 / older + 1 / recent;
  const double distance = old_share - share - 0.5 * inverse;
  return distance > 0 && distance > kBound * std::sqrt(all * (1 - all) * inverse);
}

void DriftDetector::begin_anew() noexcept {
  count_ = hits_ = recent_hits_ = 0;
  recent_.fill(false);
}

std::optional<DriftDetector::Event> DriftDetector::add(bool is_hit) noexcept {
  bool& oldest = recent_[samples_++ % kRecent];
  if (count_ >= kRecent) recent_hits_ -= oldest;
  oldest = is_hit;
  recent_hits_ += is_hit;
  hits_ += is_hit;
  ++count_;
  if (wanted_) {
    if (count_ < kRecent || recent_accuracy() < kBack * *wanted_) return std::nullopt;
    last_ = {true, samples_, *wanted_, recent_accuracy(), samples_ - last_.sample, last_.number + 1};
    wanted_.reset();
    begin_anew();
    return last_;
  }
  if (!is_worse()) return std::nullopt;
  wanted_ = static_cast<double>(hits_ - recent_hits_) / static_cast<double>(count_ - kRecent);
  last_ = {false, samples_, *wanted_, recent_accuracy(), 0, last_.number + 1};
  ++drifts_;
  begin_anew();
  return last_;
}

}  // namespace weft::server
