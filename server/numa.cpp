// SPDX-License-Identifier: Apache-2.0

#include "server/numa.hpp"

#include "core/log.hpp"

#include <algorithm>
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

double local_share(const topology::Plan& plan, std::span<const std::uint32_t> threads) {
  double bytes = 0, local = 0;
  const auto is_on = [](std::uint32_t node) { return [node](std::uint32_t thread) { return thread == node; }; };
  for (std::size_t r = 0; r < plan.regions.size() && !threads.empty(); ++r) {
    const topology::Plan::Region& region = plan.regions[r];
    const auto readers = plan.regions.size() == 1 ? threads : threads.subspan(r % threads.size(), 1);
    const auto near = std::count_if(readers.begin(), readers.end(), is_on(region.assignment.node));
    const double weight = std::max(static_cast<double>(region.bytes), 1.0);
    bytes += weight;
    local += weight * static_cast<double>(near) / static_cast<double>(readers.size());
  }
  return bytes > 0 ? local / bytes : 1.0;
}

double local_share(const topology::Plan& plan, const NumaNode& on) {
  std::vector<std::uint32_t> threads;
  for (const auto& each : topology::core_assignments(on.machine, std::max<std::size_t>(plan.threads, 1)))
    threads.push_back(each.node);
  if (!threads.empty()) threads[0] = topology::current_node(on.machine).value_or(on.index);
  return local_share(plan, threads);
}

void NumaBytes::add(std::uint64_t bytes, double local_share) noexcept {
  const auto here = static_cast<std::uint64_t>(static_cast<double>(bytes) * local_share);
  local.fetch_add(std::min(here, bytes), std::memory_order_relaxed);
  remote.fetch_add(bytes - std::min(here, bytes), std::memory_order_relaxed);
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
