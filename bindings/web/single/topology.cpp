// SPDX-License-Identifier: Apache-2.0
// The room topology without hwloc: one core, one node, memory from the allocator, whose limit is the module's own.

#include "topology/core_assignment.hpp"
#include "topology/machine.hpp"
#include "topology/memory_limits.hpp"
#include "topology/node_memory.hpp"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

namespace weft::topology {

struct Machine::Impl {
  MachineInfo info;
};

Result<Machine> Machine::discover() {
  auto impl = std::make_shared<Impl>();
  MachineInfo& info = impl->info;
  info.name = "WebAssembly";
  info.packages = info.cpus = 1;
  info.nodes.push_back({0, 0, 1, 1, true});
  info.cores.push_back({0, 0, 0, {0}, {0}});
  info.page_bytes = 65536;
  info.affinity = {0};
  return Machine(std::move(impl));
}

Result<Machine> Machine::synthetic(std::string description, SyntheticOptions) {
  return fail(Errc::unsupported, "topology '" + description + "': this build has one thread");
}

const MachineInfo& Machine::info() const noexcept { return impl_->info; }
std::size_t Machine::usable_cpus() const noexcept { return 1; }
std::size_t Machine::usable_cores() const noexcept { return 1; }
std::string Machine::describe() const { return "machine: " + info().name + ", one thread\n"; }

std::vector<CoreAssignment> core_assignments(const Machine&, std::size_t threads) {
  return std::vector<CoreAssignment>(std::max<std::size_t>(1, threads));
}

struct ThreadBinding::Impl {};
ThreadBinding::ThreadBinding(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ThreadBinding::ThreadBinding(ThreadBinding&&) noexcept = default;
ThreadBinding& ThreadBinding::operator=(ThreadBinding&&) noexcept = default;
ThreadBinding::~ThreadBinding() = default;
Result<ThreadBinding> ThreadBinding::pin(const Machine&, std::uint32_t core) {
  return fail(Errc::unsupported, "cannot pin a thread to core " + std::to_string(core) + ": this build has one thread");
}
bool is_on_core(const Machine&, std::uint32_t) noexcept { return false; }
bool move_to_core(const Machine&, std::uint32_t) noexcept { return false; }

namespace detail {
struct NodeLedger {
  std::uint64_t bytes = 0;
};
}  // namespace detail

namespace {
constexpr std::size_t kAlignment = 64, kMost = std::size_t{1} << 31;  // to which the module's memory may grow
}

const MemoryLimit* MemoryLimits::tightest() const noexcept { return limits.data(); }

MemoryLimits read_memory_limits() {
  const std::uint64_t used = mallinfo().uordblks;
  return {{{kMost, used < kMost ? kMost - used : 0, "memory of WebAssembly"}}, 0};
}

NodeMemory::NodeMemory(Machine) : ledger_(std::make_shared<detail::NodeLedger>()) {}

Result<NodeBuffer> NodeMemory::allocate(std::size_t bytes, std::uint32_t node) {
  if (node != 0) return fail(Errc::out_of_range, "memory on node " + std::to_string(node) + " of 1");
  NodeBuffer buffer;
  if (bytes == 0) return buffer;
  const std::size_t mapped = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  buffer.mapping_ = bytes < kMost ? std::aligned_alloc(kAlignment, mapped) : nullptr;
  if (!buffer.mapping_) return fail(Errc::too_large, std::to_string(bytes) + " bytes of memory");
  std::memset(buffer.mapping_, 0, mapped);
  buffer.mapped_ = mapped;
  buffer.data_ = static_cast<std::byte*>(buffer.mapping_);
  buffer.size_ = bytes;
  buffer.ledger_ = ledger_;
  ledger_->bytes += mapped;
  return buffer;
}

std::uint64_t NodeMemory::bytes(std::uint32_t node) const noexcept { return node == 0 ? ledger_->bytes : 0; }

NodeBuffer::~NodeBuffer() {
  if (!mapping_) return;
  ledger_->bytes -= mapped_;
  std::free(mapping_);
}

void NodeBuffer::swap(NodeBuffer& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(node_, other.node_);
  std::swap(bound_, other.bound_);
  std::swap(ledger_, other.ledger_);
}

}  // namespace weft::topology
