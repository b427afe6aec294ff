// SPDX-License-Identifier: Apache-2.0

#include "cli/writing_flags.hpp"

#include "cli/number.hpp"
#include "cli/setup.hpp"
#include "cli/terminal.hpp"
#include "cli/text_format.hpp"

#include "models/generation_config.hpp"

#include "storage/file_system.hpp"
#include "text/unicode.hpp"

#include "core/log.hpp"
#include "core/printable.hpp"

#include <sys/resource.h>

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <utility>

namespace weft::cli {
namespace {

using models::GenerateOptions;
using models::SamplerOptions;

std::string or_else(const std::string& help, double value) { return help + "; " + shown(value); }
std::string or_number(const std::string& help, std::uint64_t value) { return help + "; " + std::to_string(value); }

void add_candidate_flags(CLI::App& verb, WritingFlags& flags) {
  const SamplerOptions draw;
  WritingFlags::Draw& to = flags.draw;
  constexpr double kMostShare = SamplerOptions::kMostShare;
  add_option(verb, "temperature", to.temperature,
             or_else("Spread of the draw; 0: always the likeliest token", draw.temperature))
      .within(0.0, SamplerOptions::kMostTemperature);
  add_option(verb, "top-k", to.top_k, or_number("Tokens that are drawn from, at most; 0: all", draw.top_k))
      .within(std::uint64_t{0}, GenerateOptions::kMostTokens);
  add_option(verb, "typical-p", to.typical_p,
             or_else("Tokens of the usual surprise that are kept until their shares exceed this", draw.typical_p))
      .within(0.0, kMostShare);
  add_option(verb, "top-p", to.top_p,
             or_else("Likeliest tokens that are kept until their shares reach this", draw.top_p))
      .within(0.0, kMostShare);
  add_option(verb, "min-p", to.min_p, or_else("Least share of a token, in parts of the likeliest one's", draw.min_p))
      .within(0.0, kMostShare);
  add_option(verb, "seed", flags.options.sampler.seed, or_number("Number that the draws follow from", draw.seed));
}

void add_repetition_flags(CLI::App& verb, WritingFlags::Draw& to, std::vector<std::string>& biases) {
  const SamplerOptions draw;
  constexpr double kMost = SamplerOptions::kMostPenalty;
  add_option(verb, "repetition-penalty", to.repetition,
             or_else("Divides logits of tokens that were there (multiplies those below 0)", draw.repetition_penalty))
      .within(SamplerOptions::kLeastRepetition, kMost);
  add_option(verb, "presence-penalty", to.presence,
             or_else("Taken off logits of tokens that were there", draw.presence_penalty))
      .within(-kMost, kMost);
  add_option(verb, "frequency-penalty", to.frequency,
             or_else("Taken off logits of tokens for each time that they were there", draw.frequency_penalty))
      .within(-kMost, kMost);
  add_option(verb, "penalty-window", to.window,
             or_number("Tokens that penalties look back; 0: all", draw.penalty_window))
      .within(std::uint64_t{0}, GenerateOptions::kMostTokens);
  add_option(verb, "no-repeat-ngram", to.no_repeat,
             or_number("Tokens of an n-gram that must not come twice; 0: none", draw.no_repeat_ngram))
      .within(std::uint64_t{0}, GenerateOptions::kMostTokens);
  add_option(verb, "logit-bias", biases, "A token's number, = and what is added to its logit (-inf: never); several")
      .type_name("ID=BIAS")
      .one_a_flag();
}

/// The flag of a name of JSON.
std::string flag_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// Flags of the steps that llama.cpp has beside those above, and of their order.
void add_step_flags(CLI::App& verb, WritingFlags::Draw& to) {
  const SamplerOptions draw;
  const auto add = [&](const auto& rows, auto& values) {
    for (std::size_t i = 0; i < std::size(rows); ++i) {
      const auto& [name, value, least, most, meaning] = rows[i];
      add_option(verb, flag_of(name), values[i], or_else(meaning, static_cast<double>(draw.steps.*value)))
          .within(static_cast<double>(least), static_cast<double>(most));
    }
  };
  add(models::kSamplerWholes, to.wholes);
  add(models::kSamplerReals, to.reals);
  add_option(verb, "dry-sequence-breaker", to.breakers,
             "A text that ends what --dry-multiplier takes for a repetition, or none; several; \\n, :, \" and *")
      .type_name("TEXT")
      .one_a_flag();
  add_option(verb, "samplers", to.order, "The steps in their order; " + models::sampler_names()).type_name("NAME;NAME");
}

/// Values of `add_step_flags`. @error invalid_argument: a fraction where there is none; as parse_order, check_breakers
Status take_steps(const WritingFlags::Draw& given, SamplerOptions& draw) {
  for (std::size_t i = 0; i < std::size(models::kSamplerReals); ++i)
    if (given.reals[i]) draw.steps.*models::kSamplerReals[i].value = *given.reals[i];
  for (std::size_t i = 0; i < std::size(models::kSamplerWholes); ++i) {
    if (!given.wholes[i]) continue;
    const auto& [name, value, least, most, meaning] = models::kSamplerWholes[i];
    draw.steps.*value = static_cast<std::int64_t>(*given.wholes[i]);
    if (static_cast<double>(draw.steps.*value) != *given.wholes[i])
      return fail(Errc::invalid_argument,
                  "--" + flag_of(name) + ": found " + shown(*given.wholes[i]) + ", expected a whole number");
  }
  if (given.order) {
    WEFT_TRY(draw.order, models::parse_order(*given.order, "--samplers"));
  }
  if (given.breakers.empty()) return {};
  draw.steps.dry_breakers = given.breakers;
  if (given.breakers.size() == 1 && given.breakers[0] == "none") draw.steps.dry_breakers.clear();
  return models::check_breakers(draw.steps.dry_breakers, "--dry-sequence-breaker");
}

Result<std::pair<text::TokenId, float>> read_bias(const std::string& text) {
  const std::size_t equals = text.find('=');
  const auto refuse = [&] {
    return fail(Errc::invalid_argument, "--logit-bias: found " + in_quotes(text) +
                                            ", expected a token's number, = and a number or -inf, such as 42=-1.5");
  };
  if (equals == text.npos) return refuse();
  const std::string_view id_text = std::string_view(text).substr(0, equals),
                         bias_text = std::string_view(text).substr(equals + 1);
  text::TokenId id = 0;
  float bias = 0;
  const auto id_end = std::from_chars(id_text.data(), id_text.data() + id_text.size(), id);
  if (id_end.ec != std::errc{} || id_end.ptr != id_text.data() + id_text.size()) return refuse();
  if (bias_text == "-inf") return std::pair(id, -std::numeric_limits<float>::infinity());
  const auto bias_end = std::from_chars(bias_text.data(), bias_text.data() + bias_text.size(), bias);
  if (bias_end.ec != std::errc{} || bias_end.ptr != bias_text.data() + bias_text.size() || !std::isfinite(bias))
    return refuse();
  return std::pair(id, bias);
}

double rate_of(std::size_t tokens, double seconds) { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }

/// The largest memory that the process had, in bytes.
std::uint64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) << 10;
}

}  // namespace

