// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/tokenizer.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace weft::models {

/// Choice of the next token, in this order: the logit bias is added; tokens that would repeat an n-gram are banned;
/// penalties of tokens that were there; the `top_k` largest logits; the most typical shares that exceed `typical_p`;
/// the largest shares that reach `top_p`; those of at least `min_p` of the largest share; the temperature; a draw.
/// `temperature_first` is another order.
struct SamplerOptions {
  // Bounds of what users may ask for; shares: top_p, min_p, typical_p.
  static constexpr double kMostTemperature = 100, kMostShare = 1, kMostPenalty = 100, kLeastRepetition = 0.01;
  double temperature =
      0.8;                 // 0, and whatever 1/T is infinite of in binary32: the largest logit, the first of equal ones
  std::size_t top_k = 40;  // 0: all
  double top_p = 0.95;     // 1: all
  double min_p = 0.05;     // 0: all
  double typical_p = 1;    // 1: all
  /// A logit of a token that was there: multiplied by it where it is not above 0, else divided. 1: none; above 0.
  double repetition_penalty = 1;
  double presence_penalty = 0;      // taken off a logit once
  double frequency_penalty = 0;     // and for each time that the token was there
  std::size_t penalty_window = 64;  // tokens that penalties look back; 0: all
  bool penalizes_prompt = true;     // false: presence and frequency count in what was written alone, as OpenAI has it
  /// As transformers have it: the temperature comes before the shares of `top_p`, `min_p` and `typical_p`, and
  /// `typical_p` last. False: as llama.cpp.
  bool temperature_first = false;
  std::size_t no_repeat_ngram = 0;                            // tokens of an n-gram that is not to come twice; 0: none
  std::vector<std::pair<text::TokenId, float>> logit_bias{};  // minus infinity bans a token
  std::uint64_t seed = 0;
};

/// Tokens before the one that is chosen.
struct TokenHistory {
  std::span<const text::TokenId> ids;
  std::size_t prompt = 0;  // of them, those that were given
};

/// Draws tokens from logits. The number of a draw is that of the token in its sequence, so a text is a function of
/// logits, tokens before and seed alone, wherever it is continued.
/// @exact the same ids on every machine: penalties in binary32, exponentials and logarithms of kernels/math.hpp, sums
///        serial in binary64, ties to the lower id
class Sampler {
 public:
  /// Says whether a token may come; it is asked for candidates from the largest logit on.
  using Mask = std::function<bool(text::TokenId)>;

  explicit Sampler(const SamplerOptions& options) : options_(options) {}
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
  Result<text::TokenId> pick(std::span<const float> logits, const TokenHistory& before, std::uint64_t position,
                             const Mask& allows);
  void add_bias();
  void ban_repeated(std::span<const text::TokenId> ids);
  void penalize(const TokenHistory& before);
  void take_largest(const Mask& allows);
  void keep_typical();
  void keep_likely();
  void scale(float by);
  double weigh(float by);

  SamplerOptions options_;
  std::vector<Candidate> candidates_;
};

}  // namespace weft::models
