// SPDX-License-Identifier: Apache-2.0

#include "server/numa.hpp"

#include "core/log.hpp"

#include <string>
#include <utility>

namespace weft::server {

std::optional<NumaMode> parse_numa_mode(std::string_view text) noexcept {
  if (text == "off") return NumaMode::off;
  if (text == "distribute") return NumaMode::distribute;
  if (text == "replicas") return NumaMode::replicas;
  return std::nullopt;
}

Result<NumaPlacement> NumaPlacement::make(NumaMode mode, const topology::Machine& machine) {
  NumaPlacement made{mode, {}};
  if (mode == NumaMode::off) return made;
  for (const std::uint32_t node : machine.usable_nodes()) {
    WEFT_TRY(topology::Machine part, machine.on_node(node));
    made.nodes.push_back({node, std::move(part)});
  }
  return made;
}

OnNode::OnNode(const std::optional<NumaNode>& node) {
  if (!node || node->machine.info().synthetic) return;
  auto made = topology::ThreadBinding::pin_to_node(node->machine, node->index);
  if (made)
    binding_ = *std::move(made);
  else
    log_warn("NUMA node " + std::to_string(node->index) + ": " + made.error().text());
}

}  // namespace weft::server