void add_preset(CLI::App& verb, std::string& preset, const std::string& help) {
  add_option(verb, "preset", preset, help).member_of({"llama.cpp", "hf"});
}

void add_draft_flags(CLI::App& verb, std::string& model, models::DraftOptions& to) {
  add_option(verb, "draft", model, "A smaller model of the same vocabulary that guesses tokens: faster, the same text")
      .type_name("MODEL");
  add_flag(verb, "draft-lookup", to.looks_up, "Guess tokens by what followed the last ones before in the text");
  add_option(verb, "draft-tokens", to.most, or_number("Guesses in a pass, at most", to.most))
      .within(std::uint64_t{1}, std::uint64_t{models::DraftOptions::kMost});
}

void add_writing_flags(CLI::App& verb, WritingFlags& flags) {
  GenerateOptions& to = flags.options;
  add_argument(verb, "MODEL", flags.model,
               "What weft import made, or a folder, GGUF file or file of Loom that it takes")
      .required();
  add_option(verb, "tokens", to.most_tokens, or_number("Tokens to write, at most", to.most_tokens))
      .within(std::uint64_t{1}, GenerateOptions::kMostTokens);
  add_preset(verb, flags.preset,
             "Values that are not given, and the order: llama.cpp's, or hf: the model's generation_config.json");
  add_candidate_flags(verb, flags);
  add_repetition_flags(verb, flags.draw, flags.biases);
  add_step_flags(verb, flags.draw);
  add_option(verb, "stop", to.stops, "A text that ends what is written; it may be given several times").one_a_flag();
  add_option(verb, "grammar", flags.grammar, "A GBNF file that the text follows").type_name("FILE");
  add_option(verb, "json-schema", flags.schema, "A JSON schema's file; the text is JSON that it takes")
      .type_name("FILE");
  add_draft_flags(verb, flags.draft, to.drafts);
  add_option(verb, "threads", flags.threads, "Threads that compute; 0: all cores");
  add_device(verb, flags.device);
  add_option(verb, "tokenizer", flags.tokenizer, "Where the tokenizer is; the model's own");
  add_flag(verb, "ignore-end", to.ignores_ends, "Go on after the token that ends a text");
  add_max_memory(verb, to.max_memory);
}

