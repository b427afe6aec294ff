// SPDX-License-Identifier: Apache-2.0
// POST /v1/completions.

#include "server/internal/text_call.hpp"
#include "server/internal/text_format.hpp"
#include "server/internal/token_text.hpp"
#include "server/language_api.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace weft::server {
namespace {

using internal::boolean_or;
using internal::characters;
using internal::finish_reason;
using internal::given;
using internal::natural_or;
using internal::TextCall;
using models::TextChunk;

constexpr std::size_t kMostTexts = 2048, kMostTried = 64;

/// Content of a request.
struct Completion {
  std::vector<internal::Prompt> prompts;
  models::TextRequest text;  // all of a text but its prompt
  std::size_t choices = 1, tried = 1;
  bool echoes = false, streams = false, tells_usage = false;
  std::optional<std::size_t> logprobs;
};

/// Lists of tokens, as this route tells logarithms of probabilities.
class LogprobLists {
 public:
  explicit LogprobLists(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void add(const models::TokenScore& score, std::size_t& offset) {
    const std::string part = internal::token_bytes(tokenizer_, score.id);
    tokens_.push_back(part);
    values_.push_back(score.logprob ? Json(*score.logprob) : Json());
    Json likeliest = score.logprob ? Json::object() : Json();
    for (const auto& each : score.likeliest) {
      const std::string text = Json(internal::token_bytes(tokenizer_, each.id)).dump();
      likeliest[parse_json(text, "token").value().text()] = each.logprob;  // keys are UTF-8
    }
    top_.push_back(std::move(likeliest));
    offsets_.push_back(offset);
    offset += characters(part);
  }
  Json json() && {
    return {{"tokens", std::move(tokens_)},
            {"token_logprobs", std::move(values_)},
            {"top_logprobs", std::move(top_)},
            {"text_offset", std::move(offsets_)}};
  }

 private:
  const text::Tokenizer& tokenizer_;
  Json tokens_ = Json::array(), values_ = Json::array(), top_ = Json::array(), offsets_ = Json::array();
};

class CompletionAnswer final : public internal::TextAnswer {
 public:
  CompletionAnswer(const TextCall& call, Completion completion)
      : TextAnswer(call.exchange, completion.prompts.size() * completion.tried,
                   {completion.streams, completion.text.wants_state}),
        completion_(std::move(completion)),
        model_(call.model),
        fingerprint_(internal::fingerprint(call)),
        offsets_(choices_.size()) {}

 private:
  Json frame(Json choices) const {
    return {{"id", id_},
            {"object", "text_completion"},
            {"created", created_},
            {"model", model_->name()},
            {"system_fingerprint", fingerprint_},
            {"choices", std::move(choices)}};
  }
  Json choice(std::size_t index, const std::string& text, Json logprobs, TextChunk::End end) const {
    return {{"text", text},
            {"index", index},
            {"logprobs", std::move(logprobs)},
            {"finish_reason", end == TextChunk::End::none ? Json() : Json(finish_reason(end))}};
  }
  Json logprobs_of(const std::vector<models::TokenScore>& scores, std::size_t& offset) const {
    if (!completion_.logprobs) return {};
    LogprobLists lists(model_->tokenizer());
    for (const auto& each : scores) lists.add(each, offset);
    return std::move(lists).json();
  }
  std::string prompt_text(std::size_t text) const {
    if (!completion_.echoes) return {};
    const internal::Prompt& prompt = completion_.prompts[text / completion_.tried];
    return prompt.text.empty() ? model_->tokenizer().decode(prompt.tokens, true) : prompt.text;
  }
  internal::Usage usage() const {
    internal::Usage usage;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      if (i % completion_.tried == 0)
        usage.prompt += choices_[i].times.prompt, usage.cached += choices_[i].times.cached;
      usage.written += choices_[i].times.written;
    }
    return usage;
  }
  std::string chunk(Json choices, Json usage) const {
    Json body = frame(std::move(choices));
    if (completion_.tells_usage) body["usage"] = std::move(usage);
    return event(body);
  }

  std::string opening() override {
    std::string all;
    for (std::size_t i = 0; completion_.echoes && i < choices_.size(); ++i)
      all += chunk(Json::array({choice(i, prompt_text(i), nullptr, TextChunk::End::none)}), nullptr);
    return all;
  }
  std::string events(std::size_t text, const TextChunk& part) override {
    const bool tells =
        !part.text.empty() || part.end != TextChunk::End::none || (completion_.logprobs && !part.scores.empty());
    if (!tells) return {};
    Json told = choice(text, part.text, logprobs_of(part.scores, offsets_[text]), part.end);
    tell_state(text, told);
    return chunk(Json::array({std::move(told)}), nullptr);
  }
  std::string closing() override {
    const std::string done = "data: [DONE]\n\n";
    return completion_.tells_usage ? chunk(Json::array(), usage().json()) + done : done;
  }

