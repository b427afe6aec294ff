// SPDX-License-Identifier: Apache-2.0

#include "models/text_record.hpp"

#include "models/sampler_json.hpp"

#include "core/json.hpp"
#include "core/json_reader.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace weft::models {
namespace {

constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kLongestText = std::size_t{1} << 20;

/// Names of how a text ended, as they are written.
constexpr std::array<std::pair<std::string_view, TextChunk::End>, 3> kEnds{
    {{"end", TextChunk::End::end}, {"stop", TextChunk::End::stop}, {"length", TextChunk::End::length}}};

/// Calls `real(name, value, least, most)`, `natural(name, value)` or `flag` for each number of a sampler; biases and
/// the seed apart.
template <class Sampler, class Real, class Natural, class Flag>
void visit_sampler(Sampler& of, const Real& real, const Natural& natural, const Flag& flag) {
  using Bounds = SamplerOptions;
  real("temperature", of.temperature, 0, Bounds::kMostTemperature);
  natural("top_k", of.top_k);
  real("top_p", of.top_p, 0, Bounds::kMostShare);
  real("min_p", of.min_p, 0, Bounds::kMostShare);
  real("typical_p", of.typical_p, 0, Bounds::kMostShare);
  real("repetition_penalty", of.repetition_penalty, Bounds::kLeastRepetition, Bounds::kMostPenalty);
  real("presence_penalty", of.presence_penalty, -Bounds::kMostPenalty, Bounds::kMostPenalty);
  real("frequency_penalty", of.frequency_penalty, -Bounds::kMostPenalty, Bounds::kMostPenalty);
  natural("penalty_window", of.penalty_window);
  flag("penalizes_prompt", of.penalizes_prompt);
  natural("no_repeat_ngram", of.no_repeat_ngram);
}

Json json_of(const SamplerOptions& sampler) {
  Json out = Json::object();
  const auto set = [&](const char* name, const auto& value, auto...) { out[name] = value; };
  const auto set_natural = [&](const char* name, std::size_t value) { out[name] = value; };
  visit_sampler(sampler, set, set_natural, set);
  for (const auto& each : kSamplerReals) out[each.name] = sampler.steps.*each.value;
  for (const auto& each : kSamplerWholes) out[each.name] = sampler.steps.*each.value;
  out["dry_sequence_breakers"] = sampler.steps.dry_breakers;
  Json steps = Json::array();
  for (const SamplerStep step : sampler.order) steps.push_back(std::string(name_of(step)));
  out["samplers"] = std::move(steps);
  out["seed"] = sampler.seed;
  Json biases = Json::array();
  for (const auto& [id, bias] : sampler.logit_bias)
    biases.push_back(Json::array({id, std::isfinite(bias) ? Json(bias) : Json()}));
  out["logit_bias"] = std::move(biases);
  return out;
}

/// Settings that older logs lack: what is not there is as it was then.
Status read_later(JsonReader& reader, SamplerOptions& to) {
  for (const auto& each : kSamplerReals) {
    WEFT_TRY(to.steps.*each.value, reader.f64_or(each.name, to.steps.*each.value, each.least, each.most));
  }
  for (const auto& each : kSamplerWholes) {
    WEFT_TRY(to.steps.*each.value, read_whole(reader.find(each.name), each, to.steps.*each.value));
  }
  if (const auto breakers = reader.find("dry_sequence_breakers")) {
    WEFT_TRY(to.steps.dry_breakers, read_breakers(*breakers));
  }
  WEFT_TRY(const bool is_early, reader.boolean_or("temperature_first", false));
  if (is_early) to.order = SamplerOptions::hf_order();
  if (const auto steps = reader.find("samplers")) {
    WEFT_TRY(to.order, read_order(*steps));
  }
  return {};
}

Status read(JsonReader& reader, SamplerOptions& to) {
  Status done;
  const auto take = [&](auto& value, auto&& found) {
    if (!done) return;
    if (found)
      value = *found;
    else
      done = fail(std::move(found).error());
  };
  visit_sampler(
      to,
      [&](const char* name, double& value, double least, double most) { take(value, reader.f64(name, least, most)); },
      [&](const char* name, std::size_t& value) { take(value, reader.u64(name)); },
      [&](const char* name, bool& value) { take(value, reader.boolean(name)); });
  take(to.seed, reader.u64("seed"));
  WEFT_CHECK(done);
  WEFT_CHECK(read_later(reader, to));
  WEFT_TRY(const auto biases, reader.array("logit_bias"));
  for (const JsonValue& each : biases) {
    WEFT_TRY(const auto pair, each.array(2, 2));
    auto& [id, bias] = to.logit_bias.emplace_back(0, -std::numeric_limits<float>::infinity());
    WEFT_TRY(id, pair[0].u32());
    if (pair[1].is_null()) continue;
    WEFT_TRY(bias, pair[1].f32());
  }
  return reader.finish();
}

Status read_ids(const std::vector<JsonValue>& from, std::vector<text::TokenId>& to) {
  to.reserve(from.size());
  for (const JsonValue& each : from) {
    WEFT_TRY(to.emplace_back(), each.u32());
  }
  return {};
}

Status read(JsonReader& reader, TextRequest& to) {
  WEFT_TRY(const auto prompt, reader.array("prompt", 1));
  WEFT_CHECK(read_ids(prompt, to.prompt));
  WEFT_TRY(to.most_tokens, reader.u64("max_tokens", 1));
  WEFT_TRY(JsonReader sampler, reader.object("sampler"));
  WEFT_CHECK(read(sampler, to.sampler));
  WEFT_TRY(const auto stops, reader.array("stop"));
  for (const JsonValue& each : stops) {
    WEFT_TRY(to.stops.emplace_back(), each.string(kLongestText));
  }
  WEFT_TRY(const std::string grammar, reader.string_or("grammar", "", kLongestText));
  if (!grammar.empty()) {
    WEFT_TRY(to.grammar, text::Grammar::parse(grammar, reader.path_of("grammar")));
  }
  WEFT_TRY(to.ignores_ends, reader.boolean("ignore_eos"));
  return reader.finish();
}

Result<Hash128> read_hash(JsonReader& reader, std::string_view key) {
  WEFT_TRY(const JsonValue value, reader.value(key));
  WEFT_TRY(const std::string text, value.string());
  const auto hash = parse_hash128(text);
  if (!hash) return value.unexpected("32 hexadecimal digits");
  return *hash;
}

std::optional<TextChunk::End> parse_end(std::string_view text) {
  for (const auto& [name, end] : kEnds)
    if (name == text) return end;
  return std::nullopt;
}

}  // namespace

