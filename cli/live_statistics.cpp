// SPDX-License-Identifier: Apache-2.0

#include "cli/live_statistics.hpp"

#include "cli/text_format.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/runtime/cell.hpp"

#include "actors/registry.hpp"

#include "core/json.hpp"

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <utility>

namespace weft::cli {
namespace {

double seconds_since(LiveStatistics::Clock::time_point then) {
  return std::chrono::duration<double>(LiveStatistics::Clock::now() - then).count();
}

/// {"threw": 0, ...}: one count for each name of an enumeration.
template <class Kind, std::size_t kCount>
Json by_name(const std::array<std::uint64_t, kCount>& statistics) {
  Json out = Json::object();
  for (std::size_t i = 0; i < kCount; ++i) out[std::string(name(static_cast<Kind>(i)))] = statistics[i];
  return out;
}

constexpr std::size_t kBusiest = 8;
constexpr std::chrono::seconds kSampleFor{5};  // after each answer: a second's subscribers keep it going

std::uint64_t resident_bytes() {
  std::uint64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

AgentIdentity identity_of(mesh::Mesh& mesh) {
  AgentIdentity agent;
  agent.network = mesh.spec().name;
  agent.executor = mesh::MeshAccess::executor(mesh).name();
  agent.threads = mesh::MeshAccess::executor(mesh).concurrency();
  agent.sessions = mesh.sessions();
  for (const auto& cell : mesh::MeshAccess::cells(std::as_const(mesh))) agent.cells.push_back(cell->at());
  return agent;
}

void measure_cells(const mesh::Mesh& mesh, const AgentIdentity& agent, LiveStatistics& f) {
  f.supervision = mesh.supervisor().counters();
  const actors::Registry& registry = mesh.registry();
  f.cells.fill(0);
  f.degraded.clear();
  for (actors::ActorId actor = 0; actor < registry.size(); ++actor) {
    const actors::ActorStatus status = registry.status(actor);
    ++f.cells[static_cast<std::size_t>(status)];
    if (status == actors::ActorStatus::running || f.degraded.size() >= LiveStatistics::kMostDegraded) continue;
    const actors::ActorView view = registry.view(actor);
    f.degraded.push_back({agent.cells[actor], status, view.faults, view.restarts, view.last_fault_tick});
  }
}

Json hang_json(const actors::Hang& hang, Coord at) {
  return {{"cell", cell_json(at)}, {"tick", hang.tick}, {"seconds", in_seconds(hang.stood)}};
}

std::string statistics_text_of(const AgentIdentity& agent, const LiveStatistics& statistics,
                               actors::Watchdog& watchdog) {
  Json answer = to_json(agent, statistics);
  answer["memory"]["resident"] = resident_bytes();
  watchdog.sample_for(kSampleFor);
  Json busiest = Json::array();
  for (const auto& [actor, share] : watchdog.busiest(kBusiest))
    busiest.push_back({{"cell", cell_json(agent.cells[actor])}, {"share", share}});
  answer["busiest"] = std::move(busiest);
  answer["hangs"] = watchdog.hangs();
  Json hanging = Json::array();
  for (const actors::Hang& hang : watchdog.hanging()) hanging.push_back(hang_json(hang, agent.cells[hang.actor]));
  answer["hanging"] = std::move(hanging);
  return answer.dump(Json::Order::as_set);
}

Json cell_json(Coord at) { return {at.z, at.y, at.x}; }

namespace {

Json to_json(const learning::LayerDiagnostics& layer) {
  return {{"layer", {layer.at.z, layer.at.y, layer.at.x, layer.at.l}},
          {"error", as_written(layer.error)},
          {"budget", layer.budget ? Json(as_written(*layer.budget)) : Json()},
          {"update", as_written(layer.update)},
          {"relative_update", as_written(layer.relative_update)},
          {"error_age", layer.error_age},
          {"weight", as_written(layer.weight)},
          {"dormant", layer.dormant ? Json(as_written(*layer.dormant)) : Json()}};
}

}  // namespace

Json to_json(const learning::LateCounts& counts) {
  return {{"observed", counts.observed},
          {"taught", counts.taught},
          {"forgone", counts.forgone},
          {"expired", counts.expired},
          {"open", counts.open()}};
}

std::optional<learning::LateCounts> late_counts_of(const learning::Learner* learner) {
  if (!learner || learner->options().late == learning::Late::none) return std::nullopt;
  return learner->late_counts();
}

Json to_json(const AgentIdentity& agent, const LiveStatistics& f) {
  Json out{{"weft_top", 2},
           {"network", agent.network},
           {"pid", getpid()},
           {"uptime_seconds", seconds_since(agent.started)},
           {"phase", f.phase},
           {"executor", agent.executor},
           {"threads", agent.threads},
           {"sessions", agent.sessions},
           {"cells", by_name<actors::ActorStatus>(f.cells)},
           {"faults", by_name<actors::FaultKind>(f.supervision.faults)},
           {"decisions", by_name<actors::Policy>(f.supervision.decisions)},
           {"escalations", f.supervision.escalations}};
  out.update(to_json(f.run));
  Json degraded = Json::array();
  for (const LiveStatistics::DegradedCell& cell : f.degraded)
    degraded.push_back({{"cell", cell_json(cell.at)},
                        {"status", name(cell.status)},
                        {"faults", cell.faults},
                        {"restarts", cell.restarts},
                        {"last_fault_tick", cell.last_fault_tick}});
  out["degraded"] = std::move(degraded);
  out["layers"] = nullptr;
  if (!f.layers.empty()) out["layers"] = Json::array();
  for (const learning::LayerDiagnostics& layer : f.layers) out["layers"].push_back(to_json(layer));
  if (f.acting) {
    // Of rewards there are no scores.
    for (const char* const key :
         {"samples", "total", "samples_per_second", "epoch", "prequential_accuracy", "overall_accuracy", "mean_loss"})
      out[key] = nullptr;
    out["steps"] = f.acting->steps;
    out["episodes"] = f.acting->episodes;
    out["mean_return"] = f.acting->mean_return;
    out["steps_per_second"] = f.acting->steps_per_second;
  }
  out["memory"] = {{"weights", f.weight_bytes}, {"state", f.state_bytes}};
  out["checkpoint"] = nullptr;
  if (f.saved)
    out["checkpoint"] = {{"samples", f.saved->samples},
                         {"ticks", f.saved->ticks},
                         {"bytes", f.saved->bytes},
                         {"age_seconds", seconds_since(f.saved->when)},
                         {"pause_seconds", f.saved->pause_seconds}};
  out["failed_checkpoints"] = f.failed_checkpoints;
  out["late"] = f.late ? to_json(*f.late) : Json();
  out["journal"] = nullptr;
  if (f.journal)
    out["journal"] = {{"durability", f.journal->durability},
                      {"acknowledged", f.journal->acknowledged},
                      {"waiting", f.journal->waiting},
                      {"bytes", f.journal->bytes},
                      {"error", f.journal->error}};
  return out;
}

}  // namespace weft::cli
