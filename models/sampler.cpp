// SPDX-License-Identifier: Apache-2.0

#include "models/sampler.hpp"

#include "models/sequence_breakers.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/math.hpp"

#include "core/philox.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace weft::models {
namespace {

/// Uses of random numbers; part of their addresses.
enum class Purpose : std::uint64_t { draw, xtc };

/// A number of a draw: uniform in (0, 1), a function of seed, purpose and position.
double uniform(std::uint64_t seed, Purpose purpose, std::uint64_t position) {
  // No other stream has this purpose (core/philox.hpp).
  constexpr auto kSample = static_cast<RandomPurpose>(16);
  RandomStream stream(seed, static_cast<std::uint64_t>(purpose), kSample);
  stream.seek(position);
  return (static_cast<double>(stream.next_u32()) + 0.5) * 0x1p-32;
}

constexpr float kBanned = -std::numeric_limits<float>::infinity();
constexpr double kLn2 = 0.69314718055994530942;

/// No draw: the largest logit is taken. So it is where the factor of logits is above all of binary32.
bool is_greedy(const SamplerOptions& options) {
  const bool is_dynamic = options.steps.dynatemp_range > 0 && options.steps.mirostat == 0;
  return options.temperature <= 0 || (!is_dynamic && std::isinf(static_cast<float>(1 / options.temperature)));
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

/// x^y for x and y not below 0.
double power(double x, double y) {
  if (y == 0) return 1;
  return x <= 0 ? 0 : static_cast<double>(kernels::math::exp(static_cast<float>(y * kernels::math::log_binary64(x))));
}

double log_of(double total) { return static_cast<double>(kernels::math::log(static_cast<float>(total))); }

/// Candidates whose surprise is below `mu` bits, of `vocabulary` tokens whose shares fall by Zipf's law with this
/// exponent: its logarithm. @source Basu et al. 2021, arXiv:2007.14966, algorithm 1
double log_kept(double exponent, double mu, double vocabulary) {
  const double epsilon = exponent - 1, log_vocabulary = kernels::math::log_binary64(vocabulary);
  const double y = std::abs(epsilon) * log_vocabulary;
  // log |epsilon / (1 - vocabulary^-epsilon)|, whose limit at 0 is 1 / log(vocabulary).
  double log_ratio = -kernels::math::log_binary64(log_vocabulary);
  if (y > 0)
    log_ratio = kernels::math::log_binary64(std::abs(epsilon)) - (epsilon < 0 ? y : 0) -
                kernels::math::log_binary64(
                    -static_cast<double>(kernels::math::expm1_nonpositive(-static_cast<float>(std::max(y, 1e-30)))));
  return (log_ratio + mu * kLn2) / exponent;
}

}  // namespace

Result<text::TokenId> Sampler::pick(std::span<const float> logits, const TokenHistory& before, std::uint64_t position,
                                    const Mask& allows) {
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) return not_finite("logit " + std::to_string(i), position);
    candidates_.push_back({logits[i], 0, static_cast<text::TokenId>(i)});
  }
  factor_ = 1;
  is_whole_ = true;
  is_sorted_ = is_faulty_ = false;
  const kernels::FlushSubnormals exact;
  add_bias();
  ban_repeated(before.ids);
  if (options_.steps.mirostat == 0) take_steps(before, position, allows);
  const bool greedy = is_greedy(options_);
  take_largest(greedy ? 1 : candidates_.size(), allows);
  if (candidates_.empty())
    return fail(Errc::not_found, "token " + std::to_string(position) + ": no token of the vocabulary may come here");
  if (std::isinf(candidates_.front().logit))
    return not_finite("logit " + std::to_string(candidates_.front().id) + " with its bias and penalties", position);
  if (greedy) return candidates_.front().id;
  if (options_.steps.mirostat != 0) cut_by_surprise(logits.size());
  return draw(position);
}

