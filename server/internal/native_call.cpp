// SPDX-License-Identifier: Apache-2.0

#include "server/internal/native_call.hpp"

namespace weft::server::internal {

HttpResponse answer_of(Json body, std::uint64_t tick, std::uint64_t weight_version, int status) {
  HttpResponse response;
  response.status = status;
  response.body = body.dump(Json::Order::as_set);
  response.headers.push_back({"X-Weft-Tick", std::to_string(tick)});
  response.headers.push_back({"X-Weft-Weight-Version", std::to_string(weight_version)});
  return response;
}

ServedMesh::Answer answer_of(const LiveMesh& mesh, Json body, bool waits, int status) {
  auto shared = std::make_shared<Json>(std::move(body));
  return {[shared, tick = mesh.mesh().ticks(), version = mesh.state().weight_version, status] {
            return answer_of(std::move(*shared), tick, version, status);
          },
          waits};
}

MeshPointer find_mesh(NativeContext& context, const Call& call) {
  auto found = context.meshes.find(call.parameter(0));
  if (found) return *found;
  call.exchange->respond(error_response(found.error()));
  return nullptr;
}

Result<Json> read_body(const HttpRequest& request) {
  if (request.body.empty()) return Json::object();
  WEFT_TRY(Json json, parse_body(request.body));
  if (!json.is_object()) return fail(Errc::parse_failed, "body: expected an object");
  return json;
}

Result<bool> read_wait(JsonReader& reader) {
  WEFT_TRY(const std::string wait, reader.string_or("wait", "applied"));
  if (wait == "durable") return true;
  if (wait == "applied") return false;
  return fail(Errc::unknown_name, reader.path_of("wait") + ": '" + wait + "' is none of applied, durable");
}

std::function<void(Call)> on_mesh(NativeContext& context, Prepare prepare) {
  return [&context, prepare = std::move(prepare)](Call call) {
    const MeshPointer mesh = find_mesh(context, call);
    if (!mesh) return;
    auto act = prepare(call, *mesh);
    if (!act) return call.exchange->respond(unreadable(act.error()));
    const bool changes = call.request().method != "GET" && call.request().method != "HEAD";
    ExchangePointer exchange = changes ? context.idempotency.admit(call.exchange) : call.exchange;
    if (exchange) mesh->submit(std::move(exchange), *std::move(act));
  };
}

}  // namespace weft::server::internal
