// SPDX-License-Identifier: Apache-2.0
// Ticks, passes, learning, the mesh's own clock.

#include "server/internal/native_call.hpp"
#include "server/native_api.hpp"
#include "server/values.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace weft::server {
namespace {

using internal::answer_of;
using internal::on_mesh;
using internal::read_body;
using internal::read_wait;

constexpr std::uint64_t kMostTicks = 1'000'000;  // of one request
constexpr std::uint64_t kTicksAtOnce = 1024;     // between two looks at the client
constexpr std::size_t kMostRecorded = 1 << 22;   // values of outputs in one answer

Json numbers(std::span<const float> values) {
  std::vector<double> out;
  for (const float each : values) out.push_back(each);
  return Json(out);
}

struct TickRequest {
  std::uint64_t n = 1, every = 0;
  std::optional<std::string> session;
  LearnBatch inputs;
  std::vector<std::string> outputs;
  bool waits = false;
};

Result<TickRequest> read_tick(const HttpRequest& request, const MeshDescription& of) {
  TickRequest tick;
  WEFT_TRY(const Json body, read_body(request));
  WEFT_TRY(JsonReader reader, JsonReader::open(body));
  WEFT_TRY(tick.n, reader.u64_or("n", 1, 0, kMostTicks));
  WEFT_TRY(tick.every, reader.u64_or("every", 0, 0, kMostTicks));
  WEFT_TRY(tick.waits, read_wait(reader));
  if (const auto session = reader.find("session")) {
    WEFT_TRY(tick.session, session->string(128));
  }
  if (const auto inputs = reader.find("inputs")) WEFT_CHECK(read_inputs(inputs->raw(), "inputs", of, tick.inputs));
  if (const auto outputs = reader.find("outputs")) {
    WEFT_TRY(const auto names, outputs->array(0, of.outputs.size()));
    for (const JsonValue& each : names) {
      WEFT_TRY(const std::string name, each.string());
      if (!of.output(name)) return fail(Errc::unknown_name, each.path() + ": no output '" + name + "'");
      tick.outputs.push_back(name);
    }
  } else {
    for (const auto& each : of.outputs) tick.outputs.push_back(each.name);
  }
  WEFT_CHECK(reader.finish());
  std::size_t width = 0;
  for (const std::string& each : tick.outputs) width += of.output(each)->width;
  if (tick.every > 0 && tick.n / tick.every * width > kMostRecorded)
    return fail(Errc::too_large, "every: " + std::to_string(tick.n / tick.every * width) +
                                     " values would be answered, at most " + std::to_string(kMostRecorded));
  return tick;
}

/// Outputs that are read at one tick or several.
class Recorder {
 public:
  Recorder(const TickRequest& tick, std::size_t lane) : tick_(tick), lane_(lane), values_(tick.outputs.size()) {}
  Status record(const mesh::Mesh& mesh) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      WEFT_TRY(const auto output, mesh.output(tick_.outputs[i], lane_));
      values_[i].insert(values_[i].end(), output.begin(), output.end());
    }
    ++rows_;
    return {};
  }
  /// {"y":[...]}, with `every` {"y":[[...],...]}.
  std::string text() const {
    std::string text = "{";
    for (std::size_t i = 0; i < values_.size(); ++i) {
      text += (i ? "," : "") + Json(tick_.outputs[i]).dump() + ":";
      append_rows(text, values_[i], std::max<std::size_t>(rows_, 1), tick_.every > 0);
    }
    return text + "}";
  }

 private:
  const TickRequest& tick_;
  const std::size_t lane_;
  std::size_t rows_ = 0;
  std::vector<std::vector<float>> values_;
};

Result<ServedMesh::Answer> run_ticks(LiveMesh& live, const TickRequest& tick, const HttpExchange& exchange) {
  const auto begin = std::chrono::steady_clock::now();
  std::size_t lane = 0;
  if (tick.session) {
    WEFT_TRY(lane, live.lane_of(*tick.session));
  }
  for (const auto& port : tick.inputs.inputs) WEFT_CHECK(live.set_input(port.name, port.values, lane));
  Recorder recorder(tick, lane);
  std::uint64_t left = tick.n;
  while (left > 0) {
    if (exchange.is_cancelled())
      return fail(Errc::interrupted, "the client has gone; " + std::to_string(tick.n - left) + " ticks were run");
    const std::uint64_t now = std::min({left, tick.every ? tick.every : kTicksAtOnce, kTicksAtOnce});
    WEFT_CHECK(live.tick(now));
    left -= now;
    if (tick.every > 0 && (tick.n - left) % tick.every == 0) WEFT_CHECK(recorder.record(live.mesh()));
  }
  if (tick.every == 0) WEFT_CHECK(recorder.record(live.mesh()));
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  const std::uint64_t at = live.mesh().ticks();
  std::string text = "{\"tick\":" + std::to_string(at) + ",\"outputs\":" + recorder.text() +
                     ",\"latency_ms\":" + Json(ms).dump() + "}";
  return ServedMesh::Answer{[text = std::move(text), at, version = live.state().weight_version] {
                              HttpResponse response = answer_of(Json::object(), at, version);
                              response.body = text;
                              return response;
                            },
                            tick.waits};
}

