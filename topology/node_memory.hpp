// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "topology/machine.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace weft::topology {

namespace detail {
struct NodeLedger;
}

/// Zeroed memory on one NUMA node. Page-aligned; from 2 MiB on, aligned to 2 MiB and offered huge pages.
/// Pages are allocated when first touched, on the bound node.
class NodeBuffer {
 public:
  NodeBuffer() = default;
  NodeBuffer(NodeBuffer&& other) noexcept { swap(other); }
  NodeBuffer& operator=(NodeBuffer&& other) noexcept {
    NodeBuffer(std::move(other)).swap(*this);
    return *this;
  }
  ~NodeBuffer();

  std::byte* data() noexcept { return data_; }
  const std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  /// Position of its node in MachineInfo::nodes.
  std::uint32_t node() const noexcept { return node_; }
  /// False: the system placed it, since binding was refused or the machine is synthetic.
  bool bound() const noexcept { return bound_; }

  template <class T>
  std::span<T> as() noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    return {reinterpret_cast<T*>(data_), size_ / sizeof(T)};
  }

 private:
  friend class NodeMemory;
  void swap(NodeBuffer& other) noexcept;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  std::uint32_t node_ = 0;
  bool bound_ = false;
  std::shared_ptr<detail::NodeLedger> ledger_;
};

/// Hands out node-local memory and keeps account of it. One allocation is at least a page: take one
/// buffer per region and cut it up.
/// @thread any
class NodeMemory {
 public:
  explicit NodeMemory(Machine machine);

  /// Falls back to unbound memory when the system refuses to bind (the reason is logged once).
  /// @error out_of_range: no such node; too_large: no such memory
  Result<NodeBuffer> allocate(std::size_t bytes, std::uint32_t node);

  /// Bytes held on `node` now (rounded to pages), bound or not.
  std::uint64_t bytes(std::uint32_t node) const noexcept;

 private:
  std::shared_ptr<detail::NodeLedger> ledger_;
};

}  // namespace weft::topology
