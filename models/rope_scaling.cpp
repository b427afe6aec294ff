// SPDX-License-Identifier: Apache-2.0
// Rotary positions of families: every named scaling becomes divisors of the frequencies and a gain.

#include "models/rope_scaling.hpp"

#include "models/family.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace weft::models {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

/// Numbers that the scalings have in common.
struct RopeScale {
  double theta = 10000, factor = 1, original = 0, most = 0;  // original, most: positions
  std::size_t dims = 0;
  double frequency(std::size_t i) const {
    return std::pow(theta, -2 * static_cast<double>(i) / static_cast<double>(dims));
  }
};

/// Llama 3.1: long wavelengths are divided, short ones stay, those between are mixed. As GGUF files hold them, in
/// float32.
std::vector<double> llama3_divisors(const RopeScale& scale, double low, double high) {
  std::vector<double> divisors;
  for (std::size_t i = 0; i < scale.dims / 2; ++i) {
    const double wavelength = kTurn / scale.frequency(i);
    double divisor = 1;
    if (wavelength > scale.original / low) {
      divisor = scale.factor;
    } else if (wavelength >= scale.original / high) {
      const double share = (scale.original / wavelength - low) / (high - low);
      divisor = 1 / ((1 - share) / scale.factor + share);
    }
    divisors.push_back(static_cast<double>(static_cast<float>(divisor)));
  }
  return divisors;
}

std::vector<double> read_llama3(ConfigReader& config, const RopeScale& scale) {
  const double low = config.number("low_freq_factor", 1), high = config.number("high_freq_factor", 4);
  if (high <= low) config.refuse("high_freq_factor", "must be above low_freq_factor");
  return llama3_divisors(scale, low, high);
}

/// Keys of scalings of one type, in one of another, have no effect; others change what positions are.
void refuse_other_scaling_keys(ConfigReader& config) {
  constexpr std::array<std::string_view, 12> kOfSome{
      "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow",   "attention_factor", "mscale",
      "mscale_all_dim",  "truncate",         "finetuned", "long_factor", "short_factor",     "partial_rotary_factor"};
  for (const std::string& key : config.unread())
    if (const Json* const found = config.find_unread(key);
        found && std::find(kOfSome.begin(), kOfSome.end(), key) == kOfSome.end())
      config.refuse_value(key, printable(found->dump(), 60) + ": is no key of rotary scalings that are imported");
}

/// Peng et al. 2023, arXiv:2309.00071, as transformers computes it. Divisors in float32, as GGUF files may hold them.
void describe_yarn(ConfigReader& config, const RopeScale& scale, DecoderRope& rope) {
  const auto n = static_cast<double>(scale.dims);
  const auto corrected = [&](double turns) {
    return n * std::log(scale.original / (turns * kTurn)) / (2 * std::log(scale.theta));
  };
  DecoderRope::Scaling& named = rope.scaling;
  named.is_whole = config.flag("truncate", true);
  named.beta_fast = config.number("beta_fast", 32), named.beta_slow = config.number("beta_slow", 1);
  double low = corrected(named.beta_fast), high = corrected(named.beta_slow);
  if (named.is_whole) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, n - 1);
  for (std::size_t i = 0; i < scale.dims / 2; ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / std::max(high - low, 0.001), 0.0, 1.0);
    rope.divisors.push_back(static_cast<float>(1 / ((1 - ramp) + ramp / scale.factor)));
  }
  const auto gain = [&](double share) { return scale.factor <= 1 ? 1 : 0.1 * share * std::log(scale.factor) + 1; };
  if (config.has("attention_factor"))
    rope.gain = config.number("attention_factor", 1);
  else if (config.has("mscale") && config.has("mscale_all_dim"))
    rope.gain = gain(config.number("mscale", 1)) / gain(config.number("mscale_all_dim", 1));
  else
    rope.gain = gain(1);
}

