// SPDX-License-Identifier: Apache-2.0
// POST /completion, as llama.cpp's server has it.

#include "server/internal/llama_settings.hpp"
#include "server/internal/text_call.hpp"
#include "server/internal/text_format.hpp"
#include "server/internal/token_text.hpp"
#include "server/language_api.hpp"

#include <utility>

namespace weft::server {
namespace {

using internal::boolean_or;
using internal::given;
using internal::natural_or;
using internal::TextCall;
using models::TextChunk;

constexpr std::size_t kMostPrompts = 2048, kMostProbabilities = 100;

/// Content of a request.
struct LlamaRequest {
  std::vector<internal::Prompt> prompts;
  models::TextRequest text;  // all of a text but its prompt
  bool streams = false, tells_tokens = false, tells_usage = false;
};

const char* stop_type(TextChunk::End end) {
  switch (end) {
    case TextChunk::End::end:
      return "eos";
    case TextChunk::End::stop:
      return "word";
    case TextChunk::End::length:
      return "limit";
    default:
      return "none";
  }
}

class LlamaAnswer final : public internal::TextAnswer {
 public:
  LlamaAnswer(const TextCall& call, LlamaRequest request)
      : TextAnswer(call.exchange, request.prompts.size(), {request.streams, request.text.wants_state}),
        request_(std::move(request)),
        model_(call.model),
        written_(choices_.size()) {}

 private:
  Json token(text::TokenId id, float logprob) const {
    const std::string bytes = internal::token_bytes(model_->tokenizer(), id);
    return {{"id", id}, {"token", bytes}, {"bytes", internal::byte_list(bytes)}, {"logprob", logprob}};
  }
  Json probabilities(const std::vector<models::TokenScore>& scores) const {
    Json list = Json::array();
    for (const auto& score : scores) {
      Json each = token(score.id, score.logprob.value_or(0));
      Json top = Json::array();
      for (const auto& likely : score.likeliest) top.push_back(token(likely.id, likely.logprob));
      each["top_logprobs"] = std::move(top);
      list.push_back(std::move(each));
    }
    return list;
  }
  Json last(std::size_t text, const std::string& content, const std::vector<text::TokenId>& tokens) const {
    const Choice& choice = choices_[text];
    const internal::Prompt& prompt = request_.prompts[text];
    Json body{{"index", text},
              {"content", content},
              {"tokens", tokens},
              {"id_slot", -1},
              {"stop", true},
              {"model", model_->name()},
              {"tokens_predicted", choice.times.written},
              {"tokens_evaluated", choice.times.prompt},
              {"generation_settings", internal::llama_settings(request_.text)},
              {"prompt", prompt.text.empty() ? model_->tokenizer().decode(prompt.tokens) : prompt.text},
              {"has_new_line", choice.text.find('\n') != std::string::npos},
              {"truncated", false},
              {"stop_type", stop_type(choice.end)},
              {"stopping_word", choice.stop},
              {"tokens_cached", choice.times.prompt + choice.times.written},
              {"timings", internal::timings_of(choice.times)}};
    tell_state(text, body);
    return body;
  }

  std::string events(std::size_t text, const TextChunk& part) override {
    const bool is_last = part.end != TextChunk::End::none;
    written_[text] += part.ids.size();
    Json body;
    if (is_last)
      body = last(text, part.text, part.ids);
    else
      body = {{"index", text},
              {"content", part.text},
              {"tokens", part.ids},
              {"stop", false},
              {"id_slot", -1},
              {"tokens_predicted", written_[text]},
              {"tokens_evaluated", request_.prompts[text].tokens.size()}};
    if (request_.text.scores) body["completion_probabilities"] = probabilities(part.scores);
    return event(body);
  }
  HttpResponse whole() override {
    Json all = Json::array();
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      Json body = last(i, choices_[i].text, request_.tells_tokens ? choices_[i].ids : std::vector<text::TokenId>());
      if (request_.text.scores) body["completion_probabilities"] = probabilities(choices_[i].scores);
      all.push_back(std::move(body));
    }
    return internal::json_response(choices_.size() == 1 ? all.front() : all);
  }

  const LlamaRequest request_;
  const std::shared_ptr<ServedModel> model_;
  std::vector<std::size_t> written_;
};

Result<LlamaRequest> read_llama(TextCall& call) {
  JsonReader& body = call.body;
  LlamaRequest out;
  models::TextRequest& text = out.text;
  WEFT_CHECK(internal::read_sampling(body, internal::Dialect::llama, *call.model, text));
  // As many as the context holds, where none or -1 is given.
  text.most_tokens = call.model->description().context;
  const char* const key = given(body, "n_predict") ? "n_predict" : "max_tokens";
  const auto most = given(body, key);
  if (most && !(most->raw().is_integer() && !most->raw().is_natural())) {
    WEFT_TRY(text.most_tokens, most->u64(0, models::GenerateOptions::kMostTokens));
  }
  WEFT_CHECK(internal::read_stream(body, out.streams, out.tells_usage));
  WEFT_TRY(out.tells_tokens, boolean_or(body, "return_tokens", false));
  WEFT_TRY(text.likeliest, natural_or(body, "n_probs", 0, 0, kMostProbabilities));
  text.scores = text.likeliest > 0;
  WEFT_TRY(text.grammar, internal::read_format(body));
  WEFT_TRY(const JsonValue prompt, body.value("prompt"));
  WEFT_TRY(out.prompts, internal::read_prompts(prompt, *call.model, kMostPrompts));
  return out;
}

std::optional<HttpResponse> complete_llama(TextCall& call) {
  auto request = read_llama(call);
  if (!request) return internal::refusal_of(request.error());
  TextJob job;
  job.exchange = call.exchange;
  for (const internal::Prompt& prompt : request->prompts) {
    models::TextRequest& text = job.texts.emplace_back(request->text);
    text.prompt = prompt.tokens;
    if (auto refusal = internal::unfit(*call.model, text)) return refusal;
  }
  job.receiver = std::make_shared<LlamaAnswer>(call, *std::move(request));
  call.model->submit(std::move(job));
  return std::nullopt;
}

}  // namespace

void add_llama_completion_routes(Router& router, LanguageContext& context) {
  for (const char* path : {"/completion", "/completions"})
    router.add({"POST", path, Route::Body::json, false, true, internal::on_model(context, complete_llama)});
}

}  // namespace weft::server
