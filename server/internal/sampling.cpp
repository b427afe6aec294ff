// SPDX-License-Identifier: Apache-2.0

#include "server/internal/sampling.hpp"

#include "models/generation_config.hpp"
#include "models/sampler_json.hpp"
#include "server/served_model.hpp"

#include <charconv>
#include <chrono>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace weft::server::internal {

std::optional<JsonValue> given(JsonReader& reader, std::string_view key) {
  auto found = reader.find(key);
  if (found && found->is_null()) return std::nullopt;
  return found;
}

Result<std::string> string_or(JsonReader& reader, std::string_view key, std::string fallback, std::size_t most) {
  if (const auto found = given(reader, key)) return found->string(most);
  return fallback;
}

Result<bool> boolean_or(JsonReader& reader, std::string_view key, bool fallback) {
  if (const auto found = given(reader, key)) return found->boolean();
  return fallback;
}

Result<std::uint64_t> natural_or(JsonReader& reader, std::string_view key, std::uint64_t fallback, std::uint64_t least,
                                 std::uint64_t most) {
  if (const auto found = given(reader, key)) return found->u64(least, most);
  return fallback;
}

Result<double> number_or(JsonReader& reader, std::string_view key, double fallback, double least, double most) {
  if (const auto found = given(reader, key)) return found->f64(least, most);
  return fallback;
}

namespace {

constexpr std::size_t kMostStops = 16, kLongestStop = 1024, kMostBiases = 1024;
constexpr double kMostBias = 100;
using Bias = std::pair<text::TokenId, float>;

/// "stop": a text or up to 16.
Status read_stops(JsonReader& body, std::vector<std::string>& to) {
  const auto value = given(body, "stop");
  if (!value) return {};
  if (value->is_string()) {
    WEFT_TRY(to.emplace_back(), value->string(kLongestStop));
    return {};
  }
  WEFT_TRY(const auto list, value->array(0, kMostStops));
  for (const JsonValue& each : list) {
    WEFT_TRY(to.emplace_back(), each.string(kLongestStop));
  }
  return {};
}

Result<std::uint64_t> read_seed(JsonReader& body) {
  const auto value = given(body, "seed");
  const bool is_negative = value && value->raw().is_integer() && !value->raw().is_natural();
  if (value && !is_negative) return value->u64();
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

/// A number is added to a logit; false bans the token.
Result<Bias> read_bias(text::TokenId id, const JsonValue& value, std::size_t vocabulary) {
  if (id >= vocabulary)
    return fail(Errc::out_of_range,
                value.path() + ": token " + std::to_string(id) + ", the model has " + std::to_string(vocabulary));
  if (value.is_bool() && !value.raw().get<bool>()) return Bias(id, -std::numeric_limits<float>::infinity());
  WEFT_TRY(const double bias, value.f64(-kMostBias, kMostBias));
  return Bias(id, static_cast<float>(bias));
}

/// {"id": bias}, or, as llama.cpp has it, [[id, bias], ...].
Status read_biases(JsonReader& body, std::size_t vocabulary, std::vector<Bias>& to) {
  const auto value = given(body, "logit_bias");
  if (!value) return {};
  if (value->raw().size() > kMostBiases)
    return fail(Errc::too_large, "logit_bias: " + std::to_string(value->raw().size()) + " tokens are more than " +
                                     std::to_string(kMostBiases));
  if (value->is_object()) {
    WEFT_TRY(JsonReader object, value->object());
    for (const std::string& key : object.keys()) {
      text::TokenId id = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size())
        return fail(Errc::unknown_name, "logit_bias: '" + key + "' is no number of a token");
      WEFT_TRY(to.emplace_back(), read_bias(id, *object.find(key), vocabulary));
    }
    return {};
  }
  WEFT_TRY(const auto list, value->array());
  for (const JsonValue& each : list) {
    WEFT_TRY(const auto pair, each.array(2, 2));
    WEFT_TRY(const text::TokenId id, pair[0].u32());
    WEFT_TRY(to.emplace_back(), read_bias(id, pair[1], vocabulary));
  }
  return {};
}

/// -1 is all, 0 none.
Status read_window(JsonReader& body, models::SamplerOptions& draw) {
  const auto value = given(body, "repeat_last_n");
  if (!value) return {};
  const bool is_all = value->raw().is_integer() && !value->raw().is_natural();
  std::uint64_t window = 0;
  if (!is_all) {
    WEFT_TRY(window, value->u64(0, models::GenerateOptions::kMostTokens));
  }
  draw.penalty_window = window;
  if (!is_all && window == 0) draw.repetition_penalty = 1, draw.presence_penalty = draw.frequency_penalty = 0;
  return {};
}

Status read_penalties(JsonReader& body, Dialect dialect, models::SamplerOptions& draw) {
  const bool is_openai = dialect == Dialect::openai;
  const double most = is_openai ? 2 : models::SamplerOptions::kMostPenalty;
  WEFT_TRY(draw.presence_penalty, number_or(body, "presence_penalty", draw.presence_penalty, -most, most));
  WEFT_TRY(draw.frequency_penalty, number_or(body, "frequency_penalty", draw.frequency_penalty, -most, most));
  const char* const repetition = is_openai ? "repetition_penalty" : "repeat_penalty";
  WEFT_TRY(draw.repetition_penalty,
           number_or(body, repetition, draw.repetition_penalty, models::SamplerOptions::kLeastRepetition,
                     models::SamplerOptions::kMostPenalty));
  WEFT_TRY(draw.typical_p, number_or(body, "typical_p", draw.typical_p, 0, models::SamplerOptions::kMostShare));
  return is_openai ? Status() : read_window(body, draw);
}

/// The draw where a request says no more of it.
Result<models::SamplerOptions> usual_draw(JsonReader& body, Dialect dialect, const ServedModel& model) {
  models::SamplerOptions draw;
  WEFT_TRY(const std::string preset, string_or(body, "preset", model.preset(), 64));
  const bool is_openai = dialect == Dialect::openai;
  if (!preset.empty() || given(body, "preset")) {
    auto made = models::sampler_of_preset(preset, model.model().generation);
    if (!made) return fail(std::move(made).error().within("preset"));
    draw = *std::move(made);
  } else if (is_openai) {
    draw.temperature = draw.top_p = 1;
    draw.top_k = draw.penalty_window = 0;  // penalties: of what was written, however long ago
    draw.min_p = 0;
  }
  draw.penalizes_prompt = !is_openai;
  return draw;
}

/// Those that have llama.cpp's names on each route.
Status read_steps(JsonReader& body, models::SamplerOptions& draw) {
  for (const auto& each : models::kSamplerReals) {
    WEFT_TRY(draw.steps.*each.value, number_or(body, each.name, draw.steps.*each.value, each.least, each.most));
  }
  for (const auto& each : models::kSamplerWholes) {
    WEFT_TRY(draw.steps.*each.value, models::read_whole(given(body, each.name), each, draw.steps.*each.value));
  }
  if (const auto breakers = given(body, "dry_sequence_breakers")) {
    WEFT_TRY(draw.steps.dry_breakers, models::read_breakers(*breakers));
  }
  if (const auto steps = given(body, "samplers")) {
    WEFT_TRY(draw.order, models::read_order(*steps));
  }
  return {};
}

/// A whole number; lower ones come first, as vLLM has it.
Status read_priority(JsonReader& body, int& to) {
  constexpr double kMost = 2147483647;
  WEFT_TRY(const double priority, number_or(body, "priority", 0, -kMost, kMost));
  to = static_cast<int>(priority);
  if (static_cast<double>(to) == priority) return {};
  return fail(Errc::out_of_range, "priority: expected a whole number");
}

/// "timeout": seconds from now on that the answer may take.
Status read_timeout(JsonReader& body, models::TextRequest& to) {
  using Clock = std::chrono::steady_clock;
  constexpr double kLongest = 7 * 86400, kShortest = 0.001;
  if (!given(body, "timeout")) return {};
  WEFT_TRY(const double seconds, number_or(body, "timeout", 0, kShortest, kLongest));
  to.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  return {};
}

}  // namespace

