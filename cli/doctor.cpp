// SPDX-License-Identifier: Apache-2.0

#include "cli/doctor_gpu.hpp"
#include "cli/doctor_system.hpp"
#include "cli/json_line.hpp"
#include "cli/model.hpp"
#include "cli/terminal.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/runtime/cell.hpp"

#include "scheduler/executor.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/isa.hpp"

#include "topology/machine.hpp"
#include "topology/memory_limits.hpp"

#include "core/json.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

namespace weft::cli {
namespace {

Json cache_json(const topology::CacheInfo& cache) {
  return {{"bytes", cache.bytes}, {"count", cache.count}, {"line_bytes", cache.line_bytes}};
}

Json nodes_json(const topology::MachineInfo& info) {
  Json nodes = Json::array();
  for (const topology::NodeInfo& node : info.nodes)
    nodes.push_back({{"os_index", node.os_index},
                     {"memory_bytes", node.memory_bytes},
                     {"cores", node.cores},
                     {"usable_cores", node.usable_cores},
                     {"memory_allowed", node.memory_allowed}});
  return nodes;
}

/// Places of `weft serve --numa`.
Json numa_json(const topology::Machine& machine) {
  Json nodes = Json::array();
  for (const std::uint32_t node : machine.usable_nodes()) {
    const topology::NodeInfo& is = machine.info().nodes[node];
    nodes.push_back({{"node", node}, {"cores", is.usable_cores}, {"memory_bytes", is.memory_bytes}});
  }
  return {{"replicas", nodes.size()}, {"nodes", nodes}};
}

Json memory_json() {
  const topology::MemoryLimits memory = topology::read_memory_limits();
  Json limits = Json::array();
  for (const topology::MemoryLimit& limit : memory.limits)
    limits.push_back({{"bytes", limit.bytes}, {"free", limit.free}, {"source", limit.source}});
  const topology::MemoryLimit* const tightest = memory.tightest();
  return {{"limits", limits},
          {"cgroup_version", memory.cgroup_version},
          {"free", tightest ? Json(tightest->free) : Json()},
          {"source", tightest ? Json(tightest->source) : Json()}};
}

/// Requirements of the arithmetic contract on the CPU, tested by computing.
Json flush_json() {
  const bool before = kernels::flushes_subnormals();
  bool inside = false;
  {
    const kernels::FlushSubnormals exact;
    inside = kernels::flushes_subnormals();
  }
  return {{"flushes", inside}, {"restored", kernels::flushes_subnormals() == before}};
}

Json isa_json() {
  Json available = Json::array();
  for (const kernels::Isa isa : kernels::available_isas()) available.push_back(name(isa));
  const char* forced = std::getenv("WEFT_ISA");
  const Status environment = kernels::check_isa_environment();
  return {{"active", name(kernels::active_isa())},
          {"available", available},
          {"WEFT_ISA", forced ? Json(forced) : Json()},
          {"problem", environment ? Json() : Json(environment.error().text())}};
}

Json machine_json(const topology::Machine& machine) {
  const topology::MachineInfo& info = machine.info();
  return {{"cpu", info.name},
          {"packages", info.packages},
          {"cores", info.cores.size()},
          {"cpus", info.cpus},
          {"usable_cores", machine.usable_cores()},
          {"usable_cpus", machine.usable_cpus()},
          {"affinity", info.affinity},
          {"caches", {{"l1d", cache_json(info.l1d)}, {"l2", cache_json(info.l2)}, {"l3", cache_json(info.l3)}}},
          {"numa_nodes", nodes_json(info)},
          {"cgroup",
           {{"version", info.quota.cgroup_version},
            {"cpus", info.quota.cpus > 0 ? Json(info.quota.cpus) : Json()},
            {"source", info.quota.source}}},
          {"page_bytes", info.page_bytes},
          {"huge_page_bytes", info.huge_page_bytes},
          {"transparent_huge_pages", info.transparent_huge_pages},
          {"memory", memory_json()}};
}

std::string why_so_many_regions(const mesh::Mesh& mesh, std::size_t threads) {
  const topology::Plan& plan = mesh.plan();
  std::uint64_t bytes = 0;
  for (const auto& region : plan.regions) bytes += region.bytes;
  const std::string read = "a tick reads " + byte_size(bytes);
  if (plan.regions.size() >= threads) return read + ": enough for a region on every thread";
  if (plan.regions.size() == mesh::MeshAccess::cells(mesh).size())
    return "one region for each cell; there are no more cells";
  return read + "; a further thread pays from " + byte_size(mesh.options().grain_bytes) + " each";
}

Result<Json> placement_json(const std::string& file, std::size_t threads, std::uint64_t max_memory) {
  WEFT_TRY(const Model model, read_model(file));
  mesh::MeshOptions options;
  options.max_memory = max_memory;
  auto built = mesh::Mesh::build(model.spec, options);
  if (!built) return fail(blamed(std::move(built).error(), file));
  const mesh::Mesh& mesh = *built;
  Json regions = Json::array();
  for (const auto& region : mesh.plan().regions) {
    Json cells = Json::array();
    for (std::uint32_t cell = region.begin; cell < region.end; ++cell)
      cells.push_back(to_string(mesh::MeshAccess::cells(mesh)[cell]->at()));
    regions.push_back({{"core", region.assignment.core},
                       {"numa_node", region.assignment.node},
                       {"bytes", region.bytes},
                       {"multiply_adds", region.work},
                       {"neighbours", region.neighbours},
                       {"cells", cells}});
  }
  return Json{{"network", model.spec.name},
              {"regions", regions},
              {"links_between_regions", mesh.plan().cut_links},
              {"why", why_so_many_regions(mesh, threads)}};
}

void print_machine(const Json& m) {
  const auto size = [](const Json& bytes) { return bytes == 0 ? std::string("unknown") : byte_size(bytes); };
  std::printf("CPU          %s\n", m["cpu"].get<std::string>().c_str());
  std::printf("             %s package, %s cores, %s hardware threads\n", m["packages"].dump().c_str(),
              m["cores"].dump().c_str(), m["cpus"].dump().c_str());
  std::printf("usable       %s cores, %s CPUs (affinity %s)\n", m["usable_cores"].dump().c_str(),
              m["usable_cpus"].dump().c_str(), m["affinity"].dump().c_str());
  const auto& cgroup = m["cgroup"];
  if (cgroup["cpus"].is_null())
    std::printf("cgroup       v%s, no limit of CPU time\n", cgroup["version"].dump().c_str());
  else
    std::printf("cgroup       v%s, %s CPUs by %s\n", cgroup["version"].dump().c_str(), cgroup["cpus"].dump().c_str(),
                cgroup["source"].get<std::string>().c_str());
  for (const auto& limit : m["memory"]["limits"])
    std::printf("memory       %s, %s free, by %s\n", byte_size(limit["bytes"]).c_str(),
                byte_size(limit["free"]).c_str(), limit["source"].get<std::string>().c_str());
  for (const auto& [level, cache] : m["caches"].members())
    std::printf("%-3s cache    %s x %s, lines of %s bytes\n", level.c_str(), cache["count"].dump().c_str(),
                size(cache["bytes"]).c_str(), cache["line_bytes"].dump().c_str());
  for (const auto& node : m["numa_nodes"])
    std::printf("NUMA node %-2s %s of %s cores usable, %s%s\n", node["os_index"].dump().c_str(),
                node["usable_cores"].dump().c_str(), node["cores"].dump().c_str(), size(node["memory_bytes"]).c_str(),
                node["memory_allowed"] == true ? "" : ", no memory for us");
  std::string huge;
  for (const auto& bytes : m["huge_page_bytes"]) huge += (huge.empty() ? "" : ", ") + byte_size(bytes);
  const std::string transparent = m["transparent_huge_pages"];
  std::printf("huge pages   transparent: %s; explicit: %s\n", transparent.empty() ? "unknown" : transparent.c_str(),
              huge.empty() ? "none" : huge.c_str());
}

void print(const Json& d) {
  const auto& isa = d["isa"];
  std::printf("weft         %s\n", d["version"].get<std::string>().c_str());
  print_system(d["system"], d["disk"]);
  print_machine(d["machine"]);
  std::string places;
  for (const auto& node : d["numa"]["nodes"])
    places += (places.empty() ? "" : ", ") + std::string("node ") + node["node"].dump() + " with " +
              node["cores"].dump() + " cores";
  std::printf("serve --numa replicas: %s of each language model (%s); distribute: each in turn on one\n",
              d["numa"]["replicas"].dump().c_str(), places.c_str());
  std::string available;
  for (const auto& each : isa["available"]) available += " " + each.get<std::string>();
  std::printf("kernels      %s (of:%s%s)\n", isa["active"].get<std::string>().c_str(), available.c_str(),
              isa["WEFT_ISA"].is_null() ? "" : ("; WEFT_ISA=" + isa["WEFT_ISA"].get<std::string>()).c_str());
  if (!isa["problem"].is_null()) std::printf("             problem: %s\n", isa["problem"].get<std::string>().c_str());
  std::printf("subnormals   %s\n", d["subnormals"]["flushes"] == true && d["subnormals"]["restored"] == true
                                       ? "flushed in kernels, the thread's own mode restored"
                                       : "problem: not flushed as the arithmetic contract needs");
  std::printf("executor     %s, %s threads; the task graph takes memory while it runs, --executor resident none\n",
              d["executor"]["name"].get<std::string>().c_str(), d["executor"]["threads"].dump().c_str());
  print_gpu(d["gpu"]);
  print_unreached(d["unreached_devices"]);
  if (!d.contains("placement")) return;
  const auto& placement = d["placement"];
  std::printf("\n%s: %s\n", placement["network"].get<std::string>().c_str(),
              placement["why"].get<std::string>().c_str());
  std::size_t index = 0;
  for (const auto& region : placement["regions"]) {
    const auto& cells = region["cells"];
    std::printf("region %-4zu  core %s, NUMA node %s: %zu cells, %s to %s; %s, %s multiply-adds a tick\n", index++,
                region["core"].dump().c_str(), region["numa_node"].dump().c_str(), cells.size(),
                cells.front().get<std::string>().c_str(), cells.back().get<std::string>().c_str(),
                byte_size(region["bytes"]).c_str(), short_number(region["multiply_adds"]).c_str());
  }
  std::printf("             %s links go from region to region\n", placement["links_between_regions"].dump().c_str());
}

Status doctor(const std::string& file, std::uint64_t max_memory, bool json) {
  WEFT_TRY(const auto machine, topology::Machine::discover());
  WEFT_TRY(const auto executor, scheduler::make_executor(machine, {}));
  Json d{{"version", WEFT_VERSION},    {"system", system_json()},
         {"disk", disk_json()},        {"machine", machine_json(machine)},
         {"numa", numa_json(machine)}, {"isa", isa_json()},
         {"subnormals", flush_json()}, {"executor", {{"name", executor->name()}, {"threads", executor->concurrency()}}},
         {"gpu", gpu_json()}};
  d["unreached_devices"] = unreached_json(d["gpu"]);
  Status placed;
  if (!file.empty()) {
    auto placement = placement_json(file, executor->concurrency(), max_memory);
    if (placement)
      d["placement"] = *std::move(placement);
    else
      placed = fail(std::move(placement).error());
    // That a network has no room says something of this machine, whose limits are shown first.
    if (!placed && placed.error().code() != Errc::too_large) return placed;
  }
  const bool is_well =
      d["isa"]["problem"].is_null() && d["subnormals"]["flushes"] == true && d["subnormals"]["restored"] == true;
  d["well"] = is_well;
  if (json)
    print_json(d);
  else
    print(escaped_texts(d));
  if (!d["isa"]["problem"].is_null()) return kernels::check_isa_environment();
  WEFT_CHECK(placed);
  if (!is_well) return fail(Errc::unsupported, "this CPU does not flush subnormals as the arithmetic contract needs");
  return {};
}

}  // namespace

Verb add_doctor(CLI::App& program) {
  CLI::App* app = add_verb(program, "doctor", "Show the machine as Weft sees it, and what runs where and why");
  struct Request {
    std::string file;
    std::uint64_t max_memory = 0;
    bool json = false;
  };
  auto request = std::make_shared<Request>();
  add_argument(*app, "NETWORK", request->file, "Also show where this network's cells would run");
  add_max_memory(*app, request->max_memory);
  add_flag(*app, "json", request->json, "One JSON object on stdout");
  return {app, [request] { return doctor(request->file, request->max_memory, request->json); }};
}

}  // namespace weft::cli
