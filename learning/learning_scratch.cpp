// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/learning_scratch.hpp"

#include "learning/error_schedule.hpp"
#include "learning/internal/activation_records.hpp"
#include "learning/internal/learned_maps.hpp"
#include "learning/rules/rule.hpp"

#include "core/cache_line.hpp"

#include <algorithm>

namespace weft::learning {

using mesh::NodeId;

std::vector<LearningScratch> LearningScratch::make(const mesh::Graph& graph, const LearningPlan& plan,
                                                   const LearningOptions& options, std::size_t regions) {
  std::size_t widest = 1, widest_own = 0, widest_gathered = 1, widest_maps = 0, widest_kept = 0;
  bool splits = false;  // some layer's error goes to several sources
  for (NodeId id = 0; id < graph.nodes().size(); ++id) {
    const mesh::Node& node = graph.nodes()[id];
    widest = std::max({widest, node.in, node.width});
    if (node.is_port()) continue;
    if (carries_error(graph, id, rule_of(options))) widest = std::max(widest, node.layer->state_size());
    for (const mesh::ParameterSpec& each : node.layer->parameters())
      if (rule_of(options).own_step) widest = std::max({widest, each.out, each.in});
    if (learns_maps(graph, id, options)) widest_maps = std::max(widest_maps, LearnedMaps::scratch_of(*node.layer));
    widest_kept = std::max(widest_kept, ActivationRecords::scratch_of(graph, id, options.learners));
    widest_own = std::max(widest_own, node.layer->scratch_size());
    splits = splits || !node.reads_directly();
  }
  for (NodeId id = 0; id < plan.layers.size(); ++id)
    for (const Hop& hop : plan.layers[id].hops)
      if (hop.distance == 0 || hop.inbox.size() != 1)
        widest_gathered = std::max(widest_gathered, graph.nodes()[id].width);
  const std::size_t n = padded(widest) * options.learners;
  std::vector<LearningScratch> made(regions);
  for (LearningScratch& scratch : made) {
    const bool has_targets = rule_of(options).path != ErrorPath::gradients;
    const bool has_limits = has_targets || options.step_limit != 0.0f;
    if (has_targets || splits) {
      scratch.target = AlignedBuffer<float>(n);
      scratch.dx = AlignedBuffer<float>(n);
    }
    if (has_limits || splits) scratch.split = AlignedBuffer<float>(n);
    if (has_limits) scratch.work = AlignedBuffer<float>(n);
    scratch.delta = AlignedBuffer<float>(has_targets || splits ? n : padded(widest_gathered) * options.learners);
    scratch.own = AlignedBuffer<float>(padded(widest_own) * options.learners);
    scratch.factors = AlignedBuffer<float>(padded(std::max(widest, options.learners)));
    if (has_limits) scratch.limits = AlignedBuffer<float>(padded(options.learners));
    if (has_limits) scratch.ones = AlignedBuffer<float>(padded(options.learners));
    scratch.maps = AlignedBuffer<float>(widest_maps);
    scratch.kept = AlignedBuffer<float>(widest_kept);
  }
  return made;
}

}  // namespace weft::learning
