// SPDX-License-Identifier: Apache-2.0

#include "learning/memory_estimate.hpp"

#include "learning/error_schedule.hpp"
#include "learning/internal/activation_records.hpp"
#include "learning/internal/feedback_weights.hpp"
#include "learning/internal/late_samples.hpp"
#include "learning/internal/learned_inverses.hpp"
#include "learning/internal/reservoir.hpp"
#include "learning/internal/sample_rings.hpp"
#include "learning/internal/unit_renewal.hpp"
#include "learning/internal/weight_swap.hpp"
#include "learning/optimizer.hpp"
#include "learning/rules/rule.hpp"

#include "kernels/views.hpp"

#include "core/byte_size.hpp"
#include "core/cache_line.hpp"

#include <algorithm>
#include <bit>

namespace weft::learning {
namespace {

// Of one pair of a layer and a distance: its lists, as measured on chains, without its messages.
constexpr std::uint64_t kHopBytes = 192;

/// Floats of the messages that one hop of a layer sends: one a source that has use for it, and its own hidden state's.
std::uint64_t message_floats(const mesh::Graph& graph, const ErrorSchedule& schedule, const RuleDefinition& rule,
                             mesh::NodeId id, std::uint32_t distance) {
  const mesh::Node& node = graph.nodes()[id];
  std::uint64_t floats = 0;
  for (const std::uint32_t e : node.sources)
    if (schedule.has(graph.edges()[e].from, distance + 1)) floats += padded(graph.edges()[e].width);
  if (carries_error(graph, id, rule) && schedule.has(id, distance + 1)) floats += padded(node.layer->state_size());
  return floats;
}

std::uint64_t record_bytes(const mesh::Graph& graph, const LearningOptions& options, const ErrorSchedule& schedule,
                           const History& history) {
  std::uint64_t floats = 0;
  for (mesh::NodeId id = 0; id < graph.nodes().size(); ++id) {
    const auto& distances = schedule.of(id);
    std::size_t records = history.ticks_of(id);
    if (history.has_records) {
      const bool is_narrow = graph.nodes()[id].value_dtypes.activation != Dtype::float32;
      const auto present = std::count(distances.begin(), distances.end(), 0u);
      records += distances.size() - (is_narrow ? 0 : static_cast<std::size_t>(present));
    }
    if (records > 0) floats += records * ActivationRecords::floats_of(graph, history, id, options.learners);
  }
  return floats * sizeof(float);
}

}  // namespace

Result<mesh::MemoryEstimate> estimate_memory(const mesh::Graph& graph, const LearningOptions& given,
                                             std::size_t sessions, std::uint64_t free) {
  const LearningOptions options = with_replayed_rows(given);
  const std::uint64_t most = std::max<std::uint64_t>(free / kHopBytes, 1);
  const RuleDefinition& rule = rule_of(options);
  const ErrorSchedule schedule(graph, options.rule, options.horizon, most);
  if (schedule.is_cut())
    return fail(Errc::too_large, "learning takes more than " + byte_size(free) + " for the " + std::to_string(most) +
                                     " ways and more on which errors reach layers; set learning.horizon, the links "
                                     "that an error travels back");
  std::uint64_t messages = 0, count = 0, budgets = 0;
  for (mesh::NodeId id = static_cast<mesh::NodeId>(graph.port_count()); id < graph.nodes().size(); ++id) {
    if (schedule.of(id).size() > 1) budgets += padded(options.learners);
    for (const std::uint32_t distance : schedule.of(id)) {
      ++count;
      if (is_along_links(rule.path)) messages += message_floats(graph, schedule, rule, id, distance);
    }
  }
  if (rule.path == ErrorPath::direct)
    for (const mesh::NodeId output : graph.outputs()) messages += padded(graph.nodes()[output].width);
  // Of an output that nothing reaches, the learner says so.
  const auto latency = latency_of(graph);
  const std::uint32_t ticks = latency ? *latency : 0;
  const History history = history_of(graph, schedule, options, hold_of(graph, options, ticks));
  const std::uint64_t ring = ring_sizes(graph, options, ticks, schedule.depth()).ring;
  mesh::MemoryEstimate estimate;
  estimate.add("history", mesh::State::bytes_for(graph, {sessions, history.depth, true, history.node_depths}) +
                              record_bytes(graph, options, schedule, history));
  estimate.add("messages",
               messages * 2 * options.learners * sizeof(float) + budgets * sizeof(float) + count * kHopBytes);
  const std::size_t arrays = arrays_before_past(options) + options.consolidation.arrays();
  const std::uint64_t adapters = Adapters::floats_of(graph, options.lora, arrays) * sizeof(float);
  estimate.add("optimizer", mesh::parameter_buffer_bytes(graph) * (options.lora.is_on() ? 1 : 1 + arrays) + adapters);
  estimate.add("samples", SampleRings::bytes_for(graph, options, ring) +
                              LateSamples::bytes_for(graph, options, sessions, ticks, ring));
  estimate.add("renewal", UnitRenewal::bytes_for(graph, options));
  estimate.add("stored samples", Reservoir::bytes_for(graph, options));
  estimate.add("earlier weights", WeightSwap::bytes_for(graph, given));
  estimate.add(
      "feedback weights",
      (FeedbackWeights::floats_of(graph, options) + LearnedInverses::floats_of(graph, options)) * sizeof(float));
  return estimate;
}

}  // namespace weft::learning