/// Those of `order` that are on. Of these only penalties matter where the largest logit is taken.
void Sampler::take_steps(const TokenHistory& before, std::uint64_t position, const Mask& allows) {
  using enum SamplerStep;
  for (const SamplerStep step : options_.order) {
    const bool changes_logits = step == penalties || step == dry;
    if (!is_on(step) || (is_greedy(options_) && !changes_logits)) continue;
    // The largest can be looked for among those that a mask allows without asking about all.
    if (is_whole_ && !changes_logits && step != top_k) leave_out_refused(allows);
    if (candidates_.empty()) return;
    switch (step) {
      case penalties:
        penalize(before);
        break;
      case dry:
        penalize_repetitions(before.ids);
        break;
      case top_n_sigma:
        keep_near_largest();
        break;
      case top_k:
        take_largest(options_.top_k, allows);
        break;
      case typ_p:
        keep_typical();
        break;
      case top_p:
        keep_likeliest();
        break;
      case min_p:
        keep_least_share();
        break;
      case xtc:
        leave_out_likeliest(position);
        break;
      case temperature:
        heat();
        break;
    }
  }
}

bool Sampler::is_on(SamplerStep step) const {
  const SamplerOptions& o = options_;
  switch (step) {
    case SamplerStep::penalties:
      return o.repetition_penalty != 1 || o.presence_penalty != 0 || o.frequency_penalty != 0;
    case SamplerStep::dry:
      return o.steps.dry_multiplier != 0 && o.steps.dry_penalty_last_n != 0;
    case SamplerStep::top_n_sigma:
      return o.steps.top_n_sigma > 0;
    case SamplerStep::top_k:
      return o.top_k != 0;
    case SamplerStep::typ_p:
      return o.typical_p < 1;
    case SamplerStep::top_p:
      return o.top_p < 1;
    case SamplerStep::min_p:
      return o.min_p > 0;
    case SamplerStep::xtc:
      return o.steps.xtc_probability > 0 && o.steps.xtc_threshold <= 0.5;
    case SamplerStep::temperature:
      return true;
  }
  return false;
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

/// Those of a map that are candidates. Their order may be another one then.
void Sampler::for_each_of(const Counts& counts, const std::function<void(Candidate& each, std::size_t count)>& change) {
  if (factor_ != 1)
    for (Candidate& each : candidates_) each.logit *= factor_;
  factor_ = 1;
  is_sorted_ = false;
  if (is_whole_) {
    for (const auto& [id, count] : counts)
      if (id < candidates_.size()) change(candidates_[id], count);
    return;
  }
  for (Candidate& each : candidates_)
    if (const auto found = counts.find(each.id); found != counts.end()) change(each, found->second);
}

void Sampler::penalize(const TokenHistory& before) {
  const auto repetition = static_cast<float>(options_.repetition_penalty),
             presence = static_cast<float>(options_.presence_penalty),
             frequency = static_cast<float>(options_.frequency_penalty);
  if (repetition != 1)
    for_each_of(counts_of(before.ids, options_.penalty_window), [&](Candidate& each, std::size_t) {
      each.logit = each.logit <= 0 ? each.logit * repetition : each.logit / repetition;
    });
  if (presence == 0 && frequency == 0) return;
  const auto counted = options_.penalizes_prompt ? before.ids : before.ids.subspan(before.prompt);
  for_each_of(counts_of(counted, options_.penalty_window), [&](Candidate& each, std::size_t count) {
    each.logit -= static_cast<float>(count) * frequency + presence;
  });
}

/// DRY: of tokens that would go on with what the text ends with and had before.
/// @source p-e-w 2024, github.com/oobabooga/text-generation-webui/pull/5677
void Sampler::penalize_repetitions(std::span<const text::TokenId> ids) {
  const auto allowed = static_cast<std::size_t>(options_.steps.dry_allowed_length);
  if (options_.steps.dry_penalty_last_n >= 0)
    ids = ids.last(std::min(static_cast<std::size_t>(options_.steps.dry_penalty_last_n), ids.size()));
  const std::size_t most = breakers_ ? breakers_->unbroken(ids) : ids.size();
  if (ids.size() <= allowed || most < allowed) return;
  constexpr double kNearOne = 1.000001, kLogOfLargest = 88.7228391;
  const double base = options_.steps.dry_base;
  const auto most_times = base > kNearOne ? static_cast<std::size_t>(kLogOfLargest / kernels::math::log_binary64(base))
                                          : std::numeric_limits<std::size_t>::max();
  for_each_of(repeated_runs(ids, allowed, most), [&](Candidate& each, std::size_t length) {
    if (breakers_ && breakers_->is_single(each.id)) return;
    const double penalty =
        options_.steps.dry_multiplier * kernels::math::power(base, std::min(length - allowed, most_times));
    each.logit -= static_cast<float>(std::min(penalty, double{std::numeric_limits<float>::max()}));
  });
}

void Sampler::leave_out_refused(const Mask& allows) {
  std::erase_if(candidates_,
                [&](const Candidate& each) { return each.logit == kBanned || (allows && !allows(each.id)); });
  is_whole_ = false;
}

namespace {

constexpr auto comes_later = [](const auto& a, const auto& b) {
  return a.logit != b.logit ? a.logit < b.logit : a.id > b.id;
};

}  // namespace

/// The largest that may come, in order: so many as are wanted, and not asking about more.
void Sampler::take_largest(std::size_t most, const Mask& allows) {
  most = std::min(most, candidates_.size());
  if (!is_whole_ || !allows) {
    sort(most);
    candidates_.resize(most);
    if (is_whole_) std::erase_if(candidates_, [](const Candidate& each) { return each.logit == kBanned; });
    is_whole_ = false;
    return;
  }
  std::make_heap(candidates_.begin(), candidates_.end(), comes_later);
  std::vector<Candidate> kept;
  for (auto end = candidates_.end(); end != candidates_.begin() && kept.size() < most;) {
    std::pop_heap(candidates_.begin(), end, comes_later);
    --end;
    if (end->logit == kBanned) break;
    if (allows(end->id)) kept.push_back(*end);
  }
  candidates_ = std::move(kept);
  is_whole_ = false;
  is_sorted_ = true;
}

/// The first so many in order; the others behind them. By a heap, which stays in its bounds with a NaN too.
void Sampler::sort(std::size_t most) {
  if (is_sorted_) return;
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(most), candidates_.end(),
                    [](const Candidate& a, const Candidate& b) { return comes_later(b, a); });
  is_sorted_ = true;
}

