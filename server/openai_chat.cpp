// SPDX-License-Identifier: Apache-2.0
// POST /v1/chat/completions, and llama.cpp's /apply-template.

#include "models/chat_format.hpp"
#include "server/internal/chat_call.hpp"
#include "server/internal/text_call.hpp"
#include "server/internal/text_format.hpp"
#include "server/internal/token_text.hpp"
#include "server/internal/tool_calls.hpp"
#include "server/language_api.hpp"

#include <utility>

namespace weft::server {
namespace {

using internal::boolean_or;
using internal::finish_reason;
using internal::given;
using internal::natural_or;
using internal::TextCall;
using models::TextChunk;

/// Content of a request.
struct Chat {
  models::TextRequest text;  // with its prompt
  std::size_t choices = 1;
  bool streams = false, tells_usage = false, tells_logprobs = false;
  internal::ChatTools tools;
};

class ChatAnswer final : public internal::TextAnswer {
 public:
  ChatAnswer(const TextCall& call, Chat chat)
      : TextAnswer(call.exchange, chat.choices, {chat.streams, chat.text.wants_state}),
        chat_(std::move(chat)),
        model_(call.model),
        fingerprint_(internal::fingerprint(call)),
        calls_(chat_.choices, internal::ToolCallReader(chat_.tools.must_call)) {}

