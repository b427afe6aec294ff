// SPDX-License-Identifier: Apache-2.0

#include "server/internal/text_call.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <new>
#include <random>
#include <utility>

namespace weft::server::internal {
namespace {

constexpr std::size_t kLongestPrompt = std::size_t{8} << 20;
constexpr std::size_t kLargeRequest = std::size_t{64} << 10;  // bytes above which requests wait for each other alone

const char* usual_type(int status) {
  switch (status) {
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 501:
      return "not_supported_error";
    case 503:
      return "unavailable_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

/// "stop[2]" of "stop[2]: found 3, expected a string": what an error's text begins with, where that is a key.
std::string param_of(const std::string& text) {
  const std::size_t end = text.find(": ");
  if (end == std::string::npos || end == 0 || end > 64) return {};
  const std::string param = text.substr(0, end);
  const bool is_key = std::all_of(param.begin(), param.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '[' || c == ']' || c == '.';
  });
  return is_key && param != "body" ? param : std::string();
}

}  // namespace

HttpResponse response_of(const Refusal& refusal) {
  HttpResponse response = error_response(refusal.status, usual_type(refusal.status), refusal.message, refusal.code);
  Json error{{"message", refusal.message},
             {"type", refusal.type.empty() ? usual_type(refusal.status) : refusal.type.c_str()},
             {"param", refusal.param.empty() ? Json() : Json(refusal.param)},
             {"code", refusal.code.empty() ? Json() : Json(refusal.code)}};
  for (const auto& [key, number] : refusal.numbers) error[key] = number;
  response.body = Json{{"error", std::move(error)}}.dump(Json::Order::as_set);
  return response;
}

HttpResponse refusal_of(const Error& error) {
  const bool is_ours = error.code() == Errc::internal || error.code() == Errc::storage;
  const int status = is_ours ? 500 : error.code() == Errc::unsupported ? 501 : 400;
  return response_of({status, error.text(), param_of(error.text()), std::string(name(error.code()))});
}

namespace {

/// On the thread that reads requests.
std::optional<HttpResponse> answer(LanguageContext& context, const ExchangePointer& exchange, const ReadText& read,
                                   bool takes_meshes) {
  const auto json = parse_json(exchange->request.body, "body");
  if (!json) return refusal_of(json.error());
  auto body = JsonReader::open(*json);
  if (!body) return refusal_of(Error(Errc::parse_failed, "body: expected an object"));
  const auto name = string_or(*body, "model", "", 4096);
  if (!name) return refusal_of(name.error());
  TextCall call{exchange, *body, context, nullptr, nullptr};
  if (!name->empty() && !context.models.find(*name))
    if (auto mesh = context.meshes.find(*name)) call.mesh = *std::move(mesh);
  if (call.mesh && !takes_meshes)
    return response_of({501,
                        "model '" + *name + "' is a mesh without a tokenizer; it answers /v1/embeddings and " +
                            "/api/v1/meshes/" + *name,
                        "model", "unsupported"});
  if (!call.mesh) {
    // OpenAI's name for requests that begin alike; ours for a conversation.
    const auto session = string_or(*body, body->find("session") ? "session" : "prompt_cache_key", "", 256);
    if (!session) return refusal_of(session.error());
    auto model = context.models.choose(*name, *session);
    if (!model) return response_of({name->empty() ? 400 : 404, model.error().text(), "model", "model_not_found"});
    call.model = *std::move(model);
  }
  return read(call);
}

std::function<void(Call)> on_worker(LanguageContext& context, ReadText read, bool takes_meshes) {
  return [&context, read = std::move(read), takes_meshes](Call call) {
    Worker& worker = call.exchange->request.body.size() > kLargeRequest ? context.large_worker : context.worker;
    const bool taken = worker.submit([&context, read, takes_meshes, exchange = call.exchange] {
      if (exchange->is_cancelled()) return;
      try {
        if (auto response = answer(context, exchange, read, takes_meshes)) exchange->respond(*std::move(response));
      } catch (const std::bad_alloc&) {
        exchange->respond(response_of({503, "not enough memory for this request"}));
      }
    });
    if (!taken) call.exchange->respond(response_of({429, "too many requests wait to be read; try again later"}));
  };
}

}  // namespace

std::function<void(Call)> on_model(LanguageContext& context, ReadText read) {
  return on_worker(context, std::move(read), false);
}

std::function<void(Call)> on_model_or_mesh(LanguageContext& context, ReadText read) {
  return on_worker(context, std::move(read), true);
}

Status read_stream(JsonReader& body, bool& streams, bool& tells_usage) {
  WEFT_TRY(streams, boolean_or(body, "stream", false));
  if (const auto options = given(body, "stream_options")) {
    WEFT_TRY(JsonReader reader, options->object());
    WEFT_TRY(tells_usage, boolean_or(reader, "include_usage", false));
  }
  return {};
}

namespace {

Result<std::vector<text::TokenId>> read_tokens(const JsonValue& value) {
  WEFT_TRY(const auto list, value.array(1));
  std::vector<text::TokenId> ids;
  ids.reserve(list.size());
  for (const JsonValue& each : list) {
    WEFT_TRY(ids.emplace_back(), each.u32());
  }
  return ids;
}

Result<Prompt> read_prompt(const JsonValue& value, const ServedModel& model) {
  Prompt prompt;
  if (value.is_array()) {
    WEFT_TRY(prompt.tokens, read_tokens(value));
    return prompt;
  }
  WEFT_TRY(prompt.text, value.string(kLongestPrompt));
  auto ids = model.tokenizer().encode(prompt.text);
  if (!ids) return fail(std::move(ids).error().within(value.path()));
  prompt.tokens = *std::move(ids);
  if (prompt.tokens.empty()) return fail(Errc::invalid_argument, value.path() + ": a text without tokens");
  return prompt;
}

}  // namespace

Result<std::vector<Prompt>> read_prompts(const JsonValue& value, const ServedModel& model, std::size_t most) {
  std::vector<Prompt> prompts;
  const Json& raw = value.raw();
  if (!raw.is_array() || (!raw.empty() && raw.front().is_number())) {
    WEFT_TRY(prompts.emplace_back(), read_prompt(value, model));
    return prompts;
  }
  WEFT_TRY(const auto list, value.array(1, most));
  for (const JsonValue& each : list) {
    WEFT_TRY(prompts.emplace_back(), read_prompt(each, model));
  }
  return prompts;
}

std::shared_ptr<ServedModel> model_of_query(const LanguageContext& context, const Call& call) {
  const auto refuse = [&](HttpResponse response) {
    call.exchange->respond(std::move(response));
    return nullptr;
  };
  const auto query = parse_query(call.request().query);
  if (!query) return refuse(refusal_of(query.error()));
  const auto name = query->find("model");
  const auto all = context.models.all();
  if (name == query->end() && !all.empty()) return all.front();
  auto model = context.models.choose(name == query->end() ? std::string() : name->second);
  if (model) return *std::move(model);
  return refuse(response_of({404, model.error().text(), "model", "model_not_found"}));
}

std::optional<HttpResponse> unfit(const ServedModel& model, const models::TextRequest& request) {
  if (request.priority != 0 && !model.takes_priorities())
    return response_of({400,
                        "priority: this server takes requests in the order in which they come; start it with " +
                            std::string("--scheduling-policy priority"),
                        "priority"});
  const Status fine = model.check(request);
  if (fine) return std::nullopt;
  if (fine.error().code() != Errc::full) return refusal_of(fine.error());
  return response_of({400,
                      fine.error().text(),
                      "",
                      "context_length_exceeded",
                      "invalid_request_error",
                      {{"n_prompt_tokens", request.prompt.size()}, {"n_ctx", model.description().context}}});
}

Json Usage::json() const {
  return {{"prompt_tokens", prompt},
          {"completion_tokens", written},
          {"total_tokens", prompt + written},
          {"prompt_tokens_details", {{"cached_tokens", cached}}}};
}

Json timings_of(const models::TextTimes& times) {
  const auto each = [](double seconds, std::size_t tokens) {
    return tokens ? seconds * 1000 / static_cast<double>(tokens) : 0.0;
  };
  const auto rate = [](double seconds, std::size_t tokens) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
  };
  const std::size_t read = times.prompt - times.cached;
  Json all{{"cache_n", times.cached},
           {"prompt_n", read},
           {"prompt_ms", times.prompt_seconds * 1000},
           {"prompt_per_token_ms", each(times.prompt_seconds, read)},
           {"prompt_per_second", rate(times.prompt_seconds, read)},
           {"predicted_n", times.written},
           {"predicted_ms", times.seconds * 1000},
           {"predicted_per_token_ms", each(times.seconds, times.written)},
           {"predicted_per_second", rate(times.seconds, times.written)}};
  if (times.guessed == 0) return all;
  all["draft_n"] = times.guessed;
  all["draft_n_accepted"] = times.guessed_right;
  return all;
}

std::string fresh_id(std::string_view prefix) {
  static const std::uint64_t kProcess = [] {
    std::random_device device;
    return (std::uint64_t{device()} << 32) | device();
  }();
  static std::atomic<std::uint64_t> next{0};
  char text[40];
  std::snprintf(text, sizeof text, "%016llx%08llx", static_cast<unsigned long long>(kProcess),
                static_cast<unsigned long long>(next.fetch_add(1, std::memory_order_relaxed)));
  return std::string(prefix) + text;
}

std::int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string fingerprint(const TextCall& call) {
  const models::ModelDigest& digest = call.model->description().digest;
  StateHasher both;
  both.add(digest.weights);
  both.add(digest.options);
  return "weft-" + call.context.version + "-wv1-" + to_string(both.digest()).substr(0, 16);
}

Json digests_of(const LanguageContext& context, const ServedModel& model) {
  const models::ModelDigest& digest = model.description().digest;
  return {{"version", context.version},
          {"model_digest", to_string(digest.weights)},
          {"options_digest", to_string(digest.options)}};
}

const char* finish_reason(models::TextChunk::End end) {
  return end == models::TextChunk::End::length ? "length" : "stop";
}

HttpResponse json_response(const Json& body, int status) {
  HttpResponse response;
  response.status = status;
  response.body = body.dump(Json::Order::as_set);
  return response;
}

}  // namespace weft::server::internal