/// Shares in parts of the largest candidate's, from that one on; gives their sum.
double Sampler::weigh() {
  sort(candidates_.size());
  double total = 0;
  for (Candidate& each : candidates_) {
    each.share = kernels::math::exp((each.logit - candidates_.front().logit) * factor_);
    total += static_cast<double>(each.share);
  }
  is_faulty_ = is_faulty_ || !std::isfinite(total);
  return total;
}

/// -log of a share, of shares with this logarithm of their sum.
double Sampler::information(const Candidate& of, double log_total) const {
  return log_total - static_cast<double>((of.logit - candidates_.front().logit) * factor_);
}

double Sampler::entropy(double total) const {
  const double log_total = log_of(total);
  double sum = 0;
  for (const Candidate& each : candidates_)
    if (each.share > 0) sum += static_cast<double>(each.share) / total * information(each, log_total);
  return sum;
}

/// @source Tang et al. 2024, "Top-n-sigma", arXiv:2411.07641
void Sampler::keep_near_largest() {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0, squares = 0, count = 0;
  for (const Candidate& each : candidates_) {
    if (!std::isfinite(each.logit)) continue;
    largest = std::max(largest, static_cast<double>(each.logit));
    sum += static_cast<double>(each.logit);
    ++count;
  }
  for (const Candidate& each : candidates_)
    if (const double from_mean = static_cast<double>(each.logit) - sum / count; std::isfinite(each.logit))
      squares += from_mean * from_mean;
  const double least = largest - options_.steps.top_n_sigma * std::sqrt(squares / count);
  std::erase_if(candidates_, [&](const Candidate& each) { return static_cast<double>(each.logit) < least; });
}

