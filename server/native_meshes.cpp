// SPDX-License-Identifier: Apache-2.0
// Create, list, describe, delete meshes; their networks and files.

#include "server/internal/native_call.hpp"
#include "server/native_api.hpp"
#include "server/statistics_json.hpp"

#include "mesh/network/network_json.hpp"

#include "storage/file_system.hpp"

#include <new>
#include <utility>

namespace weft::server {
namespace {

using internal::answer_of;
using internal::on_mesh;
using internal::read_body;

HttpResponse plain(Json body, int status = 200) {
  HttpResponse response;
  response.status = status;
  response.body = body.dump(Json::Order::as_set);
  return response;
}

/// Content of a request to make a mesh.
struct Creation {
  std::string name;
  std::optional<mesh::NetworkSpec> network;
  std::string path;  // of an .entity file
  MeshTable::Making making;
};

Status read_making(JsonReader& reader, MeshTable::Making& making) {
  if (const auto sessions = reader.find("sessions")) {
    WEFT_TRY(making.sessions, sessions->u64(1, 4096));
  }
  if (const auto threads = reader.find("threads")) {
    WEFT_TRY(making.threads, threads->u64(0, 1024));
  }
  if (const auto has = reader.find("data_directory")) {
    WEFT_TRY(making.has_directory, has->boolean());
  }
  if (const auto durability = reader.find("durability")) {
    WEFT_TRY(const std::string text, durability->string(64));
    WEFT_TRY(making.durability, agent::parse_durability(text));
  }
  WEFT_TRY(making.checkpoint_every, reader.u64_or("checkpoint_every", 0));
  WEFT_TRY(making.learns, reader.boolean_or("learns", true));
  return {};
}

Result<Creation> read_creation(const NativeContext& context, const HttpRequest& request) {
  Creation creation;
  if (!request.body_file.empty()) {
    WEFT_TRY(const auto query, parse_query(request.query));
    const auto name = query.find("name");
    if (name == query.end()) return fail(Errc::invalid_argument, "query: a file as the body needs ?name=NAME");
    creation.name = name->second;
    creation.path = request.body_file;
    if (const auto has = query.find("data_directory"); has != query.end())
      creation.making.has_directory = has->second == "1";
    return creation;
  }
  WEFT_TRY(const Json body, read_body(request));
  WEFT_TRY(JsonReader reader, JsonReader::open(body));
  WEFT_TRY(creation.name, reader.string("name", 128));
  if (!is_plain_name(creation.name))
    return fail(Errc::invalid_argument, "name: 1 to 128 letters, digits, dots, dashes and underscores");
  const auto network = reader.find("network"), file = reader.find("file");
  if (network.has_value() == file.has_value())
    return fail(Errc::invalid_argument, "body: give one of \"network\" and \"file\"");
  if (network) {
    auto read = mesh::read_network(network->raw().dump(), "network");
    // Whatever kind of mistake it is, the request itself could be read.
    if (!read) return fail(Errc::corrupt, read.error().text());
    creation.network = *std::move(read);
  } else {
    WEFT_TRY(const std::string name, file->string(128));
    if (context.model_directory.empty())
      return fail(Errc::invalid_argument, "file: the server has no --model-dir; send the file as the body");
    if (!is_plain_name(name)) return fail(Errc::invalid_argument, "file: '" + name + "' is no plain name");
    creation.path = context.model_directory + "/" + name;
  }
  WEFT_CHECK(read_making(reader, creation.making));
  WEFT_CHECK(reader.finish());
  return creation;
}

Result<std::shared_ptr<ServedMesh>> make(NativeContext& context, const Creation& creation) {
  if (creation.network) return context.meshes.create(creation.name, *creation.network, creation.making);
  WEFT_TRY(const auto file, formats::load_entity(storage::real_file_system(), creation.path));
  return context.meshes.create(creation.name, file, creation.making);
}

void create(NativeContext& context, Call call) {
  const ExchangePointer exchange = context.idempotency.admit(call.exchange);
  if (!exchange) return;
  auto creation = read_creation(context, call.request());
  if (!creation) return exchange->respond(unreadable(creation.error()));
  auto shared = std::make_shared<Creation>(*std::move(creation));
  if (call.request().header("prefer").find("respond-async") != std::string_view::npos) {
    const auto id = context.jobs.submit("load", shared->name,
                                        [&context, shared, held = call.exchange](JobTable::Progress&) -> Result<Json> {
                                          WEFT_TRY(const auto made, make(context, *shared));
                                          return statistics_of(*made);
                                        });
    return exchange->respond(id ? job_accepted(*id) : error_response(id.error()));
  }
  // The request is held as long as its uploaded file is read.
  const bool taken = context.worker.submit([&context, exchange, shared, held = call.exchange] {
    const auto made = make(context, *shared);
    if (!made) {
      // A network that cannot be is the client's mistake, whatever kind it is.
      HttpResponse refusal = error_response(made.error());
      if ((refusal.status == 400 || refusal.status == 404) && shared->network) refusal.status = 422;
      return exchange->respond(std::move(refusal));
    }
    HttpResponse response = plain(statistics_of(**made), 201);
    response.headers.push_back({"Location", "/api/v1/meshes/" + shared->name});
    exchange->respond(std::move(response));
  });
  if (!taken) exchange->respond(error_response(429, "rate_limit_error", "too many meshes wait to be made"));
}

void erase(NativeContext& context, Call call) {
  const auto query = parse_query(call.request().query);
  if (!query) return call.exchange->respond(error_response(query.error()));
  const bool discard = query->contains("discard") && query->find("discard")->second == "1";
  const bool taken = context.worker.submit([&context, call, discard] {
    const Status gone = context.meshes.erase(call.parameter(0), discard);
    if (!gone) return call.exchange->respond(error_response(gone.error()));
    call.exchange->respond(HttpResponse{.status = 204, .content_type = {}, .body = {}, .headers = {}});
  });
  if (!taken) call.exchange->respond(error_response(429, "rate_limit_error", "too much waits to be done"));
}

/// Nodes by their numbers, for messages.
std::string list_of(const std::vector<NumaNode>& nodes) {
  std::string text;
  for (const NumaNode& each : nodes) text += (text.empty() ? "" : ", ") + std::to_string(each.index);
  return text;
}

Result<NumaNode> read_node(const NativeContext& context, const HttpRequest& request) {
  WEFT_TRY(const Json body, read_body(request));
  WEFT_TRY(JsonReader reader, JsonReader::open(body));
  WEFT_TRY(const std::uint64_t wanted, reader.u64("node"));
  WEFT_CHECK(reader.finish());
  const std::vector<NumaNode>& nodes = context.meshes.options().numa.nodes;
  if (nodes.empty())
    return fail(Errc::unsupported, "node: the server runs with --numa off, so its meshes are on no node");
  for (const NumaNode& each : nodes)
    if (each.index == wanted) return each;
  return fail(Errc::out_of_range,
              "node: " + std::to_string(wanted) + " is none of those that may be used, " + list_of(nodes));
}

void move(NativeContext& context, Call call) {
  const auto mesh = internal::find_mesh(context, call);
  if (!mesh) return;
  on_mesh(context, [&context, mesh](const Call& of, const ServedMesh&) -> Result<ServedMesh::Act> {
    WEFT_TRY(const NumaNode node, read_node(context, of.request()));
    return ServedMesh::Act([mesh, node](LiveMesh& live) -> Result<ServedMesh::Answer> {
      const auto begin = std::chrono::steady_clock::now();
      const auto before = mesh->node();
      if (before && before->index != node.index) WEFT_CHECK(mesh->move_to(node));
      const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
      return answer_of(live, {{"node", node.index},
                              {"previous", before ? Json(before->index) : Json()},
                              {"tick", live.mesh().ticks()},
                              {"pause_ms", ms}});
    });
  })(std::move(call));
}

Result<ServedMesh::Act> prepare_network(const Call&, const ServedMesh&) {
  return ServedMesh::Act([](LiveMesh& live) -> Result<ServedMesh::Answer> {
    WEFT_TRY(std::string text, mesh::write_network(live.mesh().current_spec()));
    return ServedMesh::Answer{[text, tick = live.mesh().ticks(), version = live.state().weight_version] {
                                HttpResponse response = answer_of(Json::object(), tick, version);
                                response.body = text;
                                return response;
                              },
                              false};
  });
}

Result<ServedMesh::Act> prepare_entity(const Call& call, const ServedMesh& mesh) {
  WEFT_TRY(const auto query, parse_query(call.request().query));
  const bool live_too = query.contains("state") && query.find("state")->second == "1";
  return ServedMesh::Act([live_too, name = mesh.name()](LiveMesh& live) -> Result<ServedMesh::Answer> {
    const auto begin = std::chrono::steady_clock::now();
    WEFT_TRY(const ByteBuffer file, live.entity(live_too));
    auto text = std::make_shared<std::string>(reinterpret_cast<const char*>(file.data()), file.size());
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    return ServedMesh::Answer{
        [text, ms, name, tick = live.mesh().ticks(), version = live.state().weight_version] {
          HttpResponse response = answer_of(Json::object(), tick, version);
          response.content_type = "application/octet-stream";
          response.headers.push_back({"Content-Disposition", "attachment; filename=\"" + name + ".entity\""});
          response.headers.push_back({"X-Weft-Pause-Ms", Json(ms).dump()});
          response.body = std::move(*text);
          return response;
        },
        false};
  });
}

Json about(const NativeContext& context) {
  return {{"name", "weft"},
          {"version", context.version},
          {"features",
           {"meshes", "tick", "forward", "learn", "observe", "sessions", "control", "weights", "events", "journal",
            "checkpoints", "replay", "jobs", "completions", "chat", "embeddings"}},
          {"allow_weight_update", context.allows_weights},
          {"has_model_directory", !context.model_directory.empty()},
          {"has_data_directory", !context.meshes.options().state.empty()},
          {"limits", {{"queue", context.meshes.options().serving.queue}, {"meshes", context.meshes.options().most}}}};
}

}  // namespace

void add_mesh_routes(Router& router, NativeContext& context) {
  const std::string meshes = "/api/v1/meshes", one = meshes + "/{mesh}";
  using Body = Route::Body;
  router.add({"GET", "/api/v1", Body::none, false, false,
              [&context](Call call) { call.exchange->respond(plain(about(context))); }});
  router.add({"GET", meshes, Body::none, false, false, [&context](Call call) {
                Json list = Json::array();
                for (const auto& each : context.meshes.all()) list.push_back(summary_of(*each));
                call.exchange->respond(plain({{"meshes", std::move(list)}}));
              }});
  router.add({"POST", meshes, Body::file, false, true, [&context](Call call) { create(context, std::move(call)); }});
  router.add({"GET", one, Body::none, false, false, [&context](Call call) {
                const auto found = internal::find_mesh(context, call);
                if (!found) return;
                const auto now = found->statistics();
                call.exchange->respond(answer_of(statistics_of(*found), now->tick, now->weight_version));
              }});
  router.add({"DELETE", one, Body::none, false, true, [&context](Call call) { erase(context, std::move(call)); }});
  router.add(
      {"POST", one + "/move", Body::json, false, true, [&context](Call call) { move(context, std::move(call)); }});
  router.add({"GET", one + "/network", Body::none, false, true, on_mesh(context, prepare_network)});
  router.add({"GET", one + "/entity", Body::none, false, true, on_mesh(context, prepare_entity)});
}

}  // namespace weft::server
