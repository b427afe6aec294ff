// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/tokenizer.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::models {

/// Steps of a draw whose order is free. Their names are llama.cpp's, and so are the letters.
enum class SamplerStep : std::uint8_t { penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, temperature };

/// Options of steps that are off unless they are asked for.
struct SamplerStepOptions {
  static constexpr std::size_t kMostBreakers = 128, kLongestBreaker = 40;
  /// The temperature is from T - range to T + range, by the entropy in parts of the largest one, to the exponent.
  double dynatemp_range = 0, dynatemp_exponent = 1;
  double top_n_sigma =
      0;  // standard deviations below the largest logit, from which logits are left out; 0 and less: none
  /// So often all tokens of at least a share are left out but the least likely of them; above 0.5: never.
  double xtc_probability = 0, xtc_threshold = 0.1;
  /// 1, 2: the shares are cut so that the surprise of what is drawn stays near `mirostat_tau` bits. Then neither
  /// `order` nor anything in it counts, but for the temperature. The cut is learned from what was drawn, at rate
  /// `mirostat_eta`.
  std::int64_t mirostat = 0;
  double mirostat_tau = 5, mirostat_eta = 0.1;
  /// A token that would make a repetition longer: multiplier base^(length - allowed) is taken off its logit, from the
  /// allowed length on. -1: all tokens are looked at, 0: none.
  double dry_multiplier = 0, dry_base = 1.75;
  std::int64_t dry_allowed_length = 2, dry_penalty_last_n = -1;
  std::vector<std::string> dry_breakers = {"\n", ":", "\"", "*"};  // texts that end what may be a repetition
};

/// Choice of the next token: the logit bias is added and tokens that would repeat an n-gram are banned; then the steps
/// of `order`, each once; then a draw. A step whose option is off does nothing, and one that is not listed is left out.
struct SamplerOptions {
  using Order = std::vector<SamplerStep>;
  static Order llama_order();
  /// As transformers have it: the temperature before the shares of `top_p`, `min_p` and `typical_p`. Steps that they do
  /// not have stand where llama.cpp has them.
  static Order hf_order();

  // Bounds of what users may ask for; shares: top_p, min_p, typical_p. Those of other numbers: kSamplerReals.
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
  std::size_t no_repeat_ngram = 0;  // tokens of an n-gram that is not to come twice; 0: none
  std::vector<std::pair<text::TokenId, float>> logit_bias{};  // minus infinity bans a token
  std::uint64_t seed = 0;
  Order order = llama_order();
  SamplerStepOptions steps{};
};

/// An option that is a number, by its name: of JSON, of logs, and with dashes of flags.
template <class T>
struct SamplerNumber {
  const char* name;
  T SamplerStepOptions::*value;
  T least, most;
  const char* meaning;
};
inline constexpr SamplerNumber<double> kSamplerReals[] = {
    {"dynatemp_range", &SamplerStepOptions::dynatemp_range, 0, 100,
     "The temperature follows the entropy, from as much below to as much above"},
    {"dynatemp_exponent", &SamplerStepOptions::dynatemp_exponent, 0, 100, "Power of the entropy that it follows"},
    {"top_n_sigma", &SamplerStepOptions::top_n_sigma, -1, 100,
     "Standard deviations below the largest logit that logits may be; 0: any"},
    {"xtc_probability", &SamplerStepOptions::xtc_probability, 0, 1,
     "Part of the draws that leave out all tokens of --xtc-threshold but the least likely one"},
    {"xtc_threshold", &SamplerStepOptions::xtc_threshold, 0, 1, "Least share of tokens that are left out"},
    {"mirostat_tau", &SamplerStepOptions::mirostat_tau, 0, 100, "Surprise that --mirostat aims at, in bits"},
    {"mirostat_eta", &SamplerStepOptions::mirostat_eta, 0, 100, "Rate at which --mirostat follows it"},
    {"dry_multiplier", &SamplerStepOptions::dry_multiplier, 0, 100,
     "Taken off logits of tokens that go on with a repetition; 0: none"},
    {"dry_base", &SamplerStepOptions::dry_base, 1, 100, "Times as much for each token more of it"}};
inline constexpr SamplerNumber<std::int64_t> kSamplerWholes[] = {
    {"mirostat", &SamplerStepOptions::mirostat, 0, 2,
     "Mirostat of version 1 or 2 instead of all other steps but the temperature; 0: none"},
    {"dry_allowed_length", &SamplerStepOptions::dry_allowed_length, 0, 1 << 24,
     "Tokens of a repetition before anything is taken off"},
    {"dry_penalty_last_n", &SamplerStepOptions::dry_penalty_last_n, -1, 1 << 24,
     "Tokens that are looked at for repetitions; -1: all, 0: none"}};

std::string_view name_of(SamplerStep step) noexcept;
/// Every name, with semicolons between.
std::string sampler_names();
/// Adds the step of a name; `what` is the place that errors begin with.
/// @error unknown_name; duplicate_name: it is there already
Status add_step(std::string_view name, const std::string& what, SamplerOptions::Order& to);
/// "top_k;top_p;temperature"; nothing: no steps. @error as add_step
Result<SamplerOptions::Order> parse_order(std::string_view names, const std::string& what);
/// llama.cpp's letters, as "kpt". @error as add_step
Result<SamplerOptions::Order> parse_order_letters(std::string_view letters, const std::string& what);

/// @error out_of_range: too many; invalid_argument: an empty one, or one that is too long
Status check_breakers(std::span<const std::string> breakers, const std::string& what);
/// All that the two tables name, and the breakers. @error out_of_range, as check_breakers
Status check_sampler(const SamplerOptions& options);

}  // namespace weft::models
