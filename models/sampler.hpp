// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/sampler_options.hpp"

#include "text/tokenizer.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft::models {

class SequenceBreakers;

/// Tokens before the one that is chosen.
struct TokenHistory {
  std::span<const text::TokenId> ids;
  std::size_t prompt = 0;  // of them, those that were given
};

/// Draws tokens from logits. The number of a draw is that of the token in its sequence, so a text is a function of
/// logits, tokens before and seed alone, wherever it is continued; with mirostat also of all draws of the text before,
/// which one sampler takes in their order.
/// @exact the same ids on every machine: penalties in binary32, exponentials and logarithms of kernels/math.hpp, sums
///        serial in binary64, ties to the lower id
class Sampler {
 public:
  /// Says whether a token may come; it may be asked for any candidate, in any order.
  using Mask = std::function<bool(text::TokenId)>;

  /// `breakers`: those of the options in the model's tokens; null: none. @pre the options passed check_sampler
  explicit Sampler(const SamplerOptions& options, std::shared_ptr<const SequenceBreakers> breakers = nullptr)
      : options_(options), breakers_(std::move(breakers)), mu_(2 * options.steps.mirostat_tau) {}
  /// As the other, of a token at a position without tokens before. @error as the other
  Result<text::TokenId> pick(std::span<const float> logits, std::uint64_t position) {
    return pick(logits, {}, position, nullptr);
  }
  /// `allows`: tokens that it refuses are no candidates. @error not_finite: a logit is infinite or NaN, as given or
  /// with its bias and penalties; not_found: no token is left
  Result<text::TokenId> pick(std::span<const float> logits, const TokenHistory& before, const Mask& allows = nullptr) {
    return pick(logits, before, before.ids.size(), allows);
  }

 private:
  struct Candidate {
    float logit, share;
    text::TokenId id;
  };
  using Counts = std::unordered_map<text::TokenId, std::size_t>;

  Result<text::TokenId> pick(std::span<const float> logits, const TokenHistory& before, std::uint64_t position,
                             const Mask& allows);
  void take_steps(const TokenHistory& before, std::uint64_t position, const Mask& allows);
  bool is_on(SamplerStep step) const;
  void add_bias();
  void ban_repeated(std::span<const text::TokenId> ids);
  void for_each_of(const Counts& counts, const std::function<void(Candidate& each, std::size_t count)>& change);
  void penalize(const TokenHistory& before);
  void penalize_repetitions(std::span<const text::TokenId> ids);
  void leave_out_refused(const Mask& allows);
  void take_largest(std::size_t most, const Mask& allows);
  void sort(std::size_t most);
  void keep_near_largest();
  void keep_typical();
  void keep_likeliest();
  void keep_least_share();
  void leave_out_likeliest(std::uint64_t position);
  void heat();
  void cut_by_surprise(std::size_t vocabulary);
  double weigh();
  double information(const Candidate& of, double log_total) const;
  double entropy(double total) const;
  Result<text::TokenId> draw(std::uint64_t position);

  SamplerOptions options_;
  std::shared_ptr<const SequenceBreakers> breakers_;
  double mu_;  // of mirostat: surprise in bits from which candidates are left out
  std::vector<Candidate> candidates_;
  float factor_ = 1;                          // of logits less the largest one: 1/T once the temperature was taken
  bool is_whole_ = true, is_sorted_ = false;  // whole: a candidate for each id; sorted: from the largest logit on
  bool is_faulty_ = false;                    // a sum of shares was not finite
};

}  // namespace weft::models
