// SPDX-License-Identifier: Apache-2.0
// A mesh's past: its journal, its checkpoints, replays of both. And jobs, by which long work is asked about.

#include "agent/journal_page.hpp"
#include "agent/replay.hpp"
#include "server/internal/native_call.hpp"
#include "server/native_api.hpp"
#include "server/statistics_json.hpp"

#include "storage/file_system.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace weft::server {
namespace {

using internal::MeshPointer;
using internal::read_body;

constexpr std::uint64_t kMostRecords = 1000;     // of one answer
constexpr std::uint64_t kReplayedAtOnce = 1024;  // of a replay, between two looks at whether it is cancelled
constexpr std::size_t kMostChanges = 64;

HttpResponse told(const Json& body, int status = 200) {
  HttpResponse response;
  response.status = status;
  response.body = body.dump(Json::Order::as_set);
  return response;
}

/// The mesh that a call names, which has a data directory; else answered, and null.
MeshPointer find_kept(NativeContext& context, const Call& call) {
  MeshPointer mesh = internal::find_mesh(context, call);
  if (!mesh || !mesh->description().directory.empty()) return mesh;
  call.exchange->respond(
      error_response(Error(Errc::unsupported, "mesh '" + mesh->name() +
                                                  "' has no data directory, so no journal and no "
                                                  "checkpoints; create it with \"data_directory\"")));
  return nullptr;
}

/// Reads files beside the mesh, on the thread for what takes long.
void on_files(NativeContext& context, const Call& call, std::function<HttpResponse()> read) {
  const bool taken = context.worker.submit([exchange = call.exchange, read = std::move(read)] {
    if (!exchange->is_cancelled()) exchange->respond(read());
  });
  if (!taken) call.exchange->respond(error_response(429, "rate_limit_error", "too much waits to be read"));
}

Result<std::uint64_t> read_natural(const std::string& key, std::string_view text, std::uint64_t least,
                                   std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    return fail(Errc::out_of_range, key + ": '" + std::string(text.substr(0, 32)) + "' is no number from " +
                                        std::to_string(least) + " to " + std::to_string(most));
  return value;
}

// --- the journal

Json json_of(const agent::JournalEntry& entry) {
  Json out{{"record", entry.number}, {"kind", agent::name(entry.kind)}, {"bytes", entry.bytes}};
  if (entry.tick) out["tick"] = *entry.tick;
  if (entry.count) out["count"] = *entry.count;
  if (!entry.topic.empty()) out["topic"] = entry.topic;
  return out;
}

HttpResponse journal_response(const std::string& directory, std::uint64_t from, std::size_t most) {
  const auto page = agent::read_journal_page(storage::real_file_system(), directory, from, most);
  if (!page) return error_response(page.error());
  Json records = Json::array();
  for (const agent::JournalEntry& each : page->entries) records.push_back(json_of(each));
  return told({{"records", std::move(records)},
               {"next", page->next ? Json(*page->next) : Json()},
               {"torn_bytes", page->torn_bytes},
               {"damages", page->damages}});
}

void read_journal(NativeContext& context, const Call& call) {
  const MeshPointer mesh = find_kept(context, call);
  if (!mesh) return;
  std::uint64_t from = 1, most = 100;
  const auto read = [&]() -> Status {
    WEFT_TRY(const auto query, parse_query(call.request().query));
    for (const auto& [key, text] : query) {
      if (key != "from" && key != "limit")
        return fail(Errc::unknown_name, "query: '" + key + "' is none of from, limit");
      WEFT_TRY((key == "from" ? from : most), read_natural(key, text, 1, key == "from" ? UINT64_MAX : kMostRecords));
    }
    return {};
  };
  if (const Status done = read(); !done) return call.exchange->respond(unreadable(done.error()));
  on_files(context, call, [directory = mesh->description().directory, from, most] {
    return journal_response(directory, from, static_cast<std::size_t>(most));
  });
}

// --- checkpoints

void list_checkpoints(NativeContext& context, const Call& call) {
  const MeshPointer mesh = find_kept(context, call);
  if (!mesh) return;
  on_files(context, call, [directory = mesh->description().directory] {
    const auto found = agent::Replay::checkpoint_infos(storage::real_file_system(), directory);
    if (!found) return error_response(found.error());
    Json list = Json::array();
    for (const agent::CheckpointInfo& each : *found)
      list.push_back({{"tick", each.tick}, {"record", each.record}, {"hash", to_string(each.hash)}});
    return told({{"checkpoints", std::move(list)}});
  });
}

/// The mesh as it was at a checkpoint, under another name: what happened since stays where it is.
void restore_checkpoint(NativeContext& context, Call call) {
  const MeshPointer mesh = find_kept(context, call);
  if (!mesh) return;
  const ExchangePointer exchange = context.idempotency.admit(call.exchange);
  if (!exchange) return;
  std::string as;
  std::uint64_t tick = 0;
  const auto read = [&]() -> Status {
    WEFT_TRY(tick, read_natural("checkpoint", call.parameter(1), 0, UINT64_MAX));
    WEFT_TRY(const Json body, read_body(call.request()));
    WEFT_TRY(JsonReader reader, JsonReader::open(body));
    WEFT_TRY(as, reader.string("as", 128));
    if (!is_plain_name(as))
      return fail(Errc::invalid_argument, "as: 1 to 128 letters, digits, dots, dashes and underscores");
    return reader.finish();
  };
  if (const Status done = read(); !done) return exchange->respond(unreadable(done.error()));
  const bool taken = context.worker.submit([&context, exchange, as, tick, from = mesh->description().directory] {
    const auto made = context.meshes.restore(as, from, tick);
    if (!made) return exchange->respond(error_response(made.error()));
    HttpResponse response = told(statistics_of(**made), 201);
    response.headers.push_back({"Location", "/api/v1/meshes/" + as});
    exchange->respond(std::move(response));
  });
  if (!taken) exchange->respond(error_response(429, "rate_limit_error", "too many meshes wait to be made"));
}

// --- replays

struct ReplayRequest {
  std::string directory;
  std::optional<std::uint64_t> until;
  agent::ReplayOptions options;
};

/// In parts, so that it can be cancelled. True: it came to the end of the journal or to `until`.
Result<bool> run(agent::Replay& replay, std::optional<std::uint64_t> until, JobTable::Progress& progress) {
  while (!progress.is_cancelled()) {
    const std::uint64_t wanted = std::min(replay.tick() + kReplayedAtOnce, until.value_or(UINT64_MAX));
    WEFT_CHECK(replay.run(wanted));
    progress.tell("tick " + std::to_string(replay.tick()) + ", record " + std::to_string(replay.records()));
    if (until && replay.tick() >= *until) return true;
    if (replay.tick() >= wanted) continue;
    // The end, or a step that is larger than what was asked for.
    WEFT_TRY(const bool goes_on, replay.step());
    if (goes_on && (!until || replay.tick() <= *until)) continue;
    if (!goes_on && !until) WEFT_CHECK(replay.run());  // compares what is known at the end alone
    return true;
  }
  return false;
}

Result<Json> replay(const ReplayRequest& request, JobTable::Progress& progress) {
  WEFT_TRY(auto replayed, agent::Replay::open(storage::real_file_system(), request.directory, request.options));
  if (request.until && *request.until < replayed.tick())
    return fail(Errc::invalid_argument, "until: tick " + std::to_string(*request.until) +
                                            " is before the checkpoint of tick " + std::to_string(replayed.tick()) +
                                            ", with which it begins");
  WEFT_TRY(const bool is_whole, run(replayed, request.until, progress));
  if (!is_whole) return fail(Errc::interrupted, "cancelled at tick " + std::to_string(replayed.tick()));
  std::vector<std::string> damages = replayed.findings().damages;
  damages.insert(damages.end(), replayed.missing().begin(), replayed.missing().end());
  return Json{{"from_tick", replayed.start().tick},
              {"tick", replayed.tick()},
              {"records", replayed.records()},
              {"compared", replayed.compared()},
              {"hash", to_string(replayed.replayable().hash())},
              {"anew", replayed.anew()},
              {"targets_left_out", replayed.replayable().left_out()},
              {"torn_bytes", replayed.findings().torn_bytes},
              {"damages", damages}};
}

Result<ReplayRequest> read_replay(const NativeContext& context, const HttpRequest& request, const ServedMesh& mesh) {
  ReplayRequest out;
  WEFT_TRY(const Json body, read_body(request));
  WEFT_TRY(JsonReader reader, JsonReader::open(body));
  if (const auto from = reader.find("from")) {
    WEFT_TRY(out.options.from, from->u64());
  }
  if (const auto until = reader.find("until")) {
    WEFT_TRY(out.until, until->u64());
  }
  WEFT_TRY(out.options.verifies, reader.boolean_or("verify", true));
  if (const auto set = reader.find("set")) {
    WEFT_TRY(const auto changes, set->array(0, kMostChanges));
    for (const JsonValue& each : changes) {
      WEFT_TRY(out.options.set.emplace_back(), each.string(4096));
    }
    if (!out.options.set.empty()) out.options.verifies = false;  // a changed run differs on purpose
  }
  WEFT_CHECK(reader.finish());
  out.directory = mesh.description().directory;
  out.options.mesh.threads = context.meshes.options().mesh.threads;
  out.options.mesh.max_memory = context.meshes.options().mesh.max_memory;
  return out;
}

void begin_replay(NativeContext& context, Call call) {
  const MeshPointer mesh = find_kept(context, call);
  if (!mesh) return;
  auto request = read_replay(context, call.request(), *mesh);
  if (!request) return call.exchange->respond(unreadable(request.error()));
  const ExchangePointer exchange = context.idempotency.admit(call.exchange);
  if (!exchange) return;
  // A replay comes as far as the files do: so what was done before is on the device first.
  mesh->submit(exchange,
               [&context, exchange, name = mesh->name(),
                request = *std::move(request)](LiveMesh& live) -> Result<ServedMesh::Answer> {
                 WEFT_CHECK(live.acknowledge());
                 auto id = context.jobs.submit("replay", name,
                                               [request](JobTable::Progress& to) { return replay(request, to); });
                 if (!id) return fail(id.error());
                 return ServedMesh::Answer{[id = *id] { return job_accepted(id); }, false};
               });
}

}  // namespace

