// SPDX-License-Identifier: Apache-2.0

#include "topology/machine.hpp"

#include "topology/internal/machine_impl.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace weft::topology {
namespace {

std::vector<std::uint32_t> members(hwloc_const_bitmap_t set) {
  std::vector<std::uint32_t> result;
  for (int i = hwloc_bitmap_first(set); i != -1; i = hwloc_bitmap_next(set, i)) {
    result.push_back(static_cast<std::uint32_t>(i));
  }
  return result;
}

std::vector<std::uint32_t> common(hwloc_const_bitmap_t a, hwloc_const_bitmap_t b) {
  const Bitmap both = make_bitmap();
  hwloc_bitmap_and(both.get(), a, b);
  return members(both.get());
}

std::uint32_t count_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
  return static_cast<std::uint32_t>(std::max(0, hwloc_get_nbobjs_by_type(topology, type)));
}

CacheInfo cache(hwloc_topology_t topology, hwloc_obj_type_t type) {
  const hwloc_obj_t first = hwloc_get_obj_by_type(topology, type, 0);
  if (!first) return {};
  return {first->attr->cache.size, count_of(topology, type), first->attr->cache.linesize};
}

void read_nodes(const Machine::Impl& impl, MachineInfo& info) {
  const hwloc_const_nodeset_t allowed = hwloc_topology_get_allowed_nodeset(impl.topology);
  for (std::uint32_t i = 0; i < count_of(impl.topology, HWLOC_OBJ_NUMANODE); ++i) {
    const hwloc_obj_t node = hwloc_get_obj_by_type(impl.topology, HWLOC_OBJ_NUMANODE, i);
    NodeInfo entry;
    entry.os_index = node->os_index;
    entry.memory_bytes = node->attr->numanode.local_memory;
    entry.memory_allowed = hwloc_bitmap_isset(allowed, node->os_index);
    info.nodes.push_back(entry);
  }
}

std::uint32_t node_position(const MachineInfo& info, hwloc_const_nodeset_t set) {
  // A core near several nodes (DRAM and high-bandwidth memory) belongs to the first.
  for (std::uint32_t i = 0; i < info.nodes.size(); ++i) {
    if (set && hwloc_bitmap_isset(set, info.nodes[i].os_index)) return i;
  }
  return 0;
}

void read_cores(const Machine::Impl& impl, MachineInfo& info) {
  // Some machines and descriptions name no cores: there a hardware thread is its own core.
  const hwloc_obj_type_t type = count_of(impl.topology, HWLOC_OBJ_CORE) ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  for (std::uint32_t i = 0; i < count_of(impl.topology, type); ++i) {
    const hwloc_obj_t object = hwloc_get_obj_by_type(impl.topology, type, i);
    const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(impl.topology, HWLOC_OBJ_PACKAGE, object);
    CoreInfo core;
    core.index = i;
    core.package = package ? package->logical_index : 0;
    core.node = node_position(info, object->nodeset);
    core.cpus = members(object->cpuset);
    core.usable = common(object->cpuset, impl.affinity.get());
    NodeInfo& node = info.nodes[core.node];
    ++node.cores;
    if (!core.usable.empty()) ++node.usable_cores;
    info.cores.push_back(std::move(core));
  }
}

void read_pages(MachineInfo& info) {
  info.page_bytes = static_cast<std::uint64_t>(std::max(1L, sysconf(_SC_PAGESIZE)));
  if (info.synthetic) return;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/kernel/mm/hugepages", ignored)) {
    const std::string name = entry.path().filename().string();  // hugepages-2048kB
    std::uint64_t kib = 0;
    const std::size_t dash = name.find('-');
    if (dash == std::string::npos) continue;
    std::from_chars(name.data() + dash + 1, name.data() + name.size(), kib);
    if (kib) info.huge_page_bytes.push_back(kib * 1024);
  }
  std::sort(info.huge_page_bytes.begin(), info.huge_page_bytes.end());
  std::ifstream in("/sys/kernel/mm/transparent_hugepage/enabled");  // "always [madvise] never"
  for (std::string word; in >> word;) {
    if (word.size() > 2 && word.front() == '[') info.transparent_huge_pages = word.substr(1, word.size() - 2);
  }
}

