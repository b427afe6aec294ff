// SPDX-License-Identifier: Apache-2.0
// Interface by which a device runs a learner's steps (mesh/device/device_executor.hpp).

#include "learning/internal/learner_parts.hpp"
#include "learning/rules/rule.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/trace.hpp"

#include "core/state_hash.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace weft::learning {

using mesh::DeviceRegion;
using mesh::MeshAccess;
using mesh::NodeId;
using mesh::RegionUse;

namespace {
template <class Values>
DeviceRegion region_of(const Values& values, RegionUse use) {
  return {values.data(), values.size() * sizeof *values.data(), use};
}
}  // namespace

void RecordedLearner::each_optimizer_region(const std::function<void(const DeviceRegion&)>& visit) const {
  const Optimizer& optimizer = parts_.updates.optimizer();
  const auto parameters = MeshAccess::weights(parts_.mesh).parameters();
  const auto beside = [&](const float* values, std::size_t i, std::size_t floats, RegionUse use) {
    DeviceRegion region{values, mesh::ParameterMemory::padded(floats) * sizeof(float), use};
    region.node = parameters[i].node;
    visit(region);
  };
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    // Consolidation reads gradients after a sample.
    const RegionUse gradients = parts_.options.consolidation.weighs() ? RegionUse::kept : RegionUse::own;
    if (optimizer.gradient(i)) beside(optimizer.gradient(i), i, parameters[i].spec->stored_size(), gradients);
    for (std::size_t s = 0; s < optimizer.slots(); ++s)
      if (optimizer.slot(s, i)) beside(optimizer.slot(s, i), i, optimizer.slot_size(s, i), RegionUse::kept);
    if (const Adapters& adapters = optimizer.adapters(); adapters.has(i))
      for (float* const values : {adapters.gradient(i), adapters.scaled(i)})
        beside(values, i, adapters.floats(i), RegionUse::own);
  }
  if (!optimizer.factors().empty()) {
    // Steps by traces are counted on the host: they are told their rates.
    if (!optimizer.traces().is_on()) visit(region_of(optimizer.updates(), RegionUse::kept));
    visit(region_of(optimizer.factors(), RegionUse::own));
  }
  // Layers add to sums and read rates that are of several, on the host too where that runs some of them.
  for (const std::span<const float> numbers :
       {optimizer.traces().sums(), optimizer.traces().rates(), optimizer.traces().layer_rates()})
    visit(region_of(numbers, RegionUse::kept));
  if (!optimizer.norms().empty()) {
    visit(region_of(optimizer.squares(), RegionUse::own));
    // One layer adds what others wrote, of which those that have not learned yet are 0; all read the sum.
    visit(region_of(optimizer.norms(), RegionUse::kept));
    visit(region_of(optimizer.total(), RegionUse::kept));
  }
}

