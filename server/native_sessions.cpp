// SPDX-License-Identifier: Apache-2.0
// Sessions of a mesh.

#include "server/internal/native_call.hpp"
#include "server/native_api.hpp"

#include "core/bytes.hpp"

#include <utility>

namespace weft::server {
namespace {

using internal::answer_of;
using internal::on_mesh;
using internal::read_body;

constexpr std::size_t kMostSessions = 4096;  // of one mesh

ByteSpan bytes_of(const std::string& text) { return {reinterpret_cast<const std::byte*>(text.data()), text.size()}; }

Json session_json(const LiveMesh& live, std::string_view name, std::size_t lane) {
  return {{"session", name}, {"lane", lane}, {"tick", live.mesh().ticks()}};
}

Status check_room(const LiveMesh& live) {
  if (live.mesh().sessions() < kMostSessions) return {};
  return fail(Errc::full, "sessions: this mesh has " + std::to_string(kMostSessions) + ", the most there may be");
}

Result<ServedMesh::Act> prepare_add(const Call& call, const ServedMesh&) {
  WEFT_TRY(const Json body, read_body(call.request()));
  WEFT_TRY(JsonReader reader, JsonReader::open(body));
  WEFT_TRY(const std::string name, reader.string("name", 128));
  WEFT_TRY(const std::string from, reader.string_or("from", "zero", 256));
  WEFT_CHECK(reader.finish());
  if (!is_plain_name(name)) return fail(Errc::invalid_argument, "name: '" + name + "' is no plain name");
  if (from != "zero" && !from.starts_with("clone:"))
    return fail(Errc::unknown_name, "from: '" + from + "' is none of zero, clone:NAME");
  return ServedMesh::Act([name, from](LiveMesh& live) -> Result<ServedMesh::Answer> {
    WEFT_CHECK(check_room(live));
    std::size_t lane = 0;
    if (from == "zero") {
      WEFT_TRY(lane, live.add_session(name));
    } else {
      WEFT_TRY(const ByteBuffer file, live.save_session(from.substr(std::string_view("clone:").size())));
      WEFT_TRY(lane, live.attach_session(name, file));
    }
    return answer_of(live, session_json(live, name, lane), false, 201);
  });
}

Result<ServedMesh::Act> prepare_remove(const Call& call, const ServedMesh&) {
  return ServedMesh::Act([name = call.parameter(1)](LiveMesh& live) -> Result<ServedMesh::Answer> {
    WEFT_CHECK(live.remove_session(name));
    return answer_of(live, {{"tick", live.mesh().ticks()}});
  });
}

Result<ServedMesh::Act> prepare_reset(const Call& call, const ServedMesh&) {
  return ServedMesh::Act([name = call.parameter(1)](LiveMesh& live) -> Result<ServedMesh::Answer> {
    WEFT_CHECK(live.reset_session(name));
    return answer_of(live, {{"tick", live.mesh().ticks()}});
  });
}

Result<ServedMesh::Act> prepare_save(const Call& call, const ServedMesh&) {
  return ServedMesh::Act([name = call.parameter(1)](LiveMesh& live) -> Result<ServedMesh::Answer> {
    WEFT_TRY(const ByteBuffer file, live.save_session(name));
    auto text = std::make_shared<std::string>(reinterpret_cast<const char*>(file.data()), file.size());
    return ServedMesh::Answer{[text, tick = live.mesh().ticks(), version = live.state().weight_version] {
                                HttpResponse response = answer_of(Json::object(), tick, version);
                                response.content_type = "application/octet-stream";
                                response.body = std::move(*text);
                                return response;
                              },
                              false};
  });
}

Result<ServedMesh::Act> prepare_attach(const Call& call, const ServedMesh&) {
  const std::string& name = call.parameter(1);
  if (!is_plain_name(name)) return fail(Errc::invalid_argument, "session: '" + name + "' is no plain name");
  return ServedMesh::Act([name, file = call.request().body](LiveMesh& live) -> Result<ServedMesh::Answer> {
    WEFT_CHECK(check_room(live));
    WEFT_TRY(const std::size_t lane, live.attach_session(name, bytes_of(file)));
    return answer_of(live, session_json(live, name, lane), false, 201);
  });
}

Json listed(const MeshStatistics& statistics) {
  Json list = Json::array();
  for (std::size_t lane = 0; lane < statistics.sessions.size(); ++lane)
    list.push_back({{"session", statistics.sessions[lane]}, {"lane", lane}});
  return {{"sessions", std::move(list)}};
}

}  // namespace

void add_session_routes(Router& router, NativeContext& context) {
  const std::string sessions = "/api/v1/meshes/{mesh}/sessions", one = sessions + "/{session}";
  using Body = Route::Body;
  router.add({"GET", sessions, Body::none, false, false, [&context](Call call) {
                const auto found = internal::find_mesh(context, call);
                if (!found) return;
                const auto now = found->statistics();
                call.exchange->respond(answer_of(listed(*now), now->tick, now->weight_version));
              }});
  router.add({"POST", sessions, Body::json, false, true, on_mesh(context, prepare_add)});
  router.add({"DELETE", one, Body::none, false, true, on_mesh(context, prepare_remove)});
  router.add({"POST", one + "/reset", Body::json, false, true, on_mesh(context, prepare_reset)});
  router.add({"GET", one + "/state", Body::none, false, true, on_mesh(context, prepare_save)});
  router.add({"PUT", one + "/state", Body::json, false, true, on_mesh(context, prepare_attach)});
}

}  // namespace weft::server
