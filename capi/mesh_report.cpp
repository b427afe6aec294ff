// SPDX-License-Identifier: Apache-2.0
// Meshes and machines described in JSON.

#include "capi/internal/arguments.hpp"
#include "capi/internal/objects.hpp"

#include "mesh/device/device_statistics.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/runtime/halt.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include "actors/registry.hpp"
#include "actors/supervisor.hpp"

#include "gpu/device.hpp"

#include "kernels/float_environment.hpp"

#include "core/json.hpp"

#include <string>
#include <utility>
#include <variant>

namespace weft::capi {
namespace {

Json place_of(Coord at) { return Json::array({at.z, at.y, at.x, at.l}); }

Json latencies_of(const mesh::Graph& graph, mesh::NodeId output) {
  Json all = Json::object();
  const auto latencies = graph.latencies_to(output);
  for (std::size_t port = 0; port < latencies.size(); ++port)
    if (latencies[port]) all[graph.nodes()[port].port] = *latencies[port];
  return all;
}

Json parameters_of(const mesh::Node& node) {
  Json all = Json::array();
  for (const mesh::ParameterSpec& spec : node.layer->parameters())
    all.push_back({{"name", spec.name},
                   {"shape", spec.is_matrix() ? Json::array({spec.out, spec.in}) : Json::array({spec.out})}});
  return all;
}

Json description_of(const mesh::Mesh& mesh) {
  const mesh::Graph& graph = mesh.graph();
  const mesh::NetworkSpec& spec = mesh.spec();
  Json out{{"name", spec.name}, {"seed", spec.seed}, {"settle_ticks", graph.settle_ticks()}};
  out["grid"] = {{"z", spec.grid.z}, {"y", spec.grid.y}, {"x", spec.grid.x}, {"layers", spec.grid.layers}};
  out["inputs"] = Json::array();
  out["layers"] = Json::array();
  for (const mesh::Node& node : graph.nodes()) {
    const auto id = static_cast<mesh::NodeId>(&node - graph.nodes().data());
    if (node.is_port()) {
      out["inputs"].push_back({{"name", node.port}, {"shape", node.shape}, {"width", node.width}});
      continue;
    }
    const Encoding& encoding = mesh::MeshAccess::weights(mesh).encoding(id);
    Json row{{"at", place_of(node.at)},
             {"type", graph.layer_spec(id).type},
             {"in", node.in},
             {"shape", node.shape},
             {"width", node.width},
             {"dtype", name(encoding.dtype)},
             {"parameters", parameters_of(node)}};
    const mesh::Options& options = graph.layer_spec(id).options;
    if (const auto activation = options.find("activation"); activation != options.end())
      if (const auto* const text = std::get_if<std::string>(&activation->second)) row["activation"] = *text;
    row["sources"] = Json::array();
    for (const std::uint32_t edge : node.sources) {
      const mesh::Node& from = graph.nodes()[graph.edges()[edge].from];
      row["sources"].push_back(from.is_port() ? Json(from.port) : place_of(from.at));
    }
    out["layers"].push_back(std::move(row));
  }
  out["outputs"] = Json::array();
  for (std::size_t i = 0; i < spec.outputs.size(); ++i) {
    const mesh::Node& node = graph.nodes()[graph.outputs()[i]];
    out["outputs"].push_back({{"name", spec.outputs[i].name},
                              {"at", place_of(node.at)},
                              {"shape", node.shape},
                              {"width", node.width},
                              {"latency", latencies_of(graph, graph.outputs()[i])}});
  }
  return out;
}

Json supervision_of(const mesh::Mesh& mesh) {
  const actors::SupervisionCounters counters = mesh.supervisor().counters();
  Json out{{"escalations", counters.escalations}};
  for (std::size_t i = 0; i < counters.faults.size(); ++i)
    out["faults"][name(static_cast<actors::FaultKind>(i))] = counters.faults[i];
  for (std::size_t i = 0; i < counters.decisions.size(); ++i)
    out["decisions"][name(static_cast<actors::Policy>(i))] = counters.decisions[i];
  return out;
}

Json device_of(const mesh::Mesh& mesh) {
  const mesh::DeviceStatistics* const statistics = mesh.device_statistics();
  if (!statistics) return nullptr;
  return {{"name", statistics->device},           {"device_steps", statistics->device_steps},
          {"host_steps", statistics->host_steps}, {"replays", statistics->replays},
          {"faults", statistics->faults},         {"last_fault", statistics->last_fault},
          {"bytes", statistics->device_bytes},    {"host_cells", statistics->host_cells},
          {"why_host", statistics->why_host}};
}

Json statistics_of(const mesh::Mesh& mesh) {
  const mesh::WeightStore& weights = mesh::MeshAccess::weights(mesh);
  Json out{{"ticks", mesh.ticks()},
           {"sessions", mesh.sessions()},
           {"regions", mesh.plan().regions.size()},
           {"width", mesh.width()},
           {"weights", weights.count()},
           {"weight_bytes", weights.bytes()},
           {"allocated_weight_bytes", weights.allocated_bytes()},
           {"supervision", supervision_of(mesh)},
           {"device", device_of(mesh)}};
  for (std::size_t i = 0; i < actors::kActorStatusCount; ++i)
    out["cells"][name(static_cast<actors::ActorStatus>(i))] =
        mesh.registry().count(static_cast<actors::ActorStatus>(i));
  out["halted"] = nullptr;
  if (const auto halt = mesh::MeshAccess::halt(mesh))
    out["halted"] = {{"tick", halt->tick}, {"kind", name(halt->kind)}, {"reason", halt->reason.data()}};
  return out;
}

Json devices_found() {
  Json all = Json::array({Json{{"selector", "cpu"}, {"name", "cpu"}, {"missing", ""}}});
  const auto found = gpu::devices();
  if (!found) {
    all.push_back({{"selector", "vulkan"}, {"name", ""}, {"missing", found.error().text()}});
    return all;
  }
  for (const gpu::DeviceInfo& device : *found)
    all.push_back({{"selector", "vulkan:" + std::to_string(device.index)},
                   {"name", device.name},
                   {"driver", device.driver},
                   {"kind", device.kind},
                   {"memory_bytes", device.memory_bytes},
                   {"missing", device.missing}});
  return all;
}

}  // namespace
}  // namespace weft::capi

using namespace weft;
using namespace weft::capi;

weft_status weft_mesh_describe(weft_mesh* mesh, char* buffer, size_t capacity, size_t* out_needed) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    return copy_text(description_of(of.state.mesh()).dump(), buffer, capacity, out_needed);
  });
}

weft_status weft_mesh_statistics(weft_mesh* mesh, char* buffer, size_t capacity, size_t* out_needed) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    return copy_text(statistics_of(of.state.mesh()).dump(), buffer, capacity, out_needed);
  });
}

weft_status weft_devices(char* buffer, size_t capacity, size_t* out_needed) {
  return guarded([&]() -> Outcome { return copy_text(devices_found().dump(), buffer, capacity, out_needed); });
}

weft_status weft_take_flushed_results(int* out_flushed) {
  return guarded([&]() -> Outcome {
    WEFT_CHECK(check_out(out_flushed, "out_flushed"));
    *out_flushed = kernels::take_flushed_results().value_or(false) ? 1 : 0;
    return {};
  });
}