Status read_writing_flags(WritingFlags& flags) {
  SamplerOptions tried;  // what is wrong is told before a model is loaded
  if (const Status taken = take_steps(flags.draw, tried); !taken)
    return fail(Errc::invalid_argument, taken.error().text());
  for (const std::string& text : flags.biases) {
    WEFT_TRY(const auto bias, read_bias(text));
    for (const auto& [id, other] : flags.options.sampler.logit_bias)
      if (id == bias.first)
        return fail(Errc::invalid_argument,
                    "--logit-bias " + text + ": token " + std::to_string(id) + " has one already");
    flags.options.sampler.logit_bias.push_back(bias);
  }
  if (flags.grammar.empty() && flags.schema.empty()) return {};
  if (!flags.grammar.empty() && !flags.schema.empty())
    return fail(Errc::invalid_argument, "--grammar and --json-schema: give one of them");
  const std::string& path = flags.grammar.empty() ? flags.schema : flags.grammar;
  WEFT_TRY(const ByteBuffer bytes, storage::real_file_system().read(path, std::size_t{1} << 20));
  if (!flags.grammar.empty()) {
    WEFT_TRY(flags.options.grammar, text::Grammar::parse(as_text(bytes), path));
    return {};
  }
  WEFT_TRY(const Json schema, parse_json(as_text(bytes), path));
  auto grammar = text::Grammar::from_json_schema(schema, path);
  if (!grammar) return fail(std::move(grammar).error().within(path));
  flags.options.grammar = *std::move(grammar);
  return {};
}

Result<models::LanguageModel> load_model(const WritingFlags& flags) {
  WEFT_CHECK(check_device(flags.device));
  mesh::MeshOptions mesh;
  mesh.threads = flags.threads;
  mesh.max_memory = flags.options.max_memory;
  mesh.device = flags.device;
  return models::load_language_model(storage::real_file_system(), flags.model, flags.tokenizer, mesh);
}

Status take_draw(WritingFlags& flags, const models::LanguageModel& model) {
  auto made = models::sampler_of_preset(flags.preset, model.generation);
  if (!made) return fail(std::move(made).error().within("--preset"));
  SamplerOptions draw = *std::move(made);
  const std::string other = models::described_sampling(model.generation);
  if (flags.preset != "hf" && !other.empty() && !flags.json)
    std::fprintf(stderr, "weft: generation_config.json has %s; --preset hf %s\n", escaped(other).c_str(),
                 models::sampler_of_preset("hf", model.generation) ? "takes them" : "refuses this file");
  draw.seed = flags.options.sampler.seed;
  draw.logit_bias = flags.options.sampler.logit_bias;
  const WritingFlags::Draw& given = flags.draw;
  const auto take = [](auto& value, const auto& asked) {
    if (asked) value = *asked;
  };
  take(draw.temperature, given.temperature);
  take(draw.top_k, given.top_k);
  take(draw.top_p, given.top_p);
  take(draw.min_p, given.min_p);
  take(draw.typical_p, given.typical_p);
  take(draw.repetition_penalty, given.repetition);
  take(draw.presence_penalty, given.presence);
  take(draw.frequency_penalty, given.frequency);
  take(draw.penalty_window, given.window);
  take(draw.no_repeat_ngram, given.no_repeat);
  WEFT_CHECK(take_steps(given, draw));
  flags.options.sampler = std::move(draw);
  return {};
}

