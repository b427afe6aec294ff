// SPDX-License-Identifier: Apache-2.0

#include "learning/error_schedule.hpp"

#include "learning/rules/rule.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>

namespace weft::learning {

namespace {
// Up to this depth all ticks are kept: a ring is small, and costs no copies.
constexpr std::uint32_t kShallow = 15;
}  // namespace

ErrorSchedule::ErrorSchedule(const mesh::Graph& graph, Rule rule, std::uint32_t horizon, std::uint64_t most)
    : distances_(graph.nodes().size()) {
  const auto& nodes = graph.nodes();
  const bool takes_every_path = rule_of(rule).path == ErrorPath::gradients;
  std::vector<bool> is_reached(nodes.size(), false);
  std::vector<mesh::NodeId> front(graph.outputs());
  std::sort(front.begin(), front.end());
  front.erase(std::unique(front.begin(), front.end()), front.end());
  std::uint64_t count = 0;
  for (std::uint32_t distance = 0; !front.empty() && (horizon == 0 || distance < horizon); ++distance) {
    count += front.size();
    is_cut_ = count > most;
    if (is_cut_) return;
    depth_ = distance + 1;
    std::vector<mesh::NodeId> next;
    for (mesh::NodeId id : front) {
      distances_[id].push_back(distance);
      is_reached[id] = true;
    }
    for (mesh::NodeId id : front) {
      // A hidden state is a link from the layer to itself.
      if (takes_every_path && nodes[id].layer->state_size()) next.push_back(id);
      for (std::uint32_t e : nodes[id].sources) {
        const mesh::NodeId source = graph.edges()[e].from;
        if (!nodes[source].is_port()) next.push_back(source);
      }
    }
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
    const auto is_known = [&](mesh::NodeId id) { return is_reached[id]; };
    if (!takes_every_path) std::erase_if(next, is_known);
    // Without a stated horizon it stops once the error has reached every layer that it can.
    if (takes_every_path && horizon == 0 && std::all_of(next.begin(), next.end(), is_known)) break;
    front = std::move(next);
  }
}

bool ErrorSchedule::has(mesh::NodeId node, std::uint32_t distance) const noexcept {
  return std::binary_search(distances_[node].begin(), distances_[node].end(), distance);
}

History history_of(const LearningOptions& options, std::uint32_t depth, std::uint32_t hold) noexcept {
  const bool is_settle = options.schedule == Schedule::settle, is_direct = rule_of(options).path == ErrorPath::direct;
  const std::size_t ring = std::bit_ceil<std::size_t>(
      is_direct && !is_settle && depth > kShallow ? std::size_t{depth} + 4 : 2 * std::size_t{depth} + 2);
  // Each hop's record is of the sample's own ticks only where these reach back as far.
  if (is_settle && depth > kShallow && depth <= hold) return {2, true};
  return {ring, false};
}

Result<std::uint32_t> latency_of(const mesh::Graph& graph) {
  std::uint32_t latency = 0;
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    std::optional<std::uint32_t> nearest;
    for (const auto& ticks : graph.latencies_to(graph.outputs()[i]))
      if (ticks) nearest = std::max(nearest.value_or(0), *ticks);
    if (!nearest)
      return fail(Errc::invalid_argument,
                  "outputs." + graph.spec().outputs[i].name + ": no input reaches it, so no sample can be scored");
    latency = std::max(latency, *nearest);
  }
  return latency;
}

std::uint32_t hold_of(const mesh::Graph& graph, const LearningOptions& options, std::uint32_t latency) noexcept {
  return options.hold ? options.hold : std::max(latency, graph.settle_ticks());
}

}  // namespace weft::learning