/// The variables that tell hwloc to look elsewhere than at the machine, for a message: they are the likely cause.
std::string environment_note() {
  std::string note;
  for (const char* name : {"HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT", "HWLOC_COMPONENTS"})
    if (const char* value = std::getenv(name)) note += (note.empty() ? " (" : ", ") + std::string(name) + "=" + value;
  return note.empty() ? note : note + " is set; correct or unset it)";
}

Status load(Machine::Impl& impl) {
  // Masked parts stay visible: a plan and a diagnosis must be able to say what is not used.
  hwloc_topology_set_flags(impl.topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(impl.topology) != 0) {
    return fail(Errc::unsupported,
                std::string("hwloc cannot load the topology: ") + std::strerror(errno) + environment_note());
  }
  impl.info.synthetic = !hwloc_topology_is_thissystem(impl.topology);
  impl.affinity = make_bitmap();
  hwloc_bitmap_copy(impl.affinity.get(), hwloc_topology_get_allowed_cpuset(impl.topology));
  const Bitmap bound = make_bitmap();
  if (!impl.info.synthetic && hwloc_get_cpubind(impl.topology, bound.get(), HWLOC_CPUBIND_THREAD) == 0) {
    hwloc_bitmap_and(impl.affinity.get(), impl.affinity.get(), bound.get());
  }
  return {};
}

// Everything that follows from the loaded topology and the affinity mask.
void fill(Machine::Impl& impl) {
  MachineInfo& info = impl.info;
  info.packages = std::max(1u, count_of(impl.topology, HWLOC_OBJ_PACKAGE));
  info.cpus = count_of(impl.topology, HWLOC_OBJ_PU);
  info.affinity = members(impl.affinity.get());
  read_nodes(impl, info);
  read_cores(impl, info);
  info.l1d = cache(impl.topology, HWLOC_OBJ_L1CACHE);
  info.l2 = cache(impl.topology, HWLOC_OBJ_L2CACHE);
  info.l3 = cache(impl.topology, HWLOC_OBJ_L3CACHE);
  read_pages(info);
  if (info.name.empty()) {
    const hwloc_obj_t package = hwloc_get_obj_by_type(impl.topology, HWLOC_OBJ_PACKAGE, 0);
    const char* model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : nullptr;
    info.name = model ? model : "unknown CPU";
  }
}

std::string size_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  std::ostringstream out;
  out.precision(value < 100 && value != std::floor(value) ? 1 : 0);
  out << std::fixed << value << ' ' << kUnits[unit];
  return out.str();
}

// 0-3,8 as the kernel writes CPU lists.
std::string list_text(const std::vector<std::uint32_t>& numbers) {
  std::string out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!out.empty()) out += ',';
    out += std::to_string(numbers[i]);
    if (end - i > 1) out.append("-").append(std::to_string(numbers[end - 1]));
    i = end;
  }
  return out;
}

void print_cache(std::ostream& out, const char* name, const CacheInfo& cache) {
  if (cache.bytes) out << ' ' << name << ' ' << size_text(cache.bytes) << " x" << cache.count;
}

}  // namespace

Result<Machine> Machine::discover() {
  auto impl = std::make_shared<Impl>();
  if (hwloc_topology_init(&impl->topology) != 0) return fail(Errc::unsupported, "hwloc cannot be initialised");
  WEFT_CHECK(load(*impl));
  if (!impl->info.synthetic) impl->info.quota = read_quota();
  fill(*impl);
  return Machine(std::move(impl));
}

