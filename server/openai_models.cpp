// SPDX-License-Identifier: Apache-2.0
// The list of all that is served, as OpenAI's clients and llama.cpp's read it.

#include "server/internal/text_call.hpp"
#include "server/language_api.hpp"

#include <utility>

namespace weft::server {
namespace {

using internal::json_response;

Json entry(const std::string& name, std::int64_t created, Json meta) {
  return {{"id", name}, {"object", "model"}, {"created", created}, {"owned_by", "weft"}, {"meta", std::move(meta)}};
}

Json entry_of(const ServedModel& model) {
  const ModelDescription& is = model.description();
  Json capabilities = Json::array({"completion", "embeddings"});
  if (model.model().chat.chat) capabilities.push_back("chat");
  return entry(is.name, is.created,
               {{"n_vocab", is.vocabulary},
                {"n_ctx", is.context},
                {"n_ctx_train", is.trained_context},
                {"n_embd", is.width},
                {"n_params", is.parameters},
                {"size", is.bytes},
                {"capabilities", std::move(capabilities)}});
}

Json entry_of(const ServedMesh& mesh) {
  const MeshDescription& is = mesh.description();
  Json capabilities = Json::array({"mesh"});
  if (is.inputs.size() == 1 && is.outputs.size() == 1) capabilities.push_back("embeddings");
  return entry(is.name, 0,
               {{"n_embd", is.outputs.empty() ? 0 : is.outputs[0].width},
                {"size", mesh.statistics()->weight_bytes},
                {"capabilities", std::move(capabilities)}});
}

void list(const LanguageContext& context, const Call& call) {
  Json data = Json::array();
  for (const auto& each : context.models.all()) data.push_back(entry_of(*each));
  for (const auto& each : context.meshes.all()) data.push_back(entry_of(*each));
  call.exchange->respond(json_response({{"object", "list"}, {"data", std::move(data)}}));
}

void one(const LanguageContext& context, const Call& call) {
  const std::string& name = call.parameter(0);
  if (const auto model = context.models.find(name)) return call.exchange->respond(json_response(entry_of(*model)));
  if (const auto mesh = context.meshes.find(name)) return call.exchange->respond(json_response(entry_of(**mesh)));
  call.exchange->respond(internal::response_of(
      {404, "model '" + name.substr(0, 128) + "': none of this name is served", "model", "model_not_found"}));
}

}  // namespace

void add_model_routes(Router& router, LanguageContext& context) {
  using Body = Route::Body;
  for (const char* path : {"/v1/models", "/models"})
    router.add({"GET", path, Body::none, false, false, [&context](Call call) { list(context, call); }});
  router.add({"GET", "/v1/models/{model}", Body::none, false, false, [&context](Call call) { one(context, call); }});
}

}  // namespace weft::server
