// SPDX-License-Identifier: Apache-2.0

#include "topology/core_assignment.hpp"

#include "topology/internal/machine_impl.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft::topology {

std::vector<CoreAssignment> core_assignments(const Machine& machine, std::size_t threads) {
  std::vector<CoreAssignment> cores;
  for (const CoreInfo& core : machine.info().cores) {
    if (!core.usable.empty()) cores.push_back({core.index, core.node});
  }
  std::stable_sort(cores.begin(), cores.end(),
                   [](const CoreAssignment& a, const CoreAssignment& b) { return a.node < b.node; });
  if (cores.empty()) cores.push_back({});
  if (threads == 0) threads = std::min(machine.usable_cpus(), cores.size());
  std::vector<CoreAssignment> result(threads);
  for (std::size_t i = 0; i < threads; ++i) {
    result[i] = threads <= cores.size() ? cores[i] : cores[i * cores.size() / threads];
  }
  return result;
}

struct ThreadBinding::Impl {
  Machine machine;
  Bitmap before;
};

ThreadBinding::ThreadBinding(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ThreadBinding::ThreadBinding(ThreadBinding&&) noexcept = default;
ThreadBinding& ThreadBinding::operator=(ThreadBinding&& other) noexcept {
  ThreadBinding old(std::move(other));
  std::swap(impl_, old.impl_);
  return *this;
}

ThreadBinding::~ThreadBinding() {
  if (!impl_) return;
  hwloc_set_cpubind(impl_->machine.impl().topology, impl_->before.get(), HWLOC_CPUBIND_THREAD);
}

Result<ThreadBinding> ThreadBinding::pin(const Machine& machine, std::uint32_t core) {
  const MachineInfo& info = machine.info();
  if (core >= info.cores.size() || info.cores[core].usable.empty()) {
    return fail(Errc::invalid_argument, "core " + std::to_string(core) + " is not usable");
  }
  return pin_to(machine, info.cores[core].usable, "core " + std::to_string(core));
}

Result<ThreadBinding> ThreadBinding::pin_to_node(const Machine& machine, std::uint32_t node) {
  std::vector<std::uint32_t> cpus;
  for (const CoreInfo& core : machine.info().cores)
    if (core.node == node) cpus.insert(cpus.end(), core.usable.begin(), core.usable.end());
  if (cpus.empty()) return fail(Errc::invalid_argument, "NUMA node " + std::to_string(node) + " has no usable CPU");
  return pin_to(machine, cpus, "NUMA node " + std::to_string(node));
}

Result<ThreadBinding> ThreadBinding::pin_to(const Machine& machine, const std::vector<std::uint32_t>& cpus,
                                            const std::string& what) {
  if (machine.info().synthetic) return fail(Errc::unsupported, "cannot pin a thread on a synthetic machine");
  const hwloc_topology_t topology = machine.impl().topology;
  auto impl = std::make_unique<Impl>(Impl{machine, make_bitmap()});
  const Bitmap wanted = make_bitmap();
  for (const std::uint32_t cpu : cpus) hwloc_bitmap_set(wanted.get(), cpu);
  if (hwloc_get_cpubind(topology, impl->before.get(), HWLOC_CPUBIND_THREAD) != 0 ||
      hwloc_set_cpubind(topology, wanted.get(), HWLOC_CPUBIND_THREAD) != 0) {
    return fail(Errc::unsupported, "cannot pin a thread to " + what + ": " + std::strerror(errno));
  }
  return ThreadBinding(std::move(impl));
}

std::optional<std::uint32_t> current_node(const Machine& machine) noexcept {
  const MachineInfo& info = machine.info();
  if (info.synthetic) return std::nullopt;
  const int cpu = sched_getcpu();
  for (const CoreInfo& core : info.cores)
    for (const std::uint32_t own : core.cpus)
      if (static_cast<int>(own) == cpu) return core.node;
  return std::nullopt;
}

bool is_on_core(const Machine& machine, std::uint32_t core) noexcept {
  const MachineInfo& info = machine.info();
  if (info.synthetic || core >= info.cores.size()) return false;
  const int cpu = sched_getcpu();
  for (const std::uint32_t own : info.cores[core].cpus) {
    if (static_cast<int>(own) == cpu) return true;
  }
  return false;
}

bool move_to_core(const Machine& machine, std::uint32_t core) noexcept {
  const MachineInfo& info = machine.info();
  if (info.synthetic || core >= info.cores.size()) return false;
  cpu_set_t before, wanted;
  CPU_ZERO(&wanted);
  if (sched_getaffinity(0, sizeof before, &before) != 0) return false;
  for (const std::uint32_t cpu : info.cores[core].usable) {
    if (cpu < CPU_SETSIZE && CPU_ISSET(cpu, &before)) CPU_SET(cpu, &wanted);
  }
  if (CPU_COUNT(&wanted) == 0 || sched_setaffinity(0, sizeof wanted, &wanted) != 0) return false;
  return sched_setaffinity(0, sizeof before, &before) == 0;
}

}  // namespace weft::topology