/// Those whose information is nearest to the entropy, until their shares exceed `typical_p`.
void Sampler::keep_typical() {
  const double total = weigh();
  if (is_faulty_) return;
  const double log_total = log_of(total), mean = entropy(total);
  std::vector<std::pair<double, std::size_t>> order;  // by distance, then in the order of the logits
  for (std::size_t i = 0; i < candidates_.size(); ++i)
    order.emplace_back(std::abs(information(candidates_[i], log_total) - mean), i);
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

/// The likeliest, until their shares reach `top_p`.
void Sampler::keep_likeliest() {
  const double total = weigh();
  double sum = 0;
  std::size_t kept = 0;
  for (; kept < candidates_.size() && sum < options_.top_p * total; ++kept)
    sum += static_cast<double>(candidates_[kept].share);
  candidates_.resize(std::max<std::size_t>(kept, 1));
}

/// Those of at least `min_p` of the largest share.
void Sampler::keep_least_share() {
  weigh();
  std::size_t kept = candidates_.size();
  while (kept > 1 && static_cast<double>(candidates_[kept - 1].share) < options_.min_p) --kept;
  candidates_.resize(kept);
}

/// XTC, now and then: of tokens with at least a share the least likely stays.
/// @source p-e-w 2024, github.com/oobabooga/text-generation-webui/pull/6335
void Sampler::leave_out_likeliest(std::uint64_t position) {
  if (uniform(options_.seed, Purpose::xtc, position) > options_.steps.xtc_probability) return;
  const double least = options_.steps.xtc_threshold * weigh();
  std::ptrdiff_t first = 0;
  for (std::size_t i = 1; i < candidates_.size() && static_cast<double>(candidates_[i].share) >= least; ++i) ++first;
  candidates_.erase(candidates_.begin(), candidates_.begin() + first);
}

/// The temperature, or one by the entropy. Logits stay; their differences are multiplied where they are looked at.
void Sampler::heat() {
  double temperature = options_.temperature;
  if (options_.steps.dynatemp_range > 0 && candidates_.size() > 1) {
    const double total = weigh();
    if (is_faulty_) return;
    const double part = entropy(total) / kernels::math::log_binary64(static_cast<double>(candidates_.size()));
    const double coldest = std::max(0.0, temperature - options_.steps.dynatemp_range);
    temperature = coldest + (temperature + options_.steps.dynatemp_range - coldest) *
                                power(part, options_.steps.dynatemp_exponent);
  }
  const auto by = static_cast<float>(1 / temperature);
  if (std::isinf(by))
    take_largest(1, nullptr);
  else
    factor_ *= by;
}

/// Mirostat: the likeliest, so many that the surprise of a draw is near what the text so far left.
/// @source Basu et al. 2021, arXiv:2007.14966
void Sampler::cut_by_surprise(std::size_t vocabulary) {
  factor_ = static_cast<float>(1 / options_.temperature);
  const double total = weigh();
  if (is_faulty_) return;
  std::size_t kept = 1;
  if (options_.steps.mirostat == 2) {
    const double log_total = log_of(total);
    while (kept < candidates_.size() && information(candidates_[kept], log_total) <= mu_ * kLn2) ++kept;
  } else if (candidates_.size() > 1) {
    constexpr std::size_t kLooked = 100;  // candidates that the exponent is estimated from
    double products = 0, squares = 0;
    for (std::size_t i = 0; i + 1 < std::min(kLooked, candidates_.size()); ++i) {
      const double t = kernels::math::log_binary64(static_cast<double>(i + 2) / static_cast<double>(i + 1));
      products += t * static_cast<double>((candidates_[i].logit - candidates_[i + 1].logit) * factor_);
      squares += t * t;
    }
    const double most = static_cast<double>(candidates_.size());
    const double log_count = log_kept(products / squares, mu_, static_cast<double>(vocabulary));
    if (log_count >= kernels::math::log_binary64(most))
      kept = candidates_.size();
    else if (log_count > 0)
      kept = std::clamp(static_cast<std::size_t>(kernels::math::exp(static_cast<float>(log_count))), kept,
                        candidates_.size());
  }
  candidates_.resize(kept);
}

Result<text::TokenId> Sampler::draw(std::uint64_t position) {
  const double total = weigh();
  if (is_faulty_) return not_finite("the sum of shares", position);
  const double wanted = uniform(options_.seed, Purpose::draw, position) * total;
  double sum = 0;
  std::size_t at = 0;
  for (; at + 1 < candidates_.size(); ++at)
    if ((sum += static_cast<double>(candidates_[at].share)) >= wanted) break;
  if (options_.steps.mirostat != 0) {
    const double surprise = -kernels::math::log_binary64(static_cast<double>(candidates_[at].share) / total) / kLn2;
    mu_ -= options_.steps.mirostat_eta * (surprise - options_.steps.mirostat_tau);
  }
  return candidates_[at].id;
}

}  // namespace weft::models