Result<ServedMesh::Act> prepare_tick(const Call& call, const ServedMesh& mesh) {
  WEFT_TRY(TickRequest tick, read_tick(call.request(), mesh.description()));
  return ServedMesh::Act([tick = std::move(tick), exchange = std::weak_ptr(call.exchange)](LiveMesh& live) {
    const auto still = exchange.lock();
    if (!still) return Result<ServedMesh::Answer>(fail(Errc::interrupted, "the client has gone"));
    return run_ticks(live, tick, *still);
  });
}

// --- learning

/// Statistics of samples that were scored just now, and where the mesh stands.
Json learned(const LiveMesh& live, std::uint64_t samples) {
  Json predictions = Json::array(), losses = Json::array();
  for (const learning::Score& each : live.last_scores()) {
    predictions.push_back(each.prediction);
    losses.push_back(static_cast<double>(each.loss));
  }
  Json out{{"tick", live.mesh().ticks()},
           {"samples", samples},
           {"predictions", std::move(predictions)},
           {"losses", std::move(losses)},
           {"accuracy", live.scores().accuracy() ? Json(*live.scores().accuracy()) : Json()}};
  if (const auto now = live.statistics()) out["acknowledged_tick"] = now->acknowledged.tick;
  return out;
}

Result<ServedMesh::Act> prepare_learn(const Call& call, const ServedMesh& mesh) {
  WEFT_TRY(const Json body, read_body(call.request()));
  WEFT_TRY(JsonReader reader, JsonReader::open(body));
  WEFT_TRY(const JsonValue samples, reader.value("samples"));
  WEFT_TRY(const bool waits, read_wait(reader));
  WEFT_CHECK(reader.finish());
  WEFT_TRY(LearnBatch batch, read_samples(samples.raw(), mesh.description()));
  return ServedMesh::Act([batch = std::move(batch), waits](LiveMesh& live) -> Result<ServedMesh::Answer> {
    WEFT_CHECK(live.learn(batch.run_inputs(), batch.run_targets(), batch.samples));
    return answer_of(live, learned(live, batch.samples), waits);
  });
}

Result<ServedMesh::Act> prepare_observe(const Call& call, const ServedMesh& mesh) {
  WEFT_TRY(const Json body, read_body(call.request()));
  WEFT_TRY(JsonReader reader, JsonReader::open(body));
  WEFT_TRY(const JsonValue inputs, reader.value("inputs"));
  WEFT_TRY(const bool waits, read_wait(reader));
  WEFT_CHECK(reader.finish());
  LearnBatch batch;
  WEFT_CHECK(read_inputs(inputs.raw(), "inputs", mesh.description(), batch));
  return ServedMesh::Act([batch = std::move(batch), waits,
                          names = mesh.description().outputs](LiveMesh& live) -> Result<ServedMesh::Answer> {
    WEFT_TRY(const learning::Ticket ticket, live.observe(batch.run_inputs()));
    Json answer{{"ticket", ticket}, {"tick", live.mesh().ticks()}, {"answer", Json()}};
    for (const auto& each : names) {
      const auto values = live.learner()->answer(ticket, each.name);
      if (values) answer["answer"][each.name] = numbers(*values);
    }
    return answer_of(live, std::move(answer), waits);
  });
}

Result<ServedMesh::Act> prepare_answer(const Call& call, const ServedMesh& mesh) {
  WEFT_TRY(const auto query, parse_query(call.request().query));
  const auto found = query.find("ticket");
  if (found == query.end()) return fail(Errc::invalid_argument, "query: ticket=NUMBER is missing");
  WEFT_TRY(const Json number, parse_json(found->second, "ticket"));
  WEFT_TRY(const learning::Ticket ticket, JsonValue(number, "ticket").u64());
  return ServedMesh::Act([ticket, names = mesh.description().outputs](LiveMesh& live) -> Result<ServedMesh::Answer> {
    if (!live.learner()) return fail(Errc::unsupported, "this mesh has no learner");
    Json answer{{"ticket", ticket}, {"tick", live.mesh().ticks()}, {"answer", Json()}};
    for (const auto& each : names) {
      WEFT_TRY(const auto values, live.learner()->answer(ticket, each.name));
      answer["answer"][each.name] = numbers(values);
    }
    return answer_of(live, std::move(answer));
  });
}

