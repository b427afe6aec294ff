// SPDX-License-Identifier: Apache-2.0
// Orders, checkpoints, marks, weights, events.

#include "agent/agent_command.hpp"
#include "agent/command_execution.hpp"
#include "server/internal/native_call.hpp"
#include "server/native_api.hpp"

#include "storage/file_system.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

namespace weft::server {
namespace {

using internal::answer_of;
using internal::on_mesh;
using internal::read_body;

Result<ServedMesh::Act> prepare_command(const Call& call, const ServedMesh&) {
  WEFT_TRY(const Json body, read_body(call.request()));
  WEFT_TRY(const agent::AgentCommand command, agent::read_command(body));
  return ServedMesh::Act([command](LiveMesh& live) -> Result<ServedMesh::Answer> {
    const auto post = [&](Coord cell, std::shared_ptr<mesh::Command> message) {
      return live.post(cell, std::move(message));
    };
    WEFT_TRY(Json answer, agent::execute_command(command, {live.mesh(), live.learner(), live.mesh().spec(), post}));
    return answer_of(live, std::move(answer), true);
  });
}

Result<ServedMesh::Act> prepare_resume(const Call&, const ServedMesh&) {
  return ServedMesh::Act([](LiveMesh& live) -> Result<ServedMesh::Answer> {
    live.resume_after_halt();
    return answer_of(live, {{"tick", live.mesh().ticks()}});
  });
}

Result<ServedMesh::Act> prepare_hash(const Call&, const ServedMesh&) {
  return ServedMesh::Act([](LiveMesh& live) -> Result<ServedMesh::Answer> {
    return answer_of(live, {{"tick", live.mesh().ticks()}, {"hash", to_string(live.hash())}});
  });
}

Result<ServedMesh::Act> prepare_mark(const Call& call, const ServedMesh&) {
  WEFT_TRY(const Json body, read_body(call.request()));
  WEFT_TRY(JsonReader reader, JsonReader::open(body));
  WEFT_TRY(const std::string note, reader.string_or("note", ""));
  WEFT_CHECK(reader.finish());
  return ServedMesh::Act([note](LiveMesh& live) -> Result<ServedMesh::Answer> {
    WEFT_CHECK(live.mark(note));
    return answer_of(live, {{"tick", live.mesh().ticks()}}, true, 201);
  });
}

Result<ServedMesh::Act> prepare_checkpoint(const Call&, const ServedMesh&) {
  return ServedMesh::Act([](LiveMesh& live) -> Result<ServedMesh::Answer> {
    WEFT_CHECK(live.checkpoint());
    const auto now = live.statistics()->checkpoint;
    return answer_of(live,
                     {{"tick", now.at.tick},
                      {"bytes", now.bytes},
                      {"pause_ms", std::chrono::duration<double, std::milli>(now.pause).count()}},
                     false, 201);
  });
}

// --- weights

std::optional<HttpResponse> refuse_weights(const NativeContext& context) {
  if (context.allows_weights) return std::nullopt;
  return error_response(403, "permission_error",
                        "weights are changed only where the server runs with "
                        "--allow-weight-update");
}

/// The version that If-Match names; empty: any.
std::string wanted_version(const HttpRequest& request) {
  std::string_view wanted = request.header("if-match");
  if (wanted.size() >= 2 && wanted.front() == '"' && wanted.back() == '"') wanted = wanted.substr(1, wanted.size() - 2);
  return std::string(wanted == "*" ? std::string_view() : wanted.substr(0, 32));
}

/// The answer where the weights are of another version than wanted.
std::optional<ServedMesh::Answer> is_other_version(const LiveMesh& live, const std::string& wanted) {
  const std::string now = std::to_string(live.state().weight_version);
  if (wanted.empty() || wanted == now) return std::nullopt;
  return ServedMesh::Answer{[wanted, now] {
                              return error_response(412, "invalid_request_error",
                                                    "If-Match: the weights are version " + now + ", not " + wanted);
                            },
                            false};
}

Result<ServedMesh::Answer> replaced(ServedMesh& served, const LiveMesh& live, const char* op,
                                    std::chrono::steady_clock::time_point begin) {
  const std::uint64_t version = live.state().weight_version;
  const Json data{{"version", version}, {"previous", version - 1}, {"tick", live.mesh().ticks()}, {"op", op}};
  served.events().publish("weights", "weights", data);
  Json answer = data;
  answer["pause_ms"] = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return answer_of(live, std::move(answer), true);
}

/// A file of the model directory by its plain name, or the body that came.
Result<std::string> weights_path(const NativeContext& context, const HttpRequest& request, std::string& label) {
  if (!request.body_file.empty()) return request.body_file;
  WEFT_TRY(const Json body, read_body(request));
  WEFT_TRY(JsonReader reader, JsonReader::open(body));
  WEFT_TRY(const std::string name, reader.string("file", 128));
  WEFT_TRY(label, reader.string_or("version_label", "", 128));
  WEFT_CHECK(reader.finish());
  if (context.model_directory.empty())
    return fail(Errc::invalid_argument, "file: the server has no --model-dir; send the file as the body");
  if (!is_plain_name(name)) return fail(Errc::invalid_argument, "file: '" + name + "' is no plain name");
  return context.model_directory + "/" + name;
}

void swap_weights(NativeContext& context, Call call) {
  const auto mesh = internal::find_mesh(context, call);
  if (!mesh) return;
  if (auto refusal = refuse_weights(context)) return call.exchange->respond(*std::move(refusal));
  const ExchangePointer exchange = context.idempotency.admit(call.exchange);
  if (!exchange) return;
  const bool taken = context.worker.submit([&context, exchange, call, mesh] {
    std::string label;
    const auto path = weights_path(context, call.request(), label);
    if (!path) return exchange->respond(error_response(path.error()));
    auto file = formats::load_entity(storage::real_file_system(), *path);
    if (!file) return exchange->respond(error_response(file.error()));
    auto shared = std::make_shared<formats::EntityFile>(*std::move(file));
    // The request is held as long as its uploaded file is read.
    const std::string wanted = wanted_version(call.request());
    mesh->submit(exchange,
                 [shared, label, mesh, wanted, held = call.exchange](LiveMesh& live) -> Result<ServedMesh::Answer> {
                   if (auto other = is_other_version(live, wanted)) return *std::move(other);
                   const auto begin = std::chrono::steady_clock::now();
                   WEFT_CHECK(live.replace_weights(*shared, label));
                   return replaced(*mesh, live, "swap", begin);
                 });
  });
  if (!taken) exchange->respond(error_response(429, "rate_limit_error", "too many files wait to be loaded"));
}

void roll_back(NativeContext& context, Call call) {
  const auto mesh = internal::find_mesh(context, call);
  if (!mesh) return;
  if (auto refusal = refuse_weights(context)) return call.exchange->respond(*std::move(refusal));
  on_mesh(context, [mesh](const Call& of, const ServedMesh&) -> Result<ServedMesh::Act> {
    WEFT_TRY(const Json body, read_body(of.request()));
    WEFT_TRY(JsonReader reader, JsonReader::open(body));
    std::optional<std::uint64_t> to;
    if (const auto found = reader.find("to")) {
      WEFT_TRY(to, found->u64());
    }
    WEFT_CHECK(reader.finish());
    return ServedMesh::Act(
        [to, mesh, wanted = wanted_version(of.request())](LiveMesh& live) -> Result<ServedMesh::Answer> {
          if (auto other = is_other_version(live, wanted)) return *std::move(other);
          const auto begin = std::chrono::steady_clock::now();
          WEFT_CHECK(live.roll_back(to));
          return replaced(*mesh, live, "rollback", begin);
        });
  })(std::move(call));
}

Json weights_json(const MeshStatistics& statistics) {
  Json list = Json::array();
  for (const auto& [version, label] : statistics.kept_weights)
    list.push_back({{"version", version}, {"label", label}, {"current", false}});
  list.push_back({{"version", statistics.weight_version}, {"label", statistics.weight_label}, {"current", true}});
  return {{"weights", std::move(list)}};
}

// --- events

Result<EventRing::Reading> read_reading(const HttpRequest& request) {
  EventRing::Reading reading;
  WEFT_TRY(const auto query, parse_query(request.query));
  for (const auto& [key, value] : query) {
    if (key == "topics") {
      std::istringstream names(value);
      for (std::string name; std::getline(names, name, ',');) {
        if (!EventRing::is_topic(name)) return fail(Errc::unknown_name, "topics: '" + name + "' is none");
        reading.topics.insert(name);
      }
    } else if (key == "every") {
      WEFT_TRY(const Json json, parse_json(value, "every"));
      WEFT_TRY(const double seconds, JsonValue(json, "every").f64(0.1, 3600));
      reading.every = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
    } else {
      return fail(Errc::unknown_name, "query: '" + key + "' is none of topics, every");
    }
  }
  if (request.has_header("last-event-id")) {
    WEFT_TRY(const Json json, parse_json(request.header("last-event-id"), "Last-Event-ID"));
    WEFT_TRY(reading.after, JsonValue(json, "Last-Event-ID").u64());
  }
  return reading;
}

void read_events(NativeContext& context, Call call) {
  const auto mesh = internal::find_mesh(context, call);
  if (!mesh) return;
  auto reading = read_reading(call.request());
  if (!reading) return call.exchange->respond(unreadable(reading.error()));
  if (const Status room = mesh->events().check_room(); !room)
    return call.exchange->respond(error_response(room.error()));
  HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers.push_back({"X-Accel-Buffering", "no"});
  auto stream = call.exchange->stream(std::move(head));
  if (stream) mesh->events().add(std::move(stream), *std::move(reading));
}

}  // namespace

void add_state_routes(Router& router, NativeContext& context) {
  const std::string mesh = "/api/v1/meshes/{mesh}";
  using Body = Route::Body;
  const auto post = [&](const char* path, internal::Prepare prepare) {
    router.add({"POST", mesh + path, Body::json, false, true, on_mesh(context, std::move(prepare))});
  };
  post("/control", prepare_command);
  post("/resume", prepare_resume);
  post("/mark", prepare_mark);
  post("/checkpoint", prepare_checkpoint);
  router.add({"GET", mesh + "/hash", Body::none, false, true, on_mesh(context, prepare_hash)});
  const auto statistics = [&](const char* path, Json (*show)(const MeshStatistics&)) {
    router.add({"GET", mesh + path, Body::none, false, false, [&context, show](Call call) {
                  const auto found = internal::find_mesh(context, call);
                  if (!found) return;
                  const auto now = found->statistics();
                  call.exchange->respond(answer_of(show(*now), now->tick, now->weight_version));
                }});
  };
  statistics("/weights", weights_json);
  router.add({"POST", mesh + "/weights", Body::file, false, true,
              [&context](Call call) { swap_weights(context, std::move(call)); }});
  router.add({"POST", mesh + "/weights/rollback", Body::json, false, true,
              [&context](Call call) { roll_back(context, std::move(call)); }});
  router.add({"GET", mesh + "/events", Body::none, false, true,
              [&context](Call call) { read_events(context, std::move(call)); }});
}

}  // namespace weft::server