std::string to_line(const TextRecord& record) {
  const TextRequest& of = record.request;
  Json request{{"prompt", of.prompt},
               {"max_tokens", of.most_tokens},
               {"sampler", json_of(of.sampler)},
               {"stop", of.stops},
               {"ignore_eos", of.ignores_ends}};
  if (of.grammar) request["grammar"] = of.grammar->source();
  Json line{{"weft_text", kVersion},
            {"time", record.time},
            {"model", record.model},
            {"version", record.version},
            {"model_digest", to_string(record.digest.weights)},
            {"options_digest", to_string(record.digest.options)},
            {"context", record.context},
            {"request", std::move(request)},
            {"ids", record.ids}};
  for (const auto& [name, end] : kEnds)
    if (end == record.end) line["end"] = name;
  if (record.state) line["state_hash"] = to_string(*record.state);
  return line.dump(Json::Order::as_set) + "\n";
}

Result<TextRecord> read_text_record(std::string_view line, const std::string& object) {
  WEFT_TRY(const Json json, parse_json(line, object));
  WEFT_TRY(JsonReader reader, JsonReader::open(json, object));
  WEFT_CHECK(reader.u64("weft_text", kVersion, kVersion));
  TextRecord out;
  WEFT_TRY(const std::uint64_t time, reader.u64("time", 0, std::numeric_limits<std::int64_t>::max()));
  out.time = static_cast<std::int64_t>(time);
  WEFT_TRY(out.model, reader.string("model"));
  WEFT_TRY(out.version, reader.string("version"));
  WEFT_TRY(out.digest.weights, read_hash(reader, "model_digest"));
  WEFT_TRY(out.digest.options, read_hash(reader, "options_digest"));
  WEFT_TRY(out.context, reader.u64("context", 1));
  WEFT_TRY(JsonReader request, reader.object("request"));
  WEFT_CHECK(read(request, out.request));
  WEFT_TRY(const auto ids, reader.array("ids"));
  WEFT_CHECK(read_ids(ids, out.ids));
  WEFT_TRY(out.end, reader.one_of("end", parse_end, {kEnds[0].first, kEnds[1].first, kEnds[2].first}));
  if (reader.find("state_hash")) {
    WEFT_TRY(out.state, read_hash(reader, "state_hash"));
  }
  WEFT_CHECK(reader.finish());
  return out;
}

}  // namespace weft::models
