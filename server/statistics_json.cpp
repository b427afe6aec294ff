// SPDX-License-Identifier: Apache-2.0

#include "server/statistics_json.hpp"

namespace weft::server {
namespace {

/// {"threw": 0, ...}: one count for each name of an enumeration.
template <class Kind, std::size_t kCount>
Json by_name(const std::array<std::uint64_t, kCount>& counts) {
  Json out = Json::object();
  for (std::size_t i = 0; i < kCount; ++i) out[std::string(actors::name(static_cast<Kind>(i)))] = counts[i];
  return out;
}

Json ends(const std::vector<MeshDescription::End>& of) {
  Json out = Json::array();
  for (const auto& each : of) out.push_back({{"name", each.name}, {"width", each.width}});
  return out;
}

Json journal_of(const agent::AgentStatistics& agent) {
  return {{"acknowledged", agent.acknowledged.tick},
          {"waiting", agent.waiting_bytes},
          {"bytes", agent.journal_bytes},
          {"error", agent.last_error.value_or("")}};
}

Json checkpoint_of(const agent::CheckpointStatistics& written) {
  if (written.written == 0) return {};
  return {{"ticks", written.at.tick},
          {"bytes", written.bytes},
          {"pause_seconds", std::chrono::duration<double>(written.pause).count()}};
}

Json device_of(const mesh::DeviceStatistics& device) {
  return {{"name", device.device},      {"steps", device.device_steps}, {"host_steps", device.host_steps},
          {"faults", device.faults},    {"restarts", device.restarts},  {"last_fault", device.last_fault},
          {"why_host", device.why_host}};
}

}  // namespace

Json summary_of(const ServedMesh& mesh) {
  const auto now = mesh.statistics();
  const MeshDescription& is = mesh.description();
  return {{"name", is.name},
          {"network", is.network},
          {"phase", now->phase},
          {"grid", is.grid},
          {"ticks", now->tick},
          {"sessions", now->sessions.size()},
          {"weight_version", now->weight_version},
          {"weight_bytes", now->weight_bytes},
          {"has_data_directory", !is.directory.empty()}};
}

Json statistics_of(const ServedMesh& mesh) {
  const auto now = mesh.statistics();
  const MeshDescription& is = mesh.description();
  Json out = summary_of(mesh);
  out["layers"] = is.layers;
  out["learners"] = is.learners;
  out["inputs"] = ends(is.inputs);
  out["outputs"] = ends(is.outputs);
  out["ticks_per_second"] = now->ticks_per_second;
  out["samples"] = now->samples;
  out["prequential_accuracy"] = now->accuracy ? Json(*now->accuracy) : Json();
  out["mean_loss"] = now->mean_loss ? Json(*now->mean_loss) : Json();
  out["drifts"] = now->drifts;
  out["late"] = nullptr;
  if (now->late)
    out["late"] = {{"observed", now->late->observed},
                   {"taught", now->late->taught},
                   {"forgone", now->late->forgone},
                   {"expired", now->late->expired},
                   {"open", now->late->open()}};
  out["cells"] = by_name<actors::ActorStatus>(now->cells);
  out["faults"] = by_name<actors::FaultKind>(now->supervision.faults);
  out["decisions"] = by_name<actors::Policy>(now->supervision.decisions);
  out["escalations"] = now->supervision.escalations;
  out["halted"] = now->halted ? Json(*now->halted) : Json();
  out["device"] = now->device ? device_of(*now->device) : Json();
  out["waiting"] = mesh.waiting();
  const auto node = mesh.node();
  out["node"] = node ? Json(node->index) : Json();
  out["journal"] = now->agent ? journal_of(*now->agent) : Json();
  out["checkpoint"] = now->agent ? checkpoint_of(now->agent->checkpoint) : Json();
  out["failed_checkpoints"] = now->agent ? now->agent->checkpoint.failed : 0;
  return out;
}

}  // namespace weft::server
