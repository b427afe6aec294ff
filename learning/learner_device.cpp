// SPDX-License-Identifier: Apache-2.0
// What a device has to know of a learner to run its steps (mesh/device/device_executor.hpp).

#include "learning/learner.hpp"

#include "core/state_hash.hpp"

#include <algorithm>
#include <string>

namespace weft::learning {

using mesh::DeviceRegion;
using mesh::NodeId;
using mesh::RegionUse;

void Learner::each_piece(const std::function<void(const DeviceRegion&)>& visit) const {
  const auto whole = [&](const auto& values, RegionUse use) {
    visit({values.data(), values.size() * sizeof *values.data(), use});
  };
  whole(boxes_, RegionUse::kept);
  whole(feedback_, RegionUse::constant);
  const auto parameters = mesh_.weights().parameters();
  const auto beside = [&](const float* values, std::size_t i, RegionUse use) {
    DeviceRegion piece{values, (parameters[i].spec->stored_size() + 15) / 16 * 16 * sizeof(float), use};
    piece.node = parameters[i].node;
    visit(piece);
  };
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    beside(optimizer_.gradient(i), i, RegionUse::own);
    for (std::size_t s = 0; s < optimizer_.slots(); ++s) beside(optimizer_.slot(s, i), i, RegionUse::kept);
  }
  if (options_.optimizer.kind == OptimizerKind::adamw) {
    whole(optimizer_.updates(), RegionUse::kept);
    whole(optimizer_.corrections(), RegionUse::own);
  }
  for (NodeId node = 0; node < is_measured_.size(); ++node)
    if (is_measured_[node]) {
      DeviceRegion piece{&gradient_squares_[node], sizeof(float), RegionUse::own};
      piece.node = node;
      visit(piece);
    }
  for (const Scratch& scratch : scratch_)
    for (const auto* const buffer :
         {&scratch.delta, &scratch.work, &scratch.target, &scratch.dx, &scratch.split, &scratch.own, &scratch.factors})
      whole(*buffer, RegionUse::scratch);
  for (const OutputPlan& output : outputs_) {
    const std::size_t places = options_.learners * output.tokens;
    const auto ring = [&](const auto& values, std::size_t each, bool is_input) {
      DeviceRegion piece{values.data(), values.size() * sizeof *values.data(), RegionUse::window,
                         each * sizeof *values.data()};
      piece.is_input = is_input;
      visit(piece);
    };
    ring(output.classes, places, true);
    ring(output.values, options_.learners * output.width, true);
    ring(output.predictions, places, false);
    ring(output.losses, places, false);
  }
}

std::pair<std::uint64_t, std::uint64_t> Learner::samples_of(std::uint64_t step, std::uint64_t tick,
                                                            std::uint64_t count) const {
  if (options_.schedule == Schedule::settle) {
    const std::uint64_t first = block_first_ + step / steps_per_sample();
    return {first, first + (count + steps_per_sample() - 1) / steps_per_sample()};
  }
  // Outputs alone look at labels and values, those of the sample that they answer.
  const std::uint64_t born = birth_tick_ + latency_;
  const std::uint64_t first = std::max(tick, born) - born;
  const std::uint64_t end = std::min(std::max(tick + count, born) - born, samples_);
  return {std::min(first, end), end};
}

std::optional<Hash128> Learner::record_key(std::uint64_t step, std::uint64_t tick, std::uint64_t count) const {
  StateHasher key;
  key.add((steps_ + step) & 1);
  key.add(std::min<std::uint64_t>(tick, 2 * std::uint64_t{deepest_} + 2));
  const auto add_sample = [&](std::int64_t sample) {
    if (sample == kNoSample) return key.add(std::uint64_t{2});
    for (const OutputPlan& output : outputs_) {
      const std::size_t places = options_.learners * output.tokens;
      const std::uint32_t* const labels =
          output.labels.data() + (static_cast<std::uint64_t>(sample) & ring_mask_) * places;
      for (std::size_t i = 0; i < places; ++i) key.add(std::uint64_t{labels[i] != kNoLabel});
    }
  };
  if (options_.schedule == Schedule::settle) {
    const auto [first, end] = samples_of(step, tick, count);
    for (std::uint64_t sample = first; sample < end; ++sample) add_sample(static_cast<std::int64_t>(sample));
  } else {
    const std::uint64_t back = std::min<std::uint64_t>(tick, deepest_ + 1);
    for (std::uint64_t t = tick - back; t < tick + count + deepest_ + 2; ++t) add_sample(sample_at(t));
  }
  return key.digest();
}

void Learner::add_updates(NodeId node, std::uint64_t updates) noexcept {
  optimizer_.updates()[node] += updates;
  mesh::WeightStore& weights = mesh_.weights();
  for (const auto& parameter : weights.of(node))
    weights.set_version(weights.first(node) + parameter.index, parameter.version + updates);
}

template <class Visit>
void Learner::each_host_array(Visit&& visit) {
  for (OutputPlan& output : outputs_) {
    visit(std::span<std::uint32_t>(output.labels));
    visit(std::span<std::uint32_t>(output.classes));
    visit(std::span<std::uint32_t>(output.predictions));
    visit(std::span<float>(output.losses));
    visit(std::span<float>(output.values));
  }
  visit(optimizer_.updates());
  visit(std::span<std::array<float, 2>>(gradient_sizes_));
}

void Learner::save_host(mesh::ByteArchive& to) const {
  for (const std::uint64_t counter : {samples_, scored_, steps_, birth_tick_, block_first_}) to.put(counter);
  const_cast<Learner&>(*this).each_host_array(  // the arrays are read only
      [&](auto values) { to.put(std::span<const typename decltype(values)::element_type>(values)); });
  for (const auto& parameter : std::as_const(mesh_).weights().parameters()) to.put(parameter.version);
  for (const Sharing& sharing : sharings_) {
    to.put(sharing.pending);
    to.put(sharing.is_used);
    to.put(sharing.has_failed);
  }
}

void Learner::load_host(const mesh::ByteArchive& from) {
  mesh::ByteArchive::Reader reader(from);
  for (std::uint64_t* const counter : {&samples_, &scored_, &steps_, &birth_tick_, &block_first_})
    *counter = reader.get<std::uint64_t>();
  each_host_array([&](auto values) { reader.get(values); });
  mesh::WeightStore& weights = mesh_.weights();
  for (std::size_t i = 0; i < weights.parameters().size(); ++i) weights.set_version(i, reader.get<std::uint64_t>());
  for (Sharing& sharing : sharings_) {
    sharing.pending = reader.get<std::uint32_t>();
    sharing.is_used = reader.get<bool>();
    sharing.has_failed = reader.get<bool>();
  }
}

}  // namespace weft::learning