/// Phi-3's: factors by frequency, one list for contexts up to the original one and one for longer ones.
void describe_longrope(ConfigReader& config, const RopeScale& scale, DecoderRope& rope) {
  const bool is_long = scale.most > scale.original;
  const char* const key = is_long ? "long_factor" : "short_factor";
  rope.scaling.long_factors = config.numbers("long_factor");
  rope.scaling.short_factors = config.numbers("short_factor");
  for (const double divisor : is_long ? rope.scaling.long_factors : rope.scaling.short_factors)
    rope.divisors.push_back(static_cast<float>(divisor));
  if (rope.divisors.size() != scale.dims / 2)
    config.refuse(key, std::to_string(rope.divisors.size()) + " factors, expected " + std::to_string(scale.dims / 2) +
                           ", half of the elements that turn");
  rope.gain = config.has("attention_factor") ? config.number("attention_factor", 1)
                                             : longrope_gain(scale.factor, scale.original);
}

/// Divisors of a GGUF file's tensor, on top of a scaling that has a name.
void divide_more(const std::vector<double>& by, DecoderRope& rope) {
  if (by.empty()) return;
  if (rope.divisors.empty()) rope.divisors.assign(by.size(), 1.0);
  for (std::size_t i = 0; i < std::min(by.size(), rope.divisors.size()); ++i)
    rope.divisors[i] = static_cast<float>(rope.divisors[i] * by[i]);
  if (by.size() != rope.divisors.size()) rope.divisors = by;  // is refused
  rope.scaling.type.clear();
}

void describe_scaling(ConfigReader& config, RopeScale scale, DecoderRope& rope) {
  const std::string type = config.text("rope_type", config.text("type", "default"));
  const bool is_longrope = type == "longrope" || type == "su";
  const bool has_original = is_longrope || config.has("original_max_position_embeddings");
  scale.original = config.number("original_max_position_embeddings", scale.original);
  const double fallback = has_original || type == "yarn" ? std::max(scale.most / scale.original, 1.0) : 1;
  // Files of GGUF hold it in float32, and one model is to be the same from each file.
  scale.factor = static_cast<float>(config.number("factor", fallback));
  rope.scaling.factor = scale.factor, rope.scaling.original = scale.original;
  if (type == "linear" && !config.has("factor")) config.refuse_value("factor", "is not there, and linear needs it");
  // Older programs took the ratio whenever the original length was given.
  const double ratio = scale.most / scale.original;
  if ((type == "yarn" || is_longrope) && has_original && config.has("factor") &&
      static_cast<float>(ratio) != scale.factor)
    config.note("factor", printable(Json(scale.factor).dump(), 60) + " differs from max_position_embeddings / " +
                              "original_max_position_embeddings, " + printable(Json(ratio).dump(), 60) +
                              "; factor counts, as in today's transformers, while older ones took the ratio");
  if (type == "linear")
    rope.divisors.assign(scale.dims / 2, scale.factor);
  else if (type == "llama3")
    rope.divisors = read_llama3(config, scale);
  else if (type == "yarn")
    describe_yarn(config, scale, rope);
  else if (is_longrope)
    describe_longrope(config, scale, rope);
  else if (type != "default" && type != "none" && type != "dynamic" && type != "divisors")
    // With as many positions as it was trained on, "dynamic" is no scaling.
    config.refuse_value("rope_type",
                        "'" + type + "' is not known; expected default, linear, dynamic, yarn, longrope or llama3");
  if (type == "linear" || type == "yarn") rope.scaling.type = type;
  if (is_longrope) rope.scaling.type = "longrope";
  divide_more(config.numbers("divisors"), rope);
  rope.gain = static_cast<float>(rope.gain * config.number("attn_factor", 1));
  if (config.has("divisors") && rope.divisors.size() != scale.dims / 2)
    config.refuse("divisors", std::to_string(rope.divisors.size()) + " divisors, expected " +
                                  std::to_string(scale.dims / 2) + ", half of the elements that turn");
}

}  // namespace

double longrope_gain(double factor, double original) {
  return factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
}

