// SPDX-License-Identifier: Apache-2.0

#include "models/generation_config.hpp"

#include "core/json_reader.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weft::models {
namespace {

constexpr const char* kFile = "generation_config.json";
constexpr const char* kDone[] = {"do_sample",          "temperature",         "top_k", "top_p", "min_p", "typical_p",
                                 "repetition_penalty", "no_repeat_ngram_size"};
/// A key that is not done here, and the number that leaves texts as they are; kNone: no number does.
struct NotDone {
  const char* key;
  double neutral;
};
constexpr double kNone = -1;
constexpr NotDone kNotDone[] = {{"num_beams", 1},
                                {"num_beam_groups", 1},
                                {"penalty_alpha", 0},
                                {"epsilon_cutoff", 0},
                                {"eta_cutoff", 0},
                                {"top_h", 0},
                                {"encoder_repetition_penalty", 1},
                                {"encoder_no_repeat_ngram_size", 0},
                                {"bad_words_ids", kNone},
                                {"force_words_ids", kNone},
                                {"suppress_tokens", kNone},
                                {"begin_suppress_tokens", kNone},
                                {"forced_bos_token_id", kNone},
                                {"forced_eos_token_id", kNone},
                                {"exponential_decay_length_penalty", kNone},
                                {"sequence_bias", kNone},
                                {"guidance_scale", 1},
                                {"min_length", 0},
                                {"min_new_tokens", 0},
                                {"dola_layers", kNone},
                                {"stop_strings", kNone},
                                {"watermarking_config", kNone}};

/// Values that leave texts as they are: null, false, nothing in a list, a key's own number.
bool is_neutral(const Json& value, double neutral) {
  if (value.is_number()) return value.get<double>() == neutral;
  return value.is_null() || value == Json(false) || ((value.is_array() || value.is_object()) && value.empty());
}

/// A number under a key; keys that are absent or null have the usual value.
Status read(JsonReader& reader, const char* key, double& value, double least, double most) {
  const auto found = reader.find(key);
  if (!found || found->is_null()) return {};
  WEFT_TRY(value, found->f64(least, most));
  return {};
}
Status read(JsonReader& reader, const char* key, std::size_t& value) {
  const auto found = reader.find(key);
  if (!found || found->is_null()) return {};
  WEFT_TRY(value, found->u64(0, UINT32_MAX));
  return {};
}

}  // namespace

Result<SamplerOptions> read_generation_config(const Json& config) {
  SamplerOptions draw{.temperature = 1, .top_k = 50, .top_p = 1, .min_p = 0};
  draw.order = SamplerOptions::hf_order();
  draw.penalty_window = 0;
  static const Json kEmpty = Json::object();
  WEFT_TRY(JsonReader reader, JsonReader::open(config.is_null() ? kEmpty : config, kFile));
  std::string others;
  for (const auto& [key, neutral] : kNotDone)
    if (const auto found = reader.find(key); found && !is_neutral(found->raw(), neutral))
      others += (others.empty() ? "" : ", ") + std::string(key);
  if (!others.empty()) return fail(Errc::unsupported, std::string(kFile) + ": " + others + ": not done here");
  WEFT_CHECK(read(reader, "temperature", draw.temperature, 0, SamplerOptions::kMostTemperature));
  WEFT_CHECK(read(reader, "top_k", draw.top_k));
  WEFT_CHECK(read(reader, "top_p", draw.top_p, 0, SamplerOptions::kMostShare));
  WEFT_CHECK(read(reader, "min_p", draw.min_p, 0, SamplerOptions::kMostShare));
  WEFT_CHECK(read(reader, "typical_p", draw.typical_p, 0, SamplerOptions::kMostShare));
  WEFT_CHECK(read(reader, "repetition_penalty", draw.repetition_penalty, SamplerOptions::kLeastRepetition,
                  SamplerOptions::kMostPenalty));
  WEFT_CHECK(read(reader, "no_repeat_ngram_size", draw.no_repeat_ngram));
  const auto draws = reader.find("do_sample");
  if (!draws || draws->is_null()) {
    draw.temperature = 0;
  } else {
    WEFT_TRY(const bool is_drawn, draws->boolean());
    if (!is_drawn) draw.temperature = 0;
  }
  return draw;
}

Result<SamplerOptions> sampler_of_preset(std::string_view preset, const Json& config) {
  if (preset == "llama.cpp") return SamplerOptions();
  if (preset != "hf") return fail(Errc::unknown_name, in_quotes(preset) + " is none of llama.cpp, hf");
  auto made = read_generation_config(config);
  if (!made) return fail(std::move(made).error().within("hf"));
  return made;
}

std::string described_sampling(const Json& config) {
  std::string text;
  if (!config.is_object()) return text;
  for (const char* const key : kDone)
    if (const Json* const found = config.find(key); found && !found->is_null())
      text += (text.empty() ? "" : ", ") + std::string(key) + " " + found->dump();
  return text;
}

}  // namespace weft::models
