// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/tokenizer.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::models {

/// Choice of the next token, in this order: the `top_k` largest logits, the largest shares that reach `top_p`, those of
/// at least `min_p` of the largest share, the temperature, a draw.
struct SamplerOptions {
  static constexpr double kMostTemperature = 100, kMostShare = 1;  // what users may ask for; shares: top_p, min_p
  double temperature = 0.8;                                        // 0: the largest logit, the first of equal ones
  std::size_t top_k = 40;                                          // 0: all
  double top_p = 0.95;                                             // 1: all
  double min_p = 0.05;                                             // 0: all
  std::uint64_t seed = 0;
};

/// Draws tokens from logits. The number of a draw is that of the token in its sequence, so a text is a function of
/// logits and seed alone, wherever it is continued.
/// @exact the same ids on every machine: exponentials of kernels/math.hpp, sums serial in binary64, ties to the lower
///        id
class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options) : options_(options) {}
  /// @error not_finite: a logit is NaN
  Result<text::TokenId> pick(std::span<const float> logits, std::uint64_t position);

 private:
  struct Candidate {
    float logit, share;
    text::TokenId id;
  };
  void keep_likely();

  SamplerOptions options_;
  std::vector<Candidate> candidates_;
};

}  // namespace weft::models
