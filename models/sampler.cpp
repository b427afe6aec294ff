// SPDX-License-Identifier: Apache-2.0

#include "models/sampler.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/math.hpp"

#include "core/philox.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace weft::models {
namespace {

/// A number of a draw: uniform in (0, 1), a function of seed and position.
double uniform(std::uint64_t seed, std::uint64_t position) {
  // No other stream has this purpose (core/philox.hpp).
  constexpr auto kSample = static_cast<RandomPurpose>(16);
  RandomStream stream(seed, 0, kSample);
  stream.seek(position);
  return (static_cast<double>(stream.next_u32()) + 0.5) * 0x1p-32;
}

}  // namespace

Result<text::TokenId> Sampler::pick(std::span<const float> logits, std::uint64_t position) {
  std::size_t largest = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]))
      return fail(Errc::not_finite,
                  "logit " + std::to_string(i) + " of token " + std::to_string(position) + " is not a number");
    if (logits[i] > logits[largest]) largest = i;
  }
  if (options_.temperature <= 0) return static_cast<text::TokenId>(largest);
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) candidates_.push_back({logits[i], 0, static_cast<text::TokenId>(i)});
  const std::size_t most = options_.top_k == 0 ? logits.size() : std::min(options_.top_k, logits.size());
  std::partial_sort(
      candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(most), candidates_.end(),
      [](const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; });
  candidates_.resize(most);
  const kernels::FlushSubnormals exact;
  keep_likely();
  const auto by = static_cast<float>(1 / options_.temperature);
  double total = 0;
  for (Candidate& each : candidates_) {
    each.share = kernels::math::exp((each.logit - candidates_.front().logit) * by);
    total += static_cast<double>(each.share);
  }
  const double wanted = uniform(options_.seed, position) * total;
  double sum = 0;
  for (const Candidate& each : candidates_) {
    sum += static_cast<double>(each.share);
    if (sum >= wanted) return each.id;
  }
  return candidates_.back().id;
}

void Sampler::keep_likely() {
  double total = 0;
  for (Candidate& each : candidates_) {
    each.share = kernels::math::exp(each.logit - candidates_.front().logit);
    total += static_cast<double>(each.share);
  }
  std::size_t kept = candidates_.size();
  if (options_.top_p < 1) {
    double sum = 0;
    for (kept = 0; kept < candidates_.size() && sum < options_.top_p * total; ++kept)
      sum += static_cast<double>(candidates_[kept].share);
  }
  // Shares are in parts of the largest one, and fall.
  while (kept > 1 && static_cast<double>(candidates_[kept - 1].share) < options_.min_p) --kept;
  candidates_.resize(std::max<std::size_t>(kept, 1));
}

}  // namespace weft::models