Error context_error(Error error, std::string_view advice) {
  if (error.code() != Errc::full) return error;
  return Error(Errc::too_large, error.text() + "; " + std::string(advice));
}

Result<std::string> read_standard_input() {
  constexpr std::size_t kMost = std::size_t{64} << 20;
  std::string text;
  std::string part(std::size_t{1} << 16, '\0');
  while (const std::size_t size = std::fread(part.data(), 1, part.size(), stdin)) {
    if (text.size() + size > kMost) return fail(Errc::too_large, "standard input: more than 64 MiB");
    text.append(part, 0, size);
  }
  if (std::ferror(stdin) != 0) return fail(Errc::storage, "standard input could not be read");
  return text;
}

void warn_of_bytes(std::string_view text, const std::string& object) {
  if (const std::size_t at = text::valid_prefix(text); at != text.size())
    log_warn(object + ": byte " + std::to_string(at) + " is not UTF-8; such bytes are read as U+FFFD");
}

Result<std::unique_ptr<models::LanguageModel>> load_draft(WritingFlags& flags) {
  if (flags.draft.empty()) return std::unique_ptr<models::LanguageModel>();
  mesh::MeshOptions mesh;
  mesh.threads = flags.threads;
  mesh.max_memory = flags.options.max_memory;
  mesh.device = flags.device;
  WEFT_TRY(models::LanguageModel loaded,
           models::load_language_model(storage::real_file_system(), flags.draft, {}, std::move(mesh)));
  auto draft = std::make_unique<models::LanguageModel>(std::move(loaded));
  flags.options.drafts.model = draft.get();
  return draft;
}

void print_written(std::string_view text) {
  if (!Terminal::of(STDOUT_FILENO).is_terminal) {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find_first_of("\n\t", at), text.size());
      std::fputs(escaped(text.substr(at, end - at)).c_str(), stdout);
      if (end < text.size()) std::putchar(text[end]);
      at = end + 1;
    }
  }
  std::fflush(stdout);
}

void WritingTimes::add(const models::Generated& made) {
  all.prompt += made.prompt.size();
  all.cached += made.times.cached;
  all.written += made.ids.size();
  all.guessed += made.times.guessed;
  all.guessed_right += made.times.guessed_right;
  all.prompt_seconds += made.times.prompt_seconds;
  all.seconds += made.times.seconds;
}

std::string WritingTimes::shown() const {
  char rates[64];
  std::snprintf(rates, sizeof rates, "%.0f and %.0f a second, ", rate_of(all.prompt - all.cached, all.prompt_seconds),
                rate_of(all.written, all.seconds));
  std::string guesses;
  if (all.guessed > 0)
    guesses = std::to_string(all.guessed_right) + " of " + std::to_string(all.guessed) + " guesses right, ";
  return std::to_string(all.prompt) + (all.cached > 0 ? " (" + std::to_string(all.cached) + " kept)" : "") + " + " +
         std::to_string(all.written) + " tokens, " + rates + guesses + byte_size(peak_memory()) + " at most";
}

void WritingTimes::add_to(Json& object) const {
  object["prompt_tokens_per_second"] = rate_of(all.prompt - all.cached, all.prompt_seconds);
  object["tokens_per_second"] = rate_of(all.written, all.seconds);
  object["peak_memory_bytes"] = peak_memory();
  if (all.guessed == 0) return;
  object["guessed_tokens"] = all.guessed;
  object["guessed_right"] = all.guessed_right;
}

}  // namespace weft::cli