Result<ServedMesh::Act> prepare_teach(const Call& call, const ServedMesh& mesh) {
  WEFT_TRY(const Json body, read_body(call.request()));
  WEFT_TRY(JsonReader reader, JsonReader::open(body));
  WEFT_TRY(const learning::Ticket ticket, reader.u64("ticket"));
  WEFT_TRY(const JsonValue targets, reader.value("targets"));
  WEFT_TRY(const bool waits, read_wait(reader));
  WEFT_CHECK(reader.finish());
  LearnBatch batch;
  WEFT_CHECK(read_targets(targets.raw(), "targets", mesh.description(), batch));
  return ServedMesh::Act([ticket, batch = std::move(batch), waits](LiveMesh& live) -> Result<ServedMesh::Answer> {
    WEFT_CHECK(live.teach(ticket, batch.run_targets()));
    return answer_of(live, learned(live, 1), waits);
  });
}

Result<ServedMesh::Act> prepare_forgo(const Call& call, const ServedMesh&) {
  WEFT_TRY(const Json body, read_body(call.request()));
  WEFT_TRY(JsonReader reader, JsonReader::open(body));
  WEFT_TRY(const learning::Ticket ticket, reader.u64("ticket"));
  WEFT_TRY(const bool waits, read_wait(reader));
  WEFT_CHECK(reader.finish());
  return ServedMesh::Act([ticket, waits](LiveMesh& live) -> Result<ServedMesh::Answer> {
    WEFT_CHECK(live.forgo(ticket));
    return answer_of(live, {{"tick", live.mesh().ticks()}}, waits);
  });
}

Result<ServedMesh::Act> prepare_drain(const Call&, const ServedMesh&) {
  return ServedMesh::Act([](LiveMesh& live) -> Result<ServedMesh::Answer> {
    WEFT_CHECK(live.drain());
    return answer_of(live, learned(live, 0));
  });
}

Result<ServedMesh::Pace> read_pace(const HttpRequest& request) {
  WEFT_TRY(const Json body, read_body(request));
  WEFT_TRY(JsonReader reader, JsonReader::open(body));
  ServedMesh::Pace pace;
  WEFT_TRY(const std::string mode, reader.string("mode"));
  if (mode != "free" && mode != "stop") return fail(Errc::unknown_name, "mode: '" + mode + "' is none of free, stop");
  pace.runs = mode == "free";
  WEFT_TRY(pace.tick_rate, reader.f64_or("tick_rate", 0, 0, 1e6));
  if (const auto until = reader.find("until_tick")) {
    WEFT_TRY(pace.until_tick, until->u64());
  }
  WEFT_CHECK(reader.finish());
  return pace;
}

}  // namespace

void add_tick_routes(Router& router, NativeContext& context) {
  const std::string mesh = "/api/v1/meshes/{mesh}";
  using Body = Route::Body;
  router.add({"POST", mesh + "/forward", Body::json, false, true, [&context](Call call) {
                const auto found = internal::find_mesh(context, call);
                if (!found) return;
                auto forward = read_forward(call.request(), found->description());
                if (!forward) return call.exchange->respond(unreadable(forward.error()));
                found->submit(std::move(call.exchange), *std::move(forward));
              }});
  const auto post = [&](const char* path, internal::Prepare prepare) {
    router.add({"POST", mesh + path, Body::json, false, true, on_mesh(context, std::move(prepare))});
  };
  post("/tick", prepare_tick);
  post("/learn", prepare_learn);
  post("/observe", prepare_observe);
  post("/teach", prepare_teach);
  post("/forgo", prepare_forgo);
  post("/drain", prepare_drain);
  router.add({"GET", mesh + "/answer", Body::none, false, true, on_mesh(context, prepare_answer)});
  router.add({"POST", mesh + "/run", Body::json, false, true, [&context](Call call) {
                const auto found = internal::find_mesh(context, call);
                if (!found) return;
                const auto pace = read_pace(call.request());
                if (!pace) return call.exchange->respond(unreadable(pace.error()));
                found->set_pace(*pace);
                const auto now = found->statistics();
                call.exchange->respond(answer_of({{"tick", now->tick}, {"mode", pace->runs ? "free" : "stop"}},
                                                 now->tick, now->weight_version, 202));
              }});
}

}  // namespace weft::server
