// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "topology/core_assignment.hpp"
#include "topology/machine.hpp"
#include "topology/plan.hpp"

#include "core/result.hpp"

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace weft::server {

/// Places of meshes and language models on a machine with several NUMA nodes. off: wherever the system has room;
/// distribute: each on one node, in turn; replicas: a language model on every node, meshes as before.
enum class NumaMode { off, distribute, replicas };
std::optional<NumaMode> parse_numa_mode(std::string_view text) noexcept;

/// A node whose cores and memory this process may use.
struct NumaNode {
  std::uint32_t index = 0;    ///< position in MachineInfo::nodes
  topology::Machine machine;  ///< with the cores of this node alone
};

/// Nodes that meshes and models are given to. Results never depend on them.
/// @thread an immutable value
struct NumaPlacement {
  NumaMode mode = NumaMode::off;
  std::vector<NumaNode> nodes;  ///< none with `off`; at least one else

  /// @error as Machine::on_node
  static Result<NumaPlacement> make(NumaMode mode, const topology::Machine& machine);
};

/// Share of a mesh's weights that its threads read from their own nodes: by where its plan puts weights, threads, and
/// the calling thread, which is one of them. A region is read by its thread, the only one by all in equal parts.
double local_share(const topology::Plan& plan, const NumaNode& on);
/// The same; `threads`: the node of each thread.
double local_share(const topology::Plan& plan, std::span<const std::uint32_t> threads);

/// Bytes of weights that were read, by whether they lie on the node of the thread. @thread any
struct NumaBytes {
  std::atomic<std::uint64_t> local{0}, remote{0};
  void add(std::uint64_t bytes, double local_share) noexcept;
};

/// Keeps the thread that made it on a node, where there is one and the system lets it.
class OnNode {
 public:
  explicit OnNode(const std::optional<NumaNode>& node);

 private:
  std::optional<topology::ThreadBinding> binding_;
};

}  // namespace weft::server
