// SPDX-License-Identifier: Apache-2.0

#include "capi/internal/arguments.hpp"
#include "capi/internal/objects.hpp"

#include "models/generation_config.hpp"
#include "models/language_model.hpp"

#include "storage/file_system.hpp"
#include "storage/memory_files.hpp"

#include "core/json.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::capi {
namespace {

struct ModelObject final : Object {
  using Handle = weft_model;
  static constexpr Kind kKind = Kind::model;
  models::LanguageModel model;
  std::optional<models::Generated> result;
};

Status check_within(const char* what, double value, double least, double most) {
  if (value >= least && value <= most) return {};
  return fail(Errc::out_of_range, std::string("generate options: ") + what + " " + std::to_string(value) +
                                      " is not between " + std::to_string(least) + " and " + std::to_string(most));
}

Status read_penalties(const weft_generate_options& given, models::SamplerOptions& sampler) {
  using models::SamplerOptions;
  if (given.typical_p != 0) sampler.typical_p = given.typical_p;
  if (given.repetition_penalty != 0) sampler.repetition_penalty = given.repetition_penalty;
  sampler.presence_penalty = given.presence_penalty;
  sampler.frequency_penalty = given.frequency_penalty;
  if (given.penalty_window != 0)
    sampler.penalty_window = given.penalty_window == UINT64_MAX ? 0 : static_cast<std::size_t>(given.penalty_window);
  sampler.no_repeat_ngram = static_cast<std::size_t>(given.no_repeat_ngram);
  constexpr double kMost = SamplerOptions::kMostPenalty;
  WEFT_CHECK(check_within("typical_p", sampler.typical_p, 0, SamplerOptions::kMostShare));
  WEFT_CHECK(check_within("repetition_penalty", sampler.repetition_penalty, SamplerOptions::kLeastRepetition, kMost));
  WEFT_CHECK(check_within("presence_penalty", sampler.presence_penalty, -kMost, kMost));
  WEFT_CHECK(check_within("frequency_penalty", sampler.frequency_penalty, -kMost, kMost));
  WEFT_TRY(const auto ids, array_of(given.bias_ids, given.bias_count, "bias_ids"));
  WEFT_TRY(const auto biases, array_of(given.biases, given.bias_count, "biases"));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!std::isfinite(biases[i]) && !(biases[i] < 0))
      return fail(Errc::out_of_range,
                  "generate options: bias " + std::to_string(i) + " is not finite and not -INFINITY");
    sampler.logit_bias.emplace_back(ids[i], biases[i]);
  }
  return {};
}

/// Numbers in the order of the sampler's table.
template <class T, std::size_t N>
void read_numbers(const models::SamplerNumber<T> (&rows)[N], const T (&given)[N], models::SamplerOptions& sampler) {
  for (std::size_t i = 0; i < N; ++i)
    if (given[i] != 0) sampler.steps.*rows[i].value = given[i] < std::min<T>(rows[i].least, 0) ? 0 : given[i];
}

Status read_steps(const weft_generate_options& given, models::SamplerOptions& sampler) {
  read_numbers(models::kSamplerReals,
               {given.dynatemp_range, given.dynatemp_exponent, given.top_n_sigma, given.xtc_probability,
                given.xtc_threshold, given.mirostat_tau, given.mirostat_eta, given.dry_multiplier, given.dry_base},
               sampler);
  read_numbers(models::kSamplerWholes, {given.mirostat, given.dry_allowed_length, given.dry_penalty_last_n}, sampler);
  if (given.samplers) {
    WEFT_TRY(const std::string_view names, text_of(given.samplers, "samplers"));
    WEFT_TRY(sampler.order, models::parse_order(names, "samplers"));
  }
  if (given.dry_sequence_breakers || given.dry_sequence_breaker_count != 0) {
    WEFT_TRY(const auto breakers,
             array_of(given.dry_sequence_breakers, given.dry_sequence_breaker_count, "dry_sequence_breakers"));
    sampler.steps.dry_breakers.clear();
    for (const char* const breaker : breakers) {
      WEFT_TRY(const std::string_view text, text_of(breaker, "dry_sequence_breakers"));
      sampler.steps.dry_breakers.emplace_back(text);
    }
  }
  return models::check_sampler(sampler);
}