Status read_sampling(JsonReader& body, Dialect dialect, const ServedModel& model, models::TextRequest& to) {
  models::SamplerOptions& draw = to.sampler;
  WEFT_TRY(draw, usual_draw(body, dialect, model));
  constexpr double kMostShare = models::SamplerOptions::kMostShare;
  const double hottest = dialect == Dialect::openai ? 2 : models::SamplerOptions::kMostTemperature;
  WEFT_TRY(draw.temperature, number_or(body, "temperature", draw.temperature, 0, hottest));
  WEFT_TRY(draw.top_p, number_or(body, "top_p", draw.top_p, 0, kMostShare));
  WEFT_TRY(draw.min_p, number_or(body, "min_p", draw.min_p, 0, kMostShare));
  // Below 0 is all, as llama.cpp, vLLM and SGLang have it.
  if (const auto top_k = given(body, "top_k"); top_k && top_k->raw().is_integer() && !top_k->raw().is_natural()) {
    draw.top_k = 0;
  } else {
    WEFT_TRY(draw.top_k, natural_or(body, "top_k", draw.top_k, 0, models::GenerateOptions::kMostTokens));
  }
  WEFT_CHECK(read_penalties(body, dialect, draw));
  WEFT_CHECK(read_steps(body, draw));
  WEFT_CHECK(read_biases(body, model.description().vocabulary, draw.logit_bias));
  WEFT_TRY(draw.seed, read_seed(body));
  WEFT_TRY(to.ignores_ends, boolean_or(body, "ignore_eos", to.ignores_ends));
  WEFT_TRY(to.reuses, boolean_or(body, "cache_prompt", to.reuses));
  constexpr std::size_t kLongestSalt = 256;
  WEFT_TRY(to.tenant, string_or(body, "cache_salt", "", kLongestSalt));
  WEFT_TRY(to.wants_state, boolean_or(body, "return_state_hash", false));
  WEFT_CHECK(read_priority(body, to.priority));
  WEFT_CHECK(read_timeout(body, to));
  return read_stops(body, to.stops);
}

}  // namespace weft::server::internal