void RecordedLearner::each_region(const std::function<void(const DeviceRegion&)>& visit) const {
  visit(region_of(parts_.messages.values(), RegionUse::kept));
  visit(region_of(parts_.feedback.values(), RegionUse::constant));
  each_optimizer_region(visit);
  for (NodeId node = 0; node < parts_.plan.layers.size(); ++node)
    if (parts_.inverses.has(node)) {
      DeviceRegion region = region_of(parts_.inverses.values(node), RegionUse::kept);
      region.node = node;
      visit(region);
    }
  for (NodeId node = 0; node < parts_.plan.layers.size(); ++node)
    if (parts_.sizes.is_measured(node)) {
      DeviceRegion region{parts_.sizes.square(node), sizeof(float), RegionUse::own};
      region.node = node;
      visit(region);
    }
  for (NodeId node = 0; node < parts_.plan.layers.size(); ++node)
    if (const std::span<float> sums = parts_.backward.budgets().of(node); !sums.empty()) {
      DeviceRegion region = region_of(sums, RegionUse::own);
      region.node = node;
      visit(region);
    }
  for (NodeId node = 0; node < parts_.plan.layers.size() && !parts_.records.empty(); ++node)
    if (const auto records = parts_.records.of(node); !records.empty()) {
      DeviceRegion region = region_of(records, RegionUse::kept);
      region.node = node;
      visit(region);
    }
  for (const LearningScratch& scratch : parts_.scratch)
    for (const auto* const buffer :
         {&scratch.delta, &scratch.work, &scratch.target, &scratch.dx, &scratch.split, &scratch.own, &scratch.factors,
          &scratch.limits, &scratch.ones, &scratch.maps, &scratch.kept})
      visit(region_of(*buffer, RegionUse::scratch));
  for (const OutputRing& output : parts_.rings.outputs()) {
    const std::size_t places = parts_.rings.places(output);
    const auto ring = [&](const auto& values, std::size_t each, bool is_input) {
      DeviceRegion region = region_of(values, RegionUse::window);
      region.slot = each * sizeof *values.data();
      region.is_input = is_input;
      visit(region);
    };
    ring(output.classes, places, true);
    ring(output.values, parts_.options.learners * output.width, true);
    ring(output.weights, parts_.options.learners, true);
    ring(output.signals, parts_.options.learners * kernels::kTraceSignal, true);
    ring(output.guides, parts_.options.learners * output.width, true);
    visit(region_of(output.guide_work, RegionUse::own));
    ring(output.predictions, places, false);
    ring(output.losses, places, false);
  }
}

std::pair<std::uint64_t, std::uint64_t> RecordedLearner::samples_of(std::uint64_t step, std::uint64_t tick,
                                                                    std::uint64_t count) const {
  const SampleClock& clock = parts_.clock;
  if (!clock.is_pipelined()) {
    const std::uint64_t first = clock.sample_of(step), each = clock.steps_per_sample();
    return {first, first + (count + each - 1) / each};
  }
  if (parts_.late.has_entries()) return entries_of(step, count);
  // Outputs look at labels and values of the sample that they answer.
  const std::uint64_t start = clock.now.start_tick + parts_.plan.latency;
  const std::uint64_t first = std::max(tick, start) - start;
  const std::uint64_t newest = tick + count + samples_ahead();
  const std::uint64_t end = std::min(std::max(newest, start) - start, clock.now.samples);
  return {std::min(first, end), end};
}

/// Samples whose errors enter in these steps, where errors may come late.
std::pair<std::uint64_t, std::uint64_t> RecordedLearner::entries_of(std::uint64_t step, std::uint64_t count) const {
  std::pair<std::uint64_t, std::uint64_t> samples{UINT64_MAX, 0};
  for (std::uint64_t s = step; s < step + count; ++s)
    if (const LateSamples::Entry& entry = parts_.late.entry(parts_.clock.now.steps + s); entry.is_one)
      samples = {std::min(samples.first, entry.position), std::max(samples.second, entry.position + 1)};
  return samples.second == 0 ? std::pair<std::uint64_t, std::uint64_t>() : samples;
}

// Layers with a loss of their own look at the labels of samples that are on their way to the outputs.
std::uint64_t RecordedLearner::samples_ahead() const noexcept {
  const bool is_local = rule_of(parts_.options).path == ErrorPath::local;
  return is_local && parts_.clock.is_pipelined() ? parts_.plan.latency : 0;
}