Status read_grammar(const weft_generate_options& given, models::GenerateOptions& made) {
  if (given.grammar && given.json_schema)
    return fail(Errc::invalid_argument, "generate options: grammar and json_schema; one of them at most");
  if (given.grammar) {
    WEFT_TRY(const std::string_view source, text_of(given.grammar, "grammar"));
    WEFT_TRY(made.grammar, text::Grammar::parse(source));
  }
  if (given.json_schema) {
    WEFT_TRY(const std::string_view source, text_of(given.json_schema, "json_schema"));
    WEFT_TRY(const Json schema, parse_json(source, "json_schema"));
    WEFT_TRY(made.grammar, text::Grammar::from_json_schema(schema));
  }
  return {};
}

Result<models::GenerateOptions> generate_options_of(const weft_generate_options* options, const Json& generation) {
  WEFT_TRY(const weft_generate_options given, struct_of(options, "generate options"));
  models::GenerateOptions made;
  models::SamplerOptions& sampler = made.sampler;
  if (given.preset) {
    WEFT_TRY(const std::string_view preset, text_of(given.preset, "preset"));
    auto draw = models::sampler_of_preset(preset, generation);
    if (!draw) return fail(std::move(draw).error().within("preset"));
    sampler = *std::move(draw);
  }
  if (given.temperature != 0) sampler.temperature = given.temperature;
  if (given.top_k != 0) sampler.top_k = given.top_k == UINT64_MAX ? 0 : static_cast<std::size_t>(given.top_k);
  if (given.top_p != 0) sampler.top_p = given.top_p;
  if (given.min_p != 0) sampler.min_p = given.min_p < 0 ? 0 : given.min_p;
  WEFT_CHECK(check_within("temperature", sampler.temperature, 0, models::SamplerOptions::kMostTemperature));
  WEFT_CHECK(check_within("top_p", sampler.top_p, 0, models::SamplerOptions::kMostShare));
  WEFT_CHECK(check_within("min_p", sampler.min_p, 0, models::SamplerOptions::kMostShare));
  WEFT_CHECK(read_penalties(given, sampler));
  WEFT_CHECK(read_steps(given, sampler));
  WEFT_CHECK(read_grammar(given, made));
  if (given.is_greedy) sampler.temperature = 0;
  sampler.seed = given.seed;
  for (const auto& [what, value] : {std::pair("tokens", given.tokens), std::pair("context", given.context)})
    if (value > models::GenerateOptions::kMostTokens)
      return fail(Errc::out_of_range, std::string("generate options: ") + what + " " + std::to_string(value) +
                                          " is more than " + std::to_string(models::GenerateOptions::kMostTokens));
  if (given.tokens != 0) made.most_tokens = static_cast<std::size_t>(given.tokens);
  made.context = static_cast<std::size_t>(given.context);
  WEFT_TRY(const auto stops, array_of(given.stops, given.stop_count, "stops"));
  for (const char* const stop : stops) {
    WEFT_TRY(const std::string_view text, text_of(stop, "stops"));
    made.stops.emplace_back(text);
  }
  made.ignores_ends = given.ignores_ends != 0;
  made.max_memory = given.max_memory;
  return made;
}

Outcome hand_out_model(const std::string& path, const weft_model_options* options, weft_model** out_model) {
  WEFT_TRY(const weft_model_options given, struct_of(options, "model options"));
  WEFT_TRY(mesh::MeshOptions wanted, mesh_options_of(given.mesh));
  auto made = std::make_unique<ModelObject>();
  WEFT_TRY(made->model, models::load_language_model(storage::real_file_system(), path, text_or_empty(given.tokenizer),
                                                    std::move(wanted)));
  return hand_out(std::move(made), out_model);
}

}  // namespace
}  // namespace weft::capi

using namespace weft;
using namespace weft::capi;