Result<Machine> Machine::synthetic(std::string description, SyntheticOptions options) {
  auto impl = std::make_shared<Impl>();
  if (hwloc_topology_init(&impl->topology) != 0) return fail(Errc::unsupported, "hwloc cannot be initialised");
  if (hwloc_topology_set_synthetic(impl->topology, description.c_str()) != 0) {
    return fail(Errc::parse_failed, "topology '" + description + "' is not a synthetic description");
  }
  WEFT_CHECK(load(*impl));
  for (const std::uint32_t cpu : options.masked_cpus) hwloc_bitmap_clr(impl->affinity.get(), cpu);
  if (hwloc_bitmap_iszero(impl->affinity.get())) {
    return fail(Errc::invalid_argument, "topology '" + description + "': every CPU is masked");
  }
  impl->info.quota = {options.quota_cpus > 0 ? 2 : 0, options.quota_cpus, options.quota_cpus > 0 ? "synthetic" : ""};
  impl->info.name = std::move(description);
  fill(*impl);
  return Machine(std::move(impl));
}

Result<Machine> Machine::on_node(std::uint32_t node) const {
  const MachineInfo& all = info();
  if (node >= all.nodes.size() || all.nodes[node].masked())
    return fail(Errc::invalid_argument, "NUMA node " + std::to_string(node) + " has no usable CPU");
  auto impl = std::make_shared<Impl>();
  if (hwloc_topology_dup(&impl->topology, impl_->topology) != 0)
    return fail(Errc::unsupported, "hwloc cannot copy the topology");
  impl->affinity = make_bitmap();
  for (const CoreInfo& core : all.cores)
    if (core.node == node)
      for (const std::uint32_t cpu : core.usable) hwloc_bitmap_set(impl->affinity.get(), cpu);
  impl->info.name = all.name;
  impl->info.synthetic = all.synthetic;
  impl->info.quota = all.quota;
  fill(*impl);
  return Machine(std::move(impl));
}

std::vector<std::uint32_t> Machine::usable_nodes() const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t i = 0; i < info().nodes.size(); ++i)
    if (!info().nodes[i].masked() && info().nodes[i].memory_allowed) found.push_back(i);
  for (std::uint32_t i = 0; found.empty() && i < info().nodes.size(); ++i)
    if (!info().nodes[i].masked()) found.push_back(i);
  return found;
}

const MachineInfo& Machine::info() const noexcept { return impl_->info; }

std::size_t Machine::usable_cpus() const noexcept {
  const std::size_t allowed = impl_->info.affinity.size();
  const double quota = impl_->info.quota.cpus;
  if (quota <= 0 || quota >= static_cast<double>(allowed)) return std::max<std::size_t>(1, allowed);
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(quota)));
}

std::size_t Machine::usable_cores() const noexcept {
  std::size_t count = 0;
  for (const CoreInfo& core : impl_->info.cores) count += !core.usable.empty();
  return std::max<std::size_t>(1, count);
}

std::string Machine::describe() const {
  const MachineInfo& machine = info();
  std::ostringstream out;
  out << "machine: " << machine.name << (machine.synthetic ? " (synthetic)" : "") << '\n'
      << "  " << machine.packages << " package(s), " << machine.nodes.size() << " NUMA node(s), "
      << machine.cores.size() << " core(s), " << machine.cpus << " hardware thread(s)\n";
  out << "  caches:";
  print_cache(out, "L1d", machine.l1d);
  print_cache(out, "L2", machine.l2);
  print_cache(out, "L3", machine.l3);
  out << "\n  pages: " << size_text(machine.page_bytes);
  for (const std::uint64_t bytes : machine.huge_page_bytes) out << ", " << size_text(bytes);
  if (!machine.transparent_huge_pages.empty()) out << "; transparent huge pages: " << machine.transparent_huge_pages;
  out << "\n  affinity: CPUs " << list_text(machine.affinity) << "; quota: ";
  if (machine.quota.cpus > 0) {
    out << machine.quota.cpus << " CPUs (" << machine.quota.source << ")";
  } else {
    out << "none";
  }
  out << "; usable: " << usable_cpus() << " CPU(s) on " << usable_cores() << " core(s)\n";
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    const NodeInfo& node = machine.nodes[i];
    out << "  node " << i << " (OS " << node.os_index << "): " << size_text(node.memory_bytes) << ", "
        << node.usable_cores << " of " << node.cores << " core(s) usable" << (node.masked() ? ", masked" : "")
        << (node.memory_allowed ? "" : ", memory not allowed") << '\n';
  }
  return out.str();
}

}  // namespace weft::topology