  /// The best of those that were tried for one prompt: highest mean of logarithms.
  std::vector<std::size_t> best_of(std::size_t prompt) const {
    std::vector<std::size_t> order(completion_.tried);
    std::iota(order.begin(), order.end(), prompt * completion_.tried);
    const auto mean = [&](std::size_t text) {
      double sum = 0;
      std::size_t count = 0;
      const auto& scores = choices_[text].scores;
      for (std::size_t i = scores.size() - choices_[text].ids.size(); i < scores.size(); ++i, ++count)
        sum += static_cast<double>(scores[i].logprob.value_or(0));
      return count ? sum / static_cast<double>(count) : -1e30;
    };
    if (completion_.tried > completion_.choices)
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return mean(a) > mean(b); });
    order.resize(completion_.choices);
    return order;
  }
  HttpResponse whole() override {
    Json choices = Json::array();
    for (std::size_t prompt = 0; prompt < completion_.prompts.size(); ++prompt)
      for (const std::size_t each : best_of(prompt)) {
        std::size_t offset = 0;
        const std::string text = prompt_text(each) + choices_[each].text;
        Json told = choice(choices.size(), text, logprobs_of(choices_[each].scores, offset), choices_[each].end);
        tell_state(each, told);
        choices.push_back(std::move(told));
      }
    Json body = frame(std::move(choices));
    body["usage"] = usage().json();
    if (choices_.size() == 1) body["timings"] = internal::timings_of(choices_[0].times);
    return internal::json_response(body);
  }

  const Completion completion_;
  const std::shared_ptr<ServedModel> model_;
  const std::string id_ = internal::fresh_id("cmpl-"), fingerprint_;
  const std::int64_t created_ = internal::unix_time();
  std::vector<std::size_t> offsets_;
};

Result<Completion> read(TextCall& call) {
  JsonReader& body = call.body;
  Completion out;
  models::TextRequest& text = out.text;
  WEFT_CHECK(internal::read_sampling(body, internal::Dialect::openai, *call.model, text));
  WEFT_TRY(out.echoes, boolean_or(body, "echo", false));
  WEFT_TRY(text.most_tokens,
           natural_or(body, "max_tokens", 16, out.echoes ? 0 : 1, models::GenerateOptions::kMostTokens));
  WEFT_TRY(out.choices, natural_or(body, "n", 1, 1, internal::kMostChoices));
  WEFT_TRY(out.tried, natural_or(body, "best_of", out.choices, out.choices, kMostTried));
  WEFT_CHECK(internal::read_stream(body, out.streams, out.tells_usage));
  if (out.streams && out.tried > out.choices)
    return fail(Errc::invalid_argument, "best_of: more than n cannot be streamed");
  if (given(body, "suffix")) return fail(Errc::unsupported, "suffix: texts are only written onwards");
  if (given(body, "logprobs")) {
    WEFT_TRY(out.logprobs, natural_or(body, "logprobs", 0, 0, internal::kMostLogprobs));
    text.likeliest = *out.logprobs;
    text.scores_prompt = out.echoes;
  }
  WEFT_TRY(text.grammar, internal::read_format(body));
  text.scores = out.logprobs.has_value() || out.tried > out.choices;
  WEFT_TRY(const JsonValue prompt, body.value("prompt"));
  WEFT_TRY(out.prompts, internal::read_prompts(prompt, *call.model, kMostTexts));
  if (out.prompts.size() * out.tried > kMostTexts)
    return fail(Errc::invalid_argument, "prompt: " + std::to_string(out.prompts.size()) + " prompts, each tried " +
                                            std::to_string(out.tried) + " times, are more than " +
                                            std::to_string(kMostTexts) + " texts");
  return out;
}

std::optional<HttpResponse> complete(TextCall& call) {
  auto completion = read(call);
  if (!completion) return internal::refusal_of(completion.error());
  TextJob job;
  job.exchange = call.exchange;
  for (const internal::Prompt& prompt : completion->prompts)
    for (std::size_t i = 0; i < completion->tried; ++i) {
      models::TextRequest& text = job.texts.emplace_back(completion->text);
      text.prompt = prompt.tokens;
      text.sampler.seed += i;
      if (auto refusal = internal::unfit(*call.model, text)) return refusal;
    }
  job.receiver = std::make_shared<CompletionAnswer>(call, *std::move(completion));
  call.model->submit(std::move(job));
  return std::nullopt;
}

}  // namespace

void add_completion_routes(Router& router, LanguageContext& context) {
  router.add({"POST", "/v1/completions", Route::Body::json, false, true, internal::on_model(context, complete)});
}

}  // namespace weft::server
