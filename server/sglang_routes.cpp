// SPDX-License-Identifier: Apache-2.0
// Names of SGLang's server, for those who drive generation from a training loop.

#include "server/internal/text_call.hpp"
#include "server/language_api.hpp"

#include "formats/entity/entity.hpp"
#include "storage/file_system.hpp"

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

// --- weights of meshes

struct Update {
  std::string mesh, path, label;
};

HttpResponse updated(bool is_done, std::string_view message, std::size_t waiting = 0) {
  return json_response({{"success", is_done}, {"message", message}, {"num_paused_requests", waiting}},
                       is_done ? 200 : 400);
}

Result<Update> read_update(const LanguageContext& context, const HttpRequest& request) {
  Update update;
  WEFT_TRY(const auto query, parse_query(request.query));
  if (const auto named = query.find("model"); named != query.end()) update.mesh = named->second;
  WEFT_TRY(const Json json, parse_json(request.body.empty() ? "{}" : request.body, "body"));
  WEFT_TRY(JsonReader body, JsonReader::open(json));
  WEFT_TRY(const std::string file, body.string("model_path", 128));
  WEFT_TRY(update.label, internal::string_or(body, "weight_version", "", 128));
  WEFT_TRY(update.mesh, internal::string_or(body, "model", update.mesh, 128));
  WEFT_TRY(const bool is_async, internal::boolean_or(body, "is_async", false));
  if (is_async) return fail(Errc::unsupported, "is_async: weights are replaced between two ticks");
  if (context.model_directory.empty()) return fail(Errc::invalid_argument, "model_path: the server has no --model-dir");
  if (!is_plain_name(file))
    return fail(Errc::invalid_argument, "model_path: '" + file + "' is no plain name of a file in --model-dir");
  update.path = context.model_directory + "/" + file;
  return update;
}

/// The mesh that is meant: the one that is named, or the only one where no language model is served.
Result<std::shared_ptr<ServedMesh>> mesh_of(const LanguageContext& context, const std::string& name) {
  constexpr const char* kStay = "weights of language models stay as they are; start a server with the others beside it";
  const bool is_model = name.empty() ? !context.models.all().empty() : context.models.find(name) != nullptr;
  if (is_model) return fail(Errc::unsupported, kStay);
  if (!name.empty()) return context.meshes.find(name);
  const auto meshes = context.meshes.all();
  if (meshes.size() == 1) return meshes.front();
  return fail(Errc::not_found, "model: " + std::to_string(meshes.size()) + " meshes are served, name one of them");
}

ServedMesh::Act replace_by(std::shared_ptr<const formats::EntityFile> file, const Update& update,
                           const std::shared_ptr<ServedMesh>& mesh) {
  return [file = std::move(file), label = update.label, mesh](LiveMesh& live) -> Result<ServedMesh::Answer> {
    if (const Status done = live.replace_weights(*file, label); !done)
      return ServedMesh::Answer{[why = done.error().text()] { return updated(false, why); }, false};
    const std::uint64_t version = live.state().weight_version;
    mesh->events().publish(
        "weights", "weights",
        {{"version", version}, {"previous", version - 1}, {"tick", live.mesh().ticks()}, {"op", "swap"}});
    return ServedMesh::Answer{[version, waiting = mesh->waiting()] {
                                return updated(true, "Weights are version " + std::to_string(version) + ".", waiting);
                              },
                              true};
  };
}

void update_weights(const LanguageContext& context, Call call) {
  if (context.meshes.all().empty() && !context.models.all().empty())
    return call.exchange->respond(internal::response_of({501, mesh_of(context, "").error().text()}));
  if (!context.allows_weights)
    return call.exchange->respond(error_response(
        403, "permission_error", "weights are changed only where the server runs with --allow-weight-update"));
  const auto update = read_update(context, call.request());
  if (!update) return call.exchange->respond(updated(false, update.error().text()));
  const auto mesh = mesh_of(context, update->mesh);
  if (!mesh && mesh.error().code() == Errc::unsupported)
    return call.exchange->respond(internal::response_of({501, mesh.error().text()}));
  if (!mesh) return call.exchange->respond(updated(false, mesh.error().text()));
  const bool taken = context.loader.submit([exchange = call.exchange, update = *update, mesh = *mesh] {
    auto file = formats::load_entity(storage::real_file_system(), update.path);
    if (!file) return exchange->respond(updated(false, "model_path: " + file.error().text()));
    mesh->submit(exchange, replace_by(std::make_shared<formats::EntityFile>(*std::move(file)), update, mesh));
  });
  if (!taken) call.exchange->respond(error_response(429, "rate_limit_error", "too many files wait to be loaded"));
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
  router.add({"POST", "/update_weights_from_disk", Body::json, false, true,
              [&context](Call call) { update_weights(context, std::move(call)); }});
  for (const char* path : {"/update_weights_from_tensor", "/update_weights_from_distributed"})
    router.add({"POST", path, Body::json, false, true, [](Call call) {
                  call.exchange->respond(internal::response_of(
                      {501, "weights come from files: /update_weights_from_disk, /api/v1/meshes/{mesh}/weights"}));
                }});
}

}  // namespace weft::server