 private:
  Json frame(const char* object, Json choices) const {
    return {{"id", id_},
            {"object", object},
            {"created", created_},
            {"model", model_->name()},
            {"system_fingerprint", fingerprint_},
            {"choices", std::move(choices)}};
  }
  Json token(text::TokenId id, float logprob) const {
    const std::string bytes = internal::token_bytes(model_->tokenizer(), id);
    return {{"token", bytes}, {"logprob", logprob}, {"bytes", internal::byte_list(bytes)}};
  }
  Json logprobs_of(const std::vector<models::TokenScore>& scores) const {
    if (!chat_.tells_logprobs) return {};
    Json content = Json::array();
    for (const models::TokenScore& score : scores) {
      Json each = token(score.id, score.logprob.value_or(0));
      Json top = Json::array();
      for (const auto& likely : score.likeliest) top.push_back(token(likely.id, likely.logprob));
      each["top_logprobs"] = std::move(top);
      content.push_back(std::move(each));
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
  }
  internal::Usage usage() const {
    internal::Usage usage;
    usage.prompt = chat_.text.prompt.size();
    usage.cached = choices_[0].times.cached;
    for (const Choice& each : choices_) usage.written += each.times.written;
    return usage;
  }
  std::string chunk(Json choices, Json usage) const {
    Json body = frame("chat.completion.chunk", std::move(choices));
    if (chat_.tells_usage) body["usage"] = std::move(usage);
    return event(body);
  }
  std::string chunk(std::size_t index, Json delta, Json logprobs, Json reason) const {
    Json choice{{"index", index},
                {"delta", std::move(delta)},
                {"logprobs", std::move(logprobs)},
                {"finish_reason", std::move(reason)}};
    tell_state(index, choice);
    return chunk(Json::array({std::move(choice)}), nullptr);
  }

  std::string opening() override {
    std::string all;
    for (std::size_t i = 0; i < choices_.size(); ++i)
      all += chunk(i, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
    return all;
  }
  /// The calls of a text that has ended.
  Json calls_of(const internal::ToolCallReader& reader, bool is_stream) const {
    Json all = Json::array();
    for (const internal::ToolCall& each : reader.calls()) {
      Json one = is_stream ? Json{{"index", all.size()}} : Json::object();
      one["id"] = internal::fresh_id("call_");
      one["type"] = "function";
      one["function"] = {{"name", each.name}, {"arguments", each.arguments}};
      all.push_back(std::move(one));
    }
    return all;
  }
  static const char* reason_of(TextChunk::End end, const internal::ToolCallReader& reader) {
    return reader.calls().empty() ? finish_reason(end) : "tool_calls";
  }
  std::string events(std::size_t text, const TextChunk& part) override {
    internal::ToolCallReader& reader = calls_[text];
    const bool is_last = part.end != TextChunk::End::none;
    std::string content = part.text;
    if (chat_.tools.is_on()) {
      content = reader.push(part.text);
      if (is_last) content += reader.finish();
    }
    std::string all;
    if (!content.empty() || (chat_.tells_logprobs && !part.scores.empty()))
      all = chunk(text, {{"content", content}}, logprobs_of(part.scores), nullptr);
    if (!is_last) return all;
    if (!reader.calls().empty()) all += chunk(text, {{"tool_calls", calls_of(reader, true)}}, nullptr, nullptr);
    return all + chunk(text, Json::object(), nullptr, reason_of(part.end, reader));
  }
  std::string closing() override {
    const std::string done = "data: [DONE]\n\n";
    return chat_.tells_usage ? chunk(Json::array(), usage().json()) + done : done;
  }
  HttpResponse whole() override {
    Json choices = Json::array();
    for (const Choice& each : choices_) {
      internal::ToolCallReader& reader = calls_[choices.size()];
      Json message{{"role", "assistant"}, {"content", each.text}, {"refusal", nullptr}};
      if (chat_.tools.is_on()) {
        const std::string before = reader.push(each.text), content = before + reader.finish();
        message["content"] = content.empty() && !reader.calls().empty() ? Json() : Json(content);
        if (!reader.calls().empty()) message["tool_calls"] = calls_of(reader, false);
      }
      Json choice{{"index", choices.size()},
                  {"message", std::move(message)},
                  {"logprobs", logprobs_of(each.scores)},
                  {"finish_reason", reason_of(each.end, reader)}};
      tell_state(choices.size(), choice);
      choices.push_back(std::move(choice));
    }
    Json body = frame("chat.completion", std::move(choices));
    body["usage"] = usage().json();
    if (choices_.size() == 1) body["timings"] = internal::timings_of(choices_[0].times);
    return internal::json_response(body);
  }

  const Chat chat_;
  const std::shared_ptr<ServedModel> model_;
  const std::string id_ = internal::fresh_id("chatcmpl-"), fingerprint_;
  const std::int64_t created_ = internal::unix_time();
  std::vector<internal::ToolCallReader> calls_;
};

/// Refuses fields that would change an answer and are not known.
Status check_known(JsonReader& body) {
  const auto refuse = [](const std::string& text) { return fail(Errc::unsupported, text); };
  const auto functions = given(body, "functions");
  if (functions && !functions->raw().empty()) return refuse("functions: was replaced by tools, which are read");
  if (const auto modalities = given(body, "modalities"); modalities && modalities->raw().size() > 1)
    return refuse("modalities: only text is written");
  return {};
}

Failure no_template(const ServedModel& model) {
  const std::string& refused = model.model().chat.refused;
  const std::string why =
      refused.empty() ? "it has no chat template" : "its chat template is not understood: " + refused;
  return fail(Errc::unsupported, "model '" + model.name() + "': " + why + "; start the server with --chat-template");
}

/// Tokens of a conversation. What messages say stays text: only the template writes special tokens.
Result<std::vector<text::TokenId>> tokens_of(const ServedModel& model, text::ChatInput input) {
  const models::ChatFormat& format = model.model().chat;
  if (!format.chat) return no_template(model);
  WEFT_TRY(auto tokens, models::encode_chat(format, model.tokenizer(), std::move(input)));
  if (tokens.empty()) return fail(Errc::invalid_argument, "messages: they make no tokens");
  return tokens;
}

Result<Chat> read_chat_request(TextCall& call) {
  JsonReader& body = call.body;
  Chat chat;
  models::TextRequest& text = chat.text;
  WEFT_CHECK(check_known(body));
  WEFT_CHECK(internal::read_sampling(body, internal::Dialect::openai, *call.model, text));
  const char* const bound = given(body, "max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
  WEFT_TRY(text.most_tokens,
           natural_or(body, bound, call.model->description().context, 1, models::GenerateOptions::kMostTokens));
  WEFT_TRY(chat.choices, natural_or(body, "n", 1, 1, internal::kMostChoices));
  WEFT_CHECK(internal::read_stream(body, chat.streams, chat.tells_usage));
  WEFT_TRY(chat.tells_logprobs, boolean_or(body, "logprobs", false));
  WEFT_TRY(text.likeliest, natural_or(body, "top_logprobs", 0, 0, internal::kMostLogprobs));
  if (text.likeliest > 0 && !chat.tells_logprobs)
    return fail(Errc::invalid_argument, "top_logprobs: needs \"logprobs\": true");
  text.scores = chat.tells_logprobs;
  WEFT_TRY(text::ChatInput input, internal::read_chat(body));
  const models::ChatFormat& spelled = call.model->model().chat;
  const auto& chat_template = spelled.tools ? spelled.tools : spelled.chat;
  WEFT_TRY(chat.tools, internal::read_tools(body, chat_template ? &*chat_template : nullptr));
  WEFT_TRY(text.grammar, internal::read_format(body));
  if (text.grammar && chat.tools.is_on())
    return fail(Errc::invalid_argument, "response_format: a text that may be a call of a tool follows no other format");
  if (chat.tools.grammar) text.grammar = chat.tools.grammar;
  if (chat.tools.is_on()) input.tools = chat.tools.offered;
  WEFT_TRY(text.prompt, tokens_of(*call.model, std::move(input)));
  return chat;
}

std::optional<HttpResponse> complete_chat(TextCall& call) {
  auto chat = read_chat_request(call);
  if (!chat) return internal::refusal_of(chat.error());
  if (auto refusal = internal::unfit(*call.model, chat->text)) return refusal;
  TextJob job;
  job.exchange = call.exchange;
  for (std::size_t i = 0; i < chat->choices; ++i) job.texts.emplace_back(chat->text).sampler.seed += i;
  job.receiver = std::make_shared<ChatAnswer>(call, *std::move(chat));
  call.model->submit(std::move(job));
  return std::nullopt;
}

Result<std::string> render(TextCall& call) {
  const models::ChatFormat& format = call.model->model().chat;
  if (!format.chat) return no_template(*call.model);
  WEFT_TRY(text::ChatInput input, internal::read_chat(call.body));
  input.bos = format.bos, input.eos = format.eos, input.tokens = format.tokens;
  if (const auto tools = given(call.body, "tools"); tools && tools->is_array()) input.tools = tools->raw();
  return (input.tools.is_array() && format.tools ? *format.tools : *format.chat).render(input);
}

std::optional<HttpResponse> apply_template(TextCall& call) {
  const auto text = render(call);
  return text ? internal::json_response({{"prompt", *text}}) : internal::refusal_of(text.error());
}

}  // namespace

void add_chat_routes(Router& router, LanguageContext& context) {
  const auto post = [&](const char* path, internal::ReadText read_request) {
    router.add({"POST", path, Route::Body::json, false, true, internal::on_model(context, std::move(read_request))});
  };
  for (const char* path : {"/v1/chat/completions", "/chat/completions"}) post(path, complete_chat);
  post("/apply-template", apply_template);
}

}  // namespace weft::server