std::optional<Hash128> RecordedLearner::record_key(std::uint64_t step, std::uint64_t tick, std::uint64_t count) const {
  const SampleClock& clock = parts_.clock;
  const std::uint32_t deepest = parts_.plan.deepest;
  StateHasher key;
  key.add(clock.parity(step));
  key.add(std::min<std::uint64_t>(tick, 2 * std::uint64_t{deepest} + 2));
  const auto add_sample = [&](std::int64_t sample) {
    if (sample == SampleClock::kNoSample) return key.add(std::uint64_t{2});
    for (const OutputRing& output : parts_.rings.outputs()) {
      for (const std::uint32_t label : parts_.rings.labels(output, static_cast<std::uint64_t>(sample)))
        key.add(std::uint64_t{label == kGradient ? 3u : label != kNoLabel ? 1u : 0u});
      if (output.guide_scales.empty()) continue;
      const float scale = output.guide_scales[parts_.rings.slot(static_cast<std::uint64_t>(sample))];
      key.add(std::uint64_t{std::bit_cast<std::uint32_t>(scale)});
    }
    if (parts_.options.weights) key.add(std::uint64_t{parts_.rings.teaches(static_cast<std::uint64_t>(sample))});
    key.add(std::uint64_t{parts_.late.is_observed(static_cast<std::uint64_t>(sample))});
    key.add(std::uint64_t{parts_.late.is_shown_again(static_cast<std::uint64_t>(sample))});
  };
  key.add(clock.first_phase);
  key.add(clock.stands);
  // Steps hold the rates that they were recorded with.
  const mesh::WeightStore& weights = MeshAccess::weights(std::as_const(parts_.mesh));
  for (NodeId node = 0; weights.rates.are_set() && node < weights.node_count(); ++node)
    key.add(std::uint64_t{std::bit_cast<std::uint32_t>(weights.rates.of(node))});
  if (!clock.is_pipelined()) {
    // A sample that is trained late is at its own tick.
    key.add(tick - clock.end_tick(tick));
    key.add(std::min<std::uint64_t>(clock.end_tick(tick), 2 * std::uint64_t{deepest} + 2));
    const auto [first, end] = samples_of(step, tick, count);
    for (std::uint64_t sample = first; sample < end; ++sample) add_sample(static_cast<std::int64_t>(sample));
  } else {
    const std::uint64_t back = std::min<std::uint64_t>(tick, deepest + 1);
    for (std::uint64_t t = tick - back; t < tick + count + std::max(deepest, parts_.plan.latency) + 2; ++t)
      add_sample(clock.sample_at(t));
  }
  if (parts_.late.has_entries()) {
    const std::uint64_t now = clock.now.steps + step, first = samples_of(step, tick, count).first;
    for (std::uint64_t s = now - std::min<std::uint64_t>(now, deepest); s < now + count; ++s) {
      const LateSamples::Entry& entry = parts_.late.entry(s);
      key.add(std::uint64_t{entry.is_one});
      if (!entry.is_one) continue;
      key.add(tick - entry.end_tick);
      key.add(std::min<std::uint64_t>(entry.end_tick, 2 * std::uint64_t{deepest} + 2));
      if (s >= now) key.add(entry.position - first);
      for (const OutputRing& output : parts_.rings.outputs())
        for (const std::uint32_t label : parts_.rings.labels(output, entry.position))
          key.add(std::uint64_t{label == kGradient ? 3u : label != kNoLabel ? 1u : 0u});
      if (parts_.options.weights) key.add(std::uint64_t{parts_.rings.teaches(entry.position)});
    }
  }
  return key.digest();
}

std::span<const std::uint64_t> RecordedLearner::update_counts() const noexcept {
  return std::as_const(parts_.updates).optimizer().updates();
}

void RecordedLearner::add_updates(NodeId node, std::uint64_t updates) noexcept {
  parts_.updates.optimizer().updates()[node] += updates;
  mesh::WeightStore& weights = MeshAccess::weights(parts_.mesh);
  for (const auto& parameter : weights.of(node))
    weights.set_version(weights.first(node) + parameter.index, parameter.version + updates);
}

void RecordedLearner::take_host_snapshot(mesh::ByteArchive& to) const {
  mesh::WriteArchive archive(to, scopes::kHostSide);
  std::as_const(*parts_.saved).visit(archive);
}

void RecordedLearner::restore_host_snapshot(const mesh::ByteArchive& from) {
  mesh::ReadArchive archive(from.bytes(), scopes::kHostSide);
  parts_.saved->visit(archive);
  WEFT_ASSERT(!archive.has_failed(), "a learner takes back what it gave");
}

}  // namespace weft::learning
