// SPDX-License-Identifier: Apache-2.0
// Names of SGLang's server, for those who drive generation from a training loop.

#include "server/internal/text_call.hpp"
#include "server/language_api.hpp"

#include <utility>

namespace weft::server {
namespace {

using internal::json_response;

void tell_model(const LanguageContext& context, const Call& call) {
  const auto model = internal::model_of_query(context, call);
  if (!model) return;
  const ModelDescription& is = model->description();
  call.exchange->respond(json_response({{"model_path", is.file},
                                        {"served_model_name", is.name},
                                        {"is_generation", true},
                                        {"weight_version", "1"},
                                        {"max_model_len", is.context}}));
}

/// All models, or the one that the query names.
std::vector<std::shared_ptr<ServedModel>> models_of(const LanguageContext& context, const Call& call) {
  const auto query = parse_query(call.request().query);
  if (query && query->contains("model")) return context.models.replicas(query->find("model")->second);
  return context.models.all_replicas();
}

void flush(const LanguageContext& context, const Call& call) {
  for (const auto& each : models_of(context, call)) each->forget();
  call.exchange->respond(json_response({{"success", true}, {"message", "Cache flushed."}}));
}

Result<std::string> read_label(const HttpRequest& request) {
  WEFT_TRY(const Json json, parse_json(request.body.empty() ? "{}" : request.body, "body"));
  WEFT_TRY(JsonReader body, JsonReader::open(json));
  WEFT_TRY(const bool all, internal::boolean_or(body, "abort_all", false));
  WEFT_TRY(std::string label, internal::string_or(body, "rid", "", 256));
  if (label.empty() != all)
    return fail(Errc::invalid_argument, "rid: give the id of one request, or \"abort_all\": true");
  return label;
}

void abort(const LanguageContext& context, const Call& call) {
  const auto label = read_label(call.request());
  if (!label) return call.exchange->respond(internal::refusal_of(label.error()));
  for (const auto& each : models_of(context, call)) each->abort(*label);
  call.exchange->respond(json_response({{"success", true}}));
}

Result<std::string> read_mode(const HttpRequest& request) {
  WEFT_TRY(const Json json, parse_json(request.body.empty() ? "{}" : request.body, "body"));
  WEFT_TRY(JsonReader body, JsonReader::open(json));
  WEFT_TRY(std::string mode, internal::string_or(body, "mode", "abort", 64));
  if (mode == "abort" || mode == "in_place") return mode;
  if (mode == "retract") return fail(Errc::unsupported, "mode: retract is not known; in_place lets texts go on");
  return fail(Errc::unknown_name, "mode: '" + mode + "' is none of abort, in_place");
}

void pause(const LanguageContext& context, const Call& call) {
  const auto mode = read_mode(call.request());
  if (!mode) return call.exchange->respond(internal::refusal_of(mode.error()));
  for (const auto& each : models_of(context, call)) {
    each->pause();
    if (*mode == "abort") each->abort("");
  }
  call.exchange->respond(json_response({{"message", "Generation paused successfully."}, {"status", "ok"}}));
}

void go_on(const LanguageContext& context, const Call& call) {
  for (const auto& each : models_of(context, call)) each->resume();
  call.exchange->respond(json_response({{"message", "Generation continued successfully."}, {"status", "ok"}}));
}

}  // namespace

void add_sglang_routes(Router& router, LanguageContext& context) {
  using Body = Route::Body;
  const auto add = [&](const char* method, const char* path, void (*handle)(const LanguageContext&, const Call&)) {
    const Body body = std::string_view(method) == "GET" ? Body::none : Body::json;
    router.add(
        {method, path, body, false, body == Body::json, [&context, handle](Call call) { handle(context, call); }});
  };
  for (const char* path : {"/get_model_info", "/model_info"}) add("GET", path, tell_model);
  add("POST", "/flush_cache", flush);
  add("POST", "/abort_request", abort);
  add("POST", "/pause_generation", pause);
  add("POST", "/continue_generation", go_on);
  for (const char* path :
       {"/update_weights_from_disk", "/update_weights_from_tensor", "/update_weights_from_distributed"})
    router.add(
        {"POST", path, Body::json, false, true, [](Call call) {
           call.exchange->respond(internal::response_of(
               {501, "weights of language models stay as they are; those of meshes: /api/v1/meshes/{mesh}/weights"}));
         }});
}

}  // namespace weft::server