std::optional<Llama3Scaling> find_llama3(const DecoderRope& rope, std::size_t context) {
  constexpr double kMostError = 1e-5;
  if (rope.gain != 1 || rope.divisors.empty()) return std::nullopt;
  const auto most = static_cast<double>(context);
  const double factor = *std::max_element(rope.divisors.begin(), rope.divisors.end());
  std::vector<double> originals{8192, most / factor, most};
  for (double positions = 1 << 5; positions <= 1 << 20; positions *= 2) originals.push_back(positions);
  std::optional<Llama3Scaling> best;
  // Numbers that are all twice as large make the same divisors, so the usual ones come first.
  for (const auto& [low, high] : {std::pair(1.0, 4.0), {1.0, 2.0}, {1.0, 8.0}, {1.0, 16.0}, {1.0, 32.0}})
    for (const double original : originals) {
      const RopeScale scale{rope.theta, factor, original, most, rope.dims};
      const std::vector<double> made = llama3_divisors(scale, low, high);
      double error = made.size() == rope.divisors.size() ? 0 : 1;
      for (std::size_t i = 0; i < made.size() && error <= kMostError; ++i)
        error = std::max(error, std::abs(made[i] / rope.divisors[i] - 1));
      if (error <= kMostError && (!best || error < best->error)) best = {factor, low, high, original, error};
    }
  return best;
}

void describe_rope(ConfigReader& config, Decoder& decoder, double theta, bool can_be_partial) {
  DecoderRope& rope = decoder.rope;
  const auto check_partial = [&](ConfigReader& reader) {
    const double share = reader.number("partial_rotary_factor", 1);
    if (!can_be_partial && share != 1)
      reader.refuse_value("partial_rotary_factor",
                          printable(Json(share).dump(), 60) + ": all elements of a head turn in this family");
  };
  check_partial(config);
  rope.theta = config.number("rope_theta", theta);
  const double share = config.number("partial_rotary_factor", 1);
  rope.dims = static_cast<std::size_t>(std::min(share, 2.0) * static_cast<double>(decoder.head_dim));
  if (config.has("rope_dimension_count")) rope.dims = config.size("rope_dimension_count");
  const Json* scaling = config.object("rope_parameters");
  const char* key = "rope_parameters";
  if (!scaling) scaling = config.object(key = "rope_scaling");
  // transformers 5 keeps a set for each kind of layer; those of one kind alone are read.
  if (scaling && scaling->contains("full_attention")) {
    if (scaling->contains("sliding_attention") && !((*scaling)["full_attention"] == (*scaling)["sliding_attention"]))
      config.refuse(key, "layers with different rotary positions are not imported");
    scaling = &(*scaling)["full_attention"];
  }
  if (scaling) {
    ConfigReader inner = config.inside(*scaling, key);
    rope.theta = inner.number("rope_theta", rope.theta);
    check_partial(inner);
    const double partial = inner.number("partial_rotary_factor", share);
    if (partial != share)
      rope.dims = static_cast<std::size_t>(std::min(partial, 2.0) * static_cast<double>(decoder.head_dim));
    const auto most = static_cast<double>(decoder.context);
    const double usual = rope.scaling.original > 0 ? rope.scaling.original : most;
    describe_scaling(inner, {rope.theta, 1, config.number("original_max_position_embeddings", usual), most, rope.dims},
                     rope);
    refuse_other_scaling_keys(inner);
    config.take(inner);
  }
  if (decoder.head_dim == 0) return;  // is refused
  if (rope.dims == decoder.head_dim && rope.dims % 2 != 0)
    return config.refuse("head_dim", std::to_string(rope.dims) +
                                         (config.has("head_dim") ? "" : ", hidden_size / num_attention_heads,") +
                                         " is odd; rotary positions turn pairs of a head's elements");
  if (rope.dims % 2 != 0 || rope.dims == 0 || rope.dims > decoder.head_dim)
    config.refuse(config.has("rope_dimension_count") ? "rope_dimension_count" : "partial_rotary_factor",
                  std::to_string(rope.dims) + " of the " + std::to_string(decoder.head_dim) +
                      " elements of a head turn; expected an even number of them");
}

}  // namespace weft::models
