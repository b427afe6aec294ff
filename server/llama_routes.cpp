// SPDX-License-Identifier: Apache-2.0
// Properties, slots and tokenizer, as llama.cpp's server tells them.

#include "models/generation_config.hpp"
#include "server/internal/llama_settings.hpp"
#include "server/internal/text_call.hpp"
#include "server/internal/token_text.hpp"
#include "server/language_api.hpp"

#include <utility>

namespace weft::server {

Json internal::llama_settings(const models::TextRequest& text) {
  const models::SamplerOptions& draw = text.sampler;
  Json out{{"seed", draw.seed},
           {"temperature", draw.temperature},
           {"top_k", draw.top_k},
           {"top_p", draw.top_p},
           {"min_p", draw.min_p},
           {"typical_p", draw.typical_p},
           {"repeat_penalty", draw.repetition_penalty},
           {"repeat_last_n", draw.penalty_window == 0 ? Json(-1) : Json(draw.penalty_window)},
           {"presence_penalty", draw.presence_penalty},
           {"frequency_penalty", draw.frequency_penalty},
           {"stop", text.stops},
           {"n_predict", text.most_tokens},
           {"max_tokens", text.most_tokens},
           {"ignore_eos", text.ignores_ends},
           {"n_probs", text.likeliest}};
  for (const auto& each : models::kSamplerReals) out[each.name] = draw.steps.*each.value;
  for (const auto& each : models::kSamplerWholes) out[each.name] = draw.steps.*each.value;
  out["dry_sequence_breakers"] = draw.steps.dry_breakers;
  Json steps = Json::array();
  for (const models::SamplerStep step : draw.order) steps.push_back(std::string(models::name_of(step)));
  out["samplers"] = std::move(steps);
  return out;
}

namespace {

using internal::boolean_or;
using internal::json_response;
using internal::model_of_query;
using internal::TextCall;

constexpr std::size_t kLongestText = std::size_t{8} << 20;

void tell_properties(const LanguageContext& context, const Call& call) {
  const auto model = model_of_query(context, call);
  if (!model) return;
  const ModelDescription& is = model->description();
  const auto& chat = model->model().chat.chat;
  models::TextRequest usual;
  if (!model->preset().empty())
    if (auto draw = models::sampler_of_preset(model->preset(), model->model().generation))
      usual.sampler = *std::move(draw);
  Json slot{{"id", 0},
            {"id_task", -1},
            {"n_ctx", is.context},
            {"is_processing", false},
            {"params", internal::llama_settings(usual)}};
  call.exchange->respond(json_response({{"default_generation_settings", std::move(slot)},
                                        {"total_slots", is.slots * context.models.replicas(is.name).size()},
                                        {"model_alias", is.name},
                                        {"model_path", is.file},
                                        {"chat_template", chat ? chat->source() : std::string()},
                                        {"chat_template_caps", Json::object()},
                                        {"modalities", {{"vision", false}, {"audio", false}}},
                                        {"build_info", "weft-" + context.version},
                                        {"weft", internal::digests_of(context, *model)},
                                        {"is_sleeping", false}}));
}

void tell_slots(const LanguageContext& context, const Call& call) {
  const auto model = model_of_query(context, call);
  if (!model) return;
  std::vector<ModelStatistics::Slot> all;
  std::size_t busy = 0;
  for (const auto& each : context.models.replicas(model->name())) {
    const auto now = each->statistics();
    all.insert(all.end(), now->slots.begin(), now->slots.end());
    busy += now->busy;
  }
  const auto query = parse_query(call.request().query);
  if (query && query->contains("fail_on_no_slot") && busy == all.size())
    return call.exchange->respond(internal::response_of({503, "no slot available"}));
  Json slots = Json::array();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [state, task] = all[i];
    const bool writes = state.is_busy && !state.is_reading;
    const auto left = static_cast<std::int64_t>(state.most_tokens) - static_cast<std::int64_t>(state.written);
    slots.push_back({{"id", i},
                     {"id_task", task ? Json(task) : Json(-1)},
                     {"n_ctx", model->description().context},
                     {"is_processing", state.is_busy},
                     {"n_past", state.position},
                     {"params", Json::object()},
                     {"next_token", {{"has_next_token", writes}, {"n_remain", left}, {"n_decoded", state.written}}}});
  }
  call.exchange->respond(json_response(slots));
}

Result<Json> tokenize(TextCall& call) {
  WEFT_TRY(const JsonValue content, call.body.value("content"));
  WEFT_TRY(const std::string text, content.string(kLongestText));
  text::EncodeOptions options;
  WEFT_TRY(options.add_special, boolean_or(call.body, "add_special", false));
  WEFT_TRY(options.parse_special, boolean_or(call.body, "parse_special", true));
  WEFT_TRY(const bool with_pieces, boolean_or(call.body, "with_pieces", false));
  const text::Tokenizer& tokenizer = call.model->tokenizer();
  WEFT_TRY(const auto ids, tokenizer.encode(text, options));
  if (!with_pieces) return Json{{"tokens", ids}};
  Json tokens = Json::array();
  for (const text::TokenId id : ids) {
    const std::string bytes = internal::token_bytes(tokenizer, id);
    const bool is_text = internal::is_text(bytes);
    tokens.push_back({{"id", id}, {"piece", is_text ? Json(bytes) : internal::byte_list(bytes)}});
  }
  return Json{{"tokens", std::move(tokens)}};
}

Result<Json> detokenize(TextCall& call) {
  WEFT_TRY(const JsonValue tokens, call.body.value("tokens"));
  WEFT_TRY(const auto list, tokens.array());
  std::vector<text::TokenId> ids;
  for (const JsonValue& each : list) {
    WEFT_TRY(ids.emplace_back(), each.u32());
  }
  return Json{{"content", call.model->tokenizer().decode(ids)}};
}

std::function<void(Call)> answered_by(LanguageContext& context, Result<Json> (*make)(TextCall&)) {
  return internal::on_model(context, [make](TextCall& call) -> std::optional<HttpResponse> {
    const auto made = make(call);
    return made ? json_response(*made) : internal::refusal_of(made.error());
  });
}

}  // namespace

void add_llama_routes(Router& router, LanguageContext& context) {
  using Body = Route::Body;
  router.add({"GET", "/props", Body::none, false, false, [&context](Call call) { tell_properties(context, call); }});
  router.add({"GET", "/slots", Body::none, false, false, [&context](Call call) { tell_slots(context, call); }});
  const auto refuse = [&](const char* path, const char* why) {
    router.add({"POST", path, Body::json, false, true, [why](Call call) {
                  call.exchange->respond(internal::response_of({501, why}));
                }});
  };
  refuse("/props", "properties cannot be changed while the server runs");
  refuse("/slots/{slot}", "slots are not saved; sessions of meshes are: /api/v1/meshes/{mesh}/sessions");
  router.add({"POST", "/tokenize", Body::json, false, true, answered_by(context, tokenize)});
  router.add({"POST", "/detokenize", Body::json, false, true, answered_by(context, detokenize)});
}

}  // namespace weft::server
