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
constexpr const char* kNotDone[] = {"num_beams",
                                    "num_beam_groups",
                                    "penalty_alpha",
                                    "epsilon_cutoff",
                                    "eta_cutoff",
                                    "top_h",
                                    "encoder_repetition_penalty",
                                    "encoder_no_repeat_ngram_size",
                                    "bad_words_ids",
                                    "force_words_ids",
                                    "suppress_tokens",
                                    "begin_suppress_tokens",
                                    "forced_bos_token_id",
                                    "forced_eos_token_id",
                                    "exponential_decay_length_penalty",
                                    "sequence_bias",
                                    "guidance_scale",
                                    "min_length",
                                    "min_new_tokens",
                                    "dola_layers"};

/// Values that leave texts as they are: null, false, 0, 1, nothing in a list.
bool is_neutral(const Json& value) {
  if (value.is_number()) return value.get<double>() == 0 || value.get<double>() == 1;
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
  static const Json kNone = Json::object();
  WEFT_TRY(JsonReader reader, JsonReader::open(config.is_null() ? kNone : config, kFile));
  std::string others;
  for (const char* const key : kNotDone)
    if (const auto found = reader.find(key); found && !is_neutral(found->raw()))
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
  WEFT_TRY(const bool draws, reader.boolean_or("do_sample", false));
  if (!draws) draw.temperature = 0;
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
