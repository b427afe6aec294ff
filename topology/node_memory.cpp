// SPDX-License-Identifier: Apache-2.0

#include "topology/node_memory.hpp"

#include "topology/internal/machine_impl.hpp"

#include "core/log.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

namespace weft::topology {

namespace detail {
struct NodeLedger {
  explicit NodeLedger(Machine of) : machine(std::move(of)), bytes(machine.info().nodes.size()) {}
  Machine machine;
  std::vector<std::atomic<std::uint64_t>> bytes;  // relaxed: a figure, it hands nothing over
};
}  // namespace detail

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kMost = std::size_t{1} << 46;  // beyond any address space we can map

std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

void log_fallback_once(const std::string& reason) {
  static std::atomic<bool> told{false};
  if (!told.exchange(true, std::memory_order_relaxed)) {
    log_warn("memory is not bound to its NUMA node: " + reason);
  }
}

// Preferring the node, not insisting: a full node then spills over where a strict binding would be killed.
void* map_on_node(const Machine& machine, std::size_t bytes, std::uint32_t node) {
  const MachineInfo& info = machine.info();
  if (info.synthetic) return nullptr;
  const Bitmap set = make_bitmap();
  hwloc_bitmap_set(set.get(), info.nodes[node].os_index);
  void* memory =
      hwloc_alloc_membind(machine.impl().topology, bytes, set.get(), HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_BYNODESET);
  // With a single node there is nothing to lose, so nothing to tell.
  if (!memory && info.nodes.size() > 1) log_fallback_once("node " + std::to_string(node) + ": " + std::strerror(errno));
  return memory;
}

void* map_anywhere(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

NodeMemory::NodeMemory(Machine machine) : ledger_(std::make_shared<detail::NodeLedger>(std::move(machine))) {}

Result<NodeBuffer> NodeMemory::allocate(std::size_t bytes, std::uint32_t node) {
  const MachineInfo& info = ledger_->machine.info();
  if (node >= info.nodes.size()) {
    return fail(Errc::out_of_range,
                "memory on node " + std::to_string(node) + " of " + std::to_string(info.nodes.size()));
  }
  NodeBuffer buffer;
  if (bytes == 0) return buffer;
  if (bytes > kMost) return fail(Errc::too_large, std::to_string(bytes) + " bytes of memory");
  const bool huge = bytes >= kHugePage;
  // Mappings start on any page; space for one huge page more lets the buffer start on a huge one.
  buffer.mapped_ = huge ? round_up(bytes, kHugePage) + kHugePage : round_up(bytes, info.page_bytes);
  buffer.mapping_ = map_on_node(ledger_->machine, buffer.mapped_, node);
  buffer.bound_ = buffer.mapping_ != nullptr;
  if (!buffer.mapping_) buffer.mapping_ = map_anywhere(buffer.mapped_);
  if (!buffer.mapping_) {
    return fail(Errc::too_large, std::to_string(bytes) + " bytes of memory: " + std::strerror(errno));
  }
  auto address = reinterpret_cast<std::uintptr_t>(buffer.mapping_);
  if (huge) {
    address = round_up(address, kHugePage);
#ifdef MADV_HUGEPAGE
    // A kernel without huge pages refuses; small ones serve as well.
    static_cast<void>(madvise(reinterpret_cast<void*>(address), round_up(bytes, kHugePage), MADV_HUGEPAGE));
#endif
  }
  buffer.data_ = reinterpret_cast<std::byte*>(address);
  buffer.size_ = bytes;
  buffer.node_ = node;
  buffer.ledger_ = ledger_;
  ledger_->bytes[node].fetch_add(round_up(bytes, info.page_bytes), std::memory_order_relaxed);
  return buffer;
}

std::uint64_t NodeMemory::bytes(std::uint32_t node) const noexcept {
  return node < ledger_->bytes.size() ? ledger_->bytes[node].load(std::memory_order_relaxed) : 0;
}

NodeBuffer::~NodeBuffer() {
  if (!mapping_) return;
  const MachineInfo& info = ledger_->machine.info();
  ledger_->bytes[node_].fetch_sub(round_up(size_, info.page_bytes), std::memory_order_relaxed);
  if (bound_) {
    hwloc_free(ledger_->machine.impl().topology, mapping_, mapped_);
  } else {
    munmap(mapping_, mapped_);
  }
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
