// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/step_graphs.hpp"

#include "mesh/device/recordable_rule.hpp"

namespace weft::mesh {

namespace {

constexpr std::size_t kMostGraphs = 64;
constexpr std::size_t kMostSingleSteps = 1024;  // the same, where each is one step

}  // namespace

std::optional<Hash128> StepGraphs::key_of(std::uint64_t tick, const BlockSteps& steps) const {
  const std::uint64_t now = tick + engine_.ticks_in(steps.first);
  StateHasher key;
  key.add(now & (engine_.runner().state().depth() - 1));
  key.add(steps.count);
  key.add(steps.first - steps.block);
  for (const float* const place : windows_.feeds()) key.add(std::uint64_t{place != nullptr});
  for (const OutputSink& sink : engine_.buffers().sinks()) key.add(std::uint64_t{sink.node});
  engine_.exceptions().add_firing(now, engine_.ticks_in(steps.first + steps.count) - engine_.ticks_in(steps.first),
                                  key);
  if (StepRule* const rule = engine_.rule()) {
    key.add(std::uint64_t{engine_.runner().may_keep()});
    const RecordableRule& recordable = *rule->recordable();
    const auto of_rule = recordable.record_key(steps.first, now, steps.count);
    if (!of_rule) return std::nullopt;
    key.add(*of_rule);
    // A settled sample's steps are at its beginning, since blocks are whole samples or single steps.
    key.add(steps.first % recordable.period());
    key.add(recordable.samples_of(steps.first, now, steps.count).first - steps.sample);  // its place in the window
  }
  return key.digest();
}

Result<std::shared_ptr<StepGraph>> StepGraphs::of(std::uint64_t tick, const BlockSteps& steps) {
  const std::optional<Hash128> key = key_of(tick, steps);
  const auto name = key ? std::pair(key->high, key->low) : std::pair<std::uint64_t, std::uint64_t>();
  const auto found = key ? graphs_.find(name) : graphs_.end();
  std::shared_ptr<StepGraph> graph;
  if (found != graphs_.end()) {
    graph = found->second;
    for (const auto& [node, updates] : graph->updates) engine_.rule()->recordable()->add_updates(node, updates);
  } else {
    WEFT_TRY(StepGraph made, record(tick, steps));
    graph = std::make_shared<StepGraph>(std::move(made));
    if (graphs_.size() >= (steps.count == 1 ? kMostSingleSteps : kMostGraphs)) graphs_.clear();
    if (key) graphs_.emplace(name, graph);
  }
  image_.counts().add_guarded(graph->guarded);
  return graph;
}

Result<StepGraph> StepGraphs::record(std::uint64_t tick, const BlockSteps& steps) {
  RecordableRule* const rule = engine_.rule() ? engine_.rule()->recordable() : nullptr;
  const StepRecorder::Recording recording{tick, engine_.ticks_in(steps.block), windows_.feeds(), windows_.sinks()};
  std::vector<gpu::MemoryAccess> by_host, by_device;
  if (mixed_) mixed_->track_host(recording, steps.first, by_host);
  const auto counts = rule ? rule->update_counts() : std::span<const std::uint64_t>();
  const std::vector<std::uint64_t> before(counts.begin(), counts.end());
  gpu::VulkanStream& stream = image_.stream();
  StepRecorder& recorder = image_.steps();
  WEFT_CHECK(stream.begin_capture());
  if (mixed_) {
    recorder.record(recording, steps.first, StepRecorder::Side::ports);
    stream.track_accesses(&by_device);
    recorder.record(recording, steps.first, StepRecorder::Side::device);
    stream.track_accesses(nullptr);
  } else {
    for (std::uint64_t s = 0; s < steps.count; ++s) recorder.record(recording, steps.first + s);
  }
  StepGraph graph;
  WEFT_TRY(graph.commands, stream.end_capture());
  WEFT_CHECK(image_.recorder().status());
  WEFT_CHECK(recorder.status());
  graph.guarded = image_.recorder().guards().take();
  for (const NodeId node : graph.guarded) rule->add_updates(node, before[node] - counts[node]);  // modulo 2^64: back
  for (NodeId node = 0; node < before.size(); ++node)
    if (counts[node] != before[node]) graph.updates.emplace_back(node, counts[node] - before[node]);
  ++statistics_.graphs;
  if (mixed_) WEFT_CHECK(mixed_->open(graph.crossing, by_host, by_device));
  return graph;
}

}  // namespace weft::mesh