HttpResponse job_accepted(const std::string& id) {
  HttpResponse response = told({{"job", id}}, 202);
  response.headers.push_back({"Location", "/api/v1/jobs/" + id});
  return response;
}

void add_history_routes(Router& router, NativeContext& context) {
  const std::string mesh = "/api/v1/meshes/{mesh}", jobs = "/api/v1/jobs";
  using Body = Route::Body;
  router.add(
      {"GET", mesh + "/journal", Body::none, false, true, [&context](Call call) { read_journal(context, call); }});
  router.add({"GET", mesh + "/checkpoints", Body::none, false, true,
              [&context](Call call) { list_checkpoints(context, call); }});
  router.add({"POST", mesh + "/checkpoints/{tick}/restore", Body::json, false, true,
              [&context](Call call) { restore_checkpoint(context, std::move(call)); }});
  router.add({"POST", mesh + "/replay", Body::json, false, true,
              [&context](Call call) { begin_replay(context, std::move(call)); }});
  router.add({"GET", jobs, Body::none, false, false, [&context](Call call) {
                call.exchange->respond(told({{"jobs", context.jobs.all()}}));
              }});
  router.add({"GET", jobs + "/{job}", Body::none, false, false, [&context](Call call) {
                const auto job = context.jobs.describe(call.parameter(0));
                call.exchange->respond(job ? told(*job) : error_response(job.error()));
              }});
  router.add({"DELETE", jobs + "/{job}", Body::none, false, false, [&context](Call call) {
                const Status done = context.jobs.cancel(call.parameter(0));
                if (!done) return call.exchange->respond(error_response(done.error()));
                call.exchange->respond(HttpResponse{.status = 204, .content_type = {}, .body = {}, .headers = {}});
              }});
}

}  // namespace weft::server