weft_status weft_model_load(const char* path, const weft_model_options* options, weft_model** out_model) {
  return guarded([&]() -> Outcome {
    WEFT_CHECK(check_out(out_model, "out_model"));
    WEFT_TRY(const std::string_view place, text_of(path, "path"));
    return hand_out_model(std::string(place), options, out_model);
  });
}

weft_status weft_model_load_bytes(const weft_file_bytes* files, size_t count, const weft_model_options* options,
                                  weft_model** out_model) {
  return guarded([&]() -> Outcome {
    WEFT_CHECK(check_out(out_model, "out_model"));
    WEFT_TRY(const auto given, array_of(files, count, "files"));
    std::vector<storage::MemoryFiles::Named> named;
    for (const weft_file_bytes& each : given) {
      WEFT_TRY(const std::string_view name, text_of(each.name, "files: name"));
      WEFT_TRY(const ByteSpan bytes, bytes_of(each.bytes, each.count, "files: bytes"));
      named.push_back({std::string(name), bytes});
    }
    WEFT_TRY(const storage::MemoryFiles kept, storage::MemoryFiles::make(named));
    return hand_out_model(kept.path(), options, out_model);
  });
}

weft_status weft_model_destroy(weft_model* model) { return destroy<ModelObject>(model); }

weft_status weft_model_tokenize(weft_model* model, const char* text, uint32_t* ids, size_t capacity,
                                size_t* out_needed) {
  return with<ModelObject>(model, [&](ModelObject& of) -> Outcome {
    WEFT_TRY(const std::string_view given, text_of(text, "text"));
    WEFT_TRY([[maybe_unused]] const auto buffer, array_of(ids, capacity, "ids"));
    WEFT_TRY(const auto found, of.model.tokenizer->encode(given));
    static_assert(sizeof(text::TokenId) == sizeof(uint32_t));
    return copy_out(found.data(), found.size(), sizeof(uint32_t), ids, capacity, out_needed);
  });
}

weft_status weft_model_detokenize(weft_model* model, const uint32_t* ids, size_t count, char* buffer, size_t capacity,
                                  size_t* out_needed) {
  return with<ModelObject>(model, [&](ModelObject& of) -> Outcome {
    WEFT_TRY(const auto given, array_of(ids, count, "ids"));
    return copy_text(of.model.tokenizer->decode(std::vector<text::TokenId>(given.begin(), given.end())), buffer,
                     capacity, out_needed);
  });
}

weft_status weft_model_generate(weft_model* model, const char* prompt, const weft_generate_options* options,
                                weft_text_function function, void* user) {
  return with<ModelObject>(model, [&](ModelObject& of) -> Outcome {
    WEFT_TRY(const std::string_view given, text_of(prompt, "prompt"));
    WEFT_TRY(models::GenerateOptions wanted, generate_options_of(options, of.model.generation));
    const auto stopped = [] { return fail(Errc::interrupted, "generate: stopped by the function that gets the text"); };
    bool is_over = false;  // after that it is told nothing, a rest that a stop string held back neither
    const auto stops = [&](const char* text) {
      is_over = is_over || (function && function(user, text) != 0);
      return is_over;
    };
    wanted.is_stopped = [&] { return stops(""); };
    WEFT_TRY(models::Generated made, models::generate(of.model, given, wanted, [&](std::string_view text) -> Status {
               if (stops(std::string(text).c_str())) return stopped();
               return {};
             }));
    if (made.end == "interrupted") return stopped();
    of.result = std::move(made);
    return {};
  });
}

weft_status weft_model_result(weft_model* model, char* buffer, size_t capacity, size_t* out_needed) {
  return with<ModelObject>(model, [&](ModelObject& of) -> Outcome {
    if (!of.result) return fail(Errc::not_found, "model: nothing was generated yet");
    const models::Generated& made = *of.result;
    const Json json{{"text", made.text},
                    {"ids", made.ids},
                    {"prompt_ids", made.prompt},
                    {"end", std::string(made.end)},
                    {"seconds", made.times.seconds},
                    {"prompt_seconds", made.times.prompt_seconds}};
    return copy_text(json.dump(), buffer, capacity, out_needed);
  });
}
