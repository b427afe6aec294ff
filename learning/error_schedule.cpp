// SPDX-License-Identifier: Apache-2.0

#include "learning/error_schedule.hpp"

#include "learning/rules/rule.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <utility>

namespace weft::learning {

namespace {
// Up to this depth a settled sample's past is read from rings: 32 ticks at most, which cost no copies.
constexpr std::uint32_t kShallow = 15;
// Links that errors go on through hidden states, without a stated horizon, once every layer has been reached.
constexpr std::uint32_t kThroughStates = 8;

/// True when errors travel through the hidden state of some layer.
bool has_memory(const mesh::Graph& graph, const RuleDefinition& rule) {
  for (mesh::NodeId id = static_cast<mesh::NodeId>(graph.port_count()); id < graph.nodes().size(); ++id)
    if (graph.nodes()[id].layer->state_errors() != mesh::StateErrors::none && carries_error(graph, id, rule))
      return true;
  return false;
}
}  // namespace

/// Layers whose records by tick lack their input, which their sources' have; those are longer then.
static void share_inputs(const mesh::Graph& graph, History& history) {
  constexpr std::uint32_t kAhead = 3;  // a tick for the reader, two that neighbours are ahead
  const auto& nodes = graph.nodes();
  history.shares_input.assign(nodes.size(), false);
  std::vector<std::uint32_t> wanted = history.ticks;
  for (mesh::NodeId id = static_cast<mesh::NodeId>(graph.port_count()); id < nodes.size(); ++id) {
    if (history.ticks[id] == 0 || !nodes[id].reads_directly()) continue;
    const mesh::NodeId source = graph.edges()[nodes[id].sources[0]].from;
    if (history.ticks[source] == 0 || nodes[source].value_dtypes.activation != nodes[id].value_dtypes.activation)
      continue;
    history.shares_input[id] = true;
    wanted[source] = std::max(wanted[source], history.ticks[id] + kAhead);
  }
  history.ticks = std::move(wanted);
}

/// True when errors reach a layer that keeps its past in a narrow type.
static bool keeps_narrow(const mesh::Graph& graph, const ErrorSchedule& schedule) {
  for (mesh::NodeId id = static_cast<mesh::NodeId>(graph.port_count()); id < graph.nodes().size(); ++id)
    if (graph.nodes()[id].value_dtypes.activation != Dtype::float32 && !schedule.of(id).empty()) return true;
  return false;
}

bool carries_error(const mesh::Graph& graph, mesh::NodeId node, const RuleDefinition& rule) {
  const mesh::Layer& layer = *graph.nodes()[node].layer;
  // Noise and tallies too, whose errors are 0: their waves decide which samples of a fresh mesh move a layer.
  if (rule.path == ErrorPath::gradients) return layer.state_size() != 0 && !layer.learns_forward();
  const mesh::StateErrors errors = layer.state_errors();
  return rule.path == ErrorPath::displacements && rule.gives_state_targets && errors == mesh::StateErrors::any;
}

ErrorSchedule::ErrorSchedule(const mesh::Graph& graph, Rule rule, std::uint32_t horizon, std::uint64_t most)
    : distances_(graph.nodes().size()) {
  const auto& nodes = graph.nodes();
  const RuleDefinition& definition = rule_of(rule);
  const ErrorPath path = definition.path;
  std::vector<bool> is_reached(nodes.size(), false);
  std::vector<mesh::NodeId> front(graph.outputs());
  std::sort(front.begin(), front.end());
  front.erase(std::unique(front.begin(), front.end()), front.end());
  std::uint32_t further = is_along_links(path) && has_memory(graph, definition) ? kThroughStates : 0;
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
    const auto is_known = [&](mesh::NodeId id) { return is_reached[id]; };
    for (mesh::NodeId id : front) {
      // A hidden state is a link from the layer to itself.
      if (carries_error(graph, id, definition)) next.push_back(id);
      const bool takes_every_path = path == ErrorPath::gradients || distances_[id].size() > 1;
      for (std::uint32_t e : nodes[id].sources) {
        const mesh::NodeId source = graph.edges()[e].from;
        if (!nodes[source].is_port() && (takes_every_path || !is_known(source))) next.push_back(source);
      }
    }
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
    // Without a stated horizon it stops once the error has reached every layer that it can, or that far through states.
    if (horizon == 0 && std::all_of(next.begin(), next.end(), is_known) && further-- == 0) break;
    front = std::move(next);
  }
}

bool ErrorSchedule::has(mesh::NodeId node, std::uint32_t distance) const noexcept {
  return std::binary_search(distances_[node].begin(), distances_[node].end(), distance);
}

History history_of(const mesh::Graph& graph, const ErrorSchedule& schedule, const LearningOptions& options,
                   std::uint32_t hold) {
  const std::uint32_t depth = schedule.depth();
  const bool is_settle = options.schedule == Schedule::settle, is_direct = rule_of(options).path == ErrorPath::direct;
  const bool meets_late = options.late == Late::meet;
  // Ticks that may pass before an error leaves the outputs.
  const std::size_t late = meets_late ? std::size_t{options.patience} * (is_settle ? hold : 1) : 0;
  const bool is_local = rule_of(options).path == ErrorPath::local, is_narrow = keeps_narrow(graph, schedule);
  // Local errors are about what a layer has just published.
  if (is_local && !is_narrow) return {std::bit_ceil(4 + late), {}, false};
  // Each hop's record is of the sample's own ticks only where these reach back as far.
  const bool is_shallow = depth <= kShallow && !is_narrow;
  if (is_settle && !is_shallow && depth <= hold && !meets_late) return {2, {}, true};
  // Each layer keeps what its own deepest hop and those of its readers look back to, and no more.
  std::vector<std::uint64_t> back(graph.nodes().size(), 0);
  History history;
  if (is_narrow) history.ticks.assign(graph.nodes().size(), 0);
  for (mesh::NodeId id = static_cast<mesh::NodeId>(graph.port_count()); id < back.size(); ++id) {
    if (schedule.of(id).empty()) continue;
    const std::uint32_t distance = schedule.of(id).back();
    const std::uint32_t age = is_settle || is_local ? 0 : is_direct ? std::min(distance, 1u) : distance;
    std::uint64_t ticks = std::uint64_t{age} + distance + 1 + late;  // hidden state: a tick before the output
    if (graph.nodes()[id].value_dtypes.activation != Dtype::float32) {
      history.ticks[id] = static_cast<std::uint32_t>(ticks);
      ticks = 1;
    }
    back[id] = std::max(back[id], ticks);
    for (const std::uint32_t e : graph.nodes()[id].sources) {
      std::uint64_t& source = back[graph.edges()[e].from];
      source = std::max(source, ticks);
    }
  }
  if (is_narrow) share_inputs(graph, history);
  for (const std::uint64_t ticks : back)
    history.node_depths.push_back(ticks ? static_cast<std::uint32_t>(std::bit_ceil(ticks + 3)) : 2);
  history.depth = *std::max_element(history.node_depths.begin(), history.node_depths.end());
  return history;
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
