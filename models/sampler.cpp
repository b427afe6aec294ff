// SPDX-License-Identifier: Apache-2.0

#include "models/sampler.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/math.hpp"

#include "core/philox.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_map>

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

constexpr float kBanned = -std::numeric_limits<float>::infinity();

/// No draw: the largest logit is taken. So it is where the factor of logits is above all of binary32.
bool is_greedy(const SamplerOptions& options) {
  return options.temperature <= 0 || std::isinf(static_cast<float>(1 / options.temperature));
}

Failure not_finite(const std::string& what, std::uint64_t position) {
  return fail(Errc::not_finite, what + " of token " + std::to_string(position) + " is infinite or not a number");
}

/// Times that each token is among the last `window` of some.
std::unordered_map<text::TokenId, std::size_t> counts_of(std::span<const text::TokenId> ids, std::size_t window) {
  std::unordered_map<text::TokenId, std::size_t> counts;
  for (const text::TokenId id : window == 0 ? ids : ids.last(std::min(window, ids.size()))) ++counts[id];
  return counts;
}

}  // namespace

Result<text::TokenId> Sampler::pick(std::span<const float> logits, const TokenHistory& before, std::uint64_t position,
                                    const Mask& allows) {
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) return not_finite("logit " + std::to_string(i), position);
    candidates_.push_back({logits[i], 0, static_cast<text::TokenId>(i)});
  }
  const kernels::FlushSubnormals exact;
  add_bias();
  ban_repeated(before.ids);
  penalize(before);
  take_largest(allows);
  if (candidates_.empty())
    return fail(Errc::not_found, "token " + std::to_string(position) + ": no token of the vocabulary may come here");
  if (std::isinf(candidates_.front().logit))
    return not_finite("logit " + std::to_string(candidates_.front().id) + " with its bias and penalties", position);
  if (is_greedy(options_)) return candidates_.front().id;
  const auto by = static_cast<float>(1 / options_.temperature);
  if (options_.temperature_first) {
    scale(by);
    keep_likely();
    keep_typical();
  } else {
    keep_typical();
    keep_likely();
  }
  const double total = weigh(options_.temperature_first ? 1 : by);
  if (!std::isfinite(total)) return not_finite("the sum of shares", position);
  const double wanted = uniform(options_.seed, position) * total;
  double sum = 0;
  for (const Candidate& each : candidates_) {
    sum += static_cast<double>(each.share);
    if (sum >= wanted) return each.id;
  }
  return candidates_.back().id;
}

void Sampler::add_bias() {
  for (const auto& [id, bias] : options_.logit_bias)
    if (id < candidates_.size()) candidates_[id].logit += bias;
}

/// Of tokens that followed the last n - 1 tokens before, none may follow them again.
void Sampler::ban_repeated(std::span<const text::TokenId> ids) {
  const std::size_t n = options_.no_repeat_ngram;
  if (n == 0 || ids.size() < n) return;
  const auto last = ids.last(n - 1);
  for (std::size_t i = 0; i + n <= ids.size(); ++i)
    if (const text::TokenId id = ids[i + n - 1];
        id < candidates_.size() && std::equal(last.begin(), last.end(), ids.begin() + static_cast<std::ptrdiff_t>(i)))
      candidates_[id].logit = kBanned;
}

void Sampler::penalize(const TokenHistory& before) {
  const auto repetition = static_cast<float>(options_.repetition_penalty),
             presence = static_cast<float>(options_.presence_penalty),
             frequency = static_cast<float>(options_.frequency_penalty);
  if (repetition != 1)
    for (const auto& [id, count] : counts_of(before.ids, options_.penalty_window)) {
      if (id >= candidates_.size()) continue;
      float& logit = candidates_[id].logit;
      logit = logit <= 0 ? logit * repetition : logit / repetition;
    }
  if (presence == 0 && frequency == 0) return;
  const auto counted = options_.penalizes_prompt ? before.ids : before.ids.subspan(before.prompt);
  for (const auto& [id, count] : counts_of(counted, options_.penalty_window))
    if (id < candidates_.size()) candidates_[id].logit -= static_cast<float>(count) * frequency + presence;
}

/// The largest that may come, in order: so many as are wanted, and not asking about more.
void Sampler::take_largest(const Mask& allows) {
  const auto comes_later = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit < b.logit : a.id > b.id;
  };
  const std::size_t most = is_greedy(options_) ? 1 : options_.top_k == 0 ? candidates_.size() : options_.top_k;
  if (!allows) {
    std::vector<Candidate> kept(std::min(most, candidates_.size()));
    std::partial_sort_copy(candidates_.begin(), candidates_.end(), kept.begin(), kept.end(),
                           [&](const Candidate& a, const Candidate& b) { return comes_later(b, a); });
    std::erase_if(kept, [](const Candidate& each) { return each.logit == kBanned; });
    candidates_ = std::move(kept);
    return;
  }
  std::make_heap(candidates_.begin(), candidates_.end(), comes_later);
  std::vector<Candidate> kept;
  for (auto end = candidates_.end(); end != candidates_.begin() && kept.size() < most;) {
    std::pop_heap(candidates_.begin(), end, comes_later);
    --end;
    if (end->logit == kBanned) break;
    if (!allows || allows(end->id)) kept.push_back(*end);
  }
  candidates_ = std::move(kept);
}

/// Shares in parts of the largest candidate's; gives their sum.
double Sampler::weigh(float by) {
  double total = 0;
  for (Candidate& each : candidates_) {
    each.share = kernels::math::exp((each.logit - candidates_.front().logit) * by);
    total += static_cast<double>(each.share);
  }
  return total;
}

/// Logits less the largest one, in parts of the temperature.
void Sampler::scale(float by) {
  const float largest = candidates_.front().logit;
  for (Candidate& each : candidates_) each.logit = (each.logit - largest) * by;
}

/// Those whose information is nearest to the entropy, until their shares exceed `typical_p`.
void Sampler::keep_typical() {
  if (options_.typical_p >= 1) return;
  const double total = weigh(1);
  const auto log_total = static_cast<double>(kernels::math::log(static_cast<float>(total)));
  const auto information = [&](const Candidate& each) {
    return log_total - static_cast<double>(each.logit - candidates_.front().logit);
  };
  double entropy = 0;
  for (const Candidate& each : candidates_)
    if (each.share > 0) entropy += static_cast<double>(each.share) / total * information(each);
  std::vector<std::pair<double, std::size_t>> order;  // by distance, then in the order of the logits
  for (std::size_t i = 0; i < candidates_.size(); ++i)
    order.emplace_back(std::abs(information(candidates_[i]) - entropy), i);
  std::sort(order.begin(), order.end());
  double sum = 0;
  std::size_t kept = 0;
  while (kept < order.size() && sum <= options_.typical_p * total)
    sum += static_cast<double>(candidates_[order[kept++].second].share);
  order.resize(std::max<std::size_t>(kept, 1));
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<Candidate> typical;
  for (const auto& [distance, i] : order) typical.push_back(candidates_[i]);
  candidates_ = std::move(typical);
}

void Sampler::keep_likely() {
  const double total = weigh(1);
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
