// SPDX-License-Identifier: Apache-2.0

// A learner's part of a state in memory (Mesh::save_state).

#include "learning/internal/learner_parts.hpp"
#include "learning/learner.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

namespace weft::learning {

namespace {
/// Kind of the arrays, where equal sizes may have different meanings.
std::uint64_t kind_of(const LearningOptions& options) noexcept {
  return static_cast<std::uint64_t>(options.rule) | static_cast<std::uint64_t>(options.schedule) << 8 |
         static_cast<std::uint64_t>(options.loss) << 16 | static_cast<std::uint64_t>(options.optimizer.kind) << 24;
}
constexpr std::size_t kCounters = 8;  // u64 words before the arrays
}  // namespace

using mesh::MeshAccess;
using mesh::NodeId;

void SavedLearner::hash_layer(NodeId node, StateHasher& hasher) const {
  const mesh::Mesh& mesh = parts_.mesh;
  parts_.updates.optimizer().hash_layer(MeshAccess::weights(mesh), node, hasher);
}

void SavedLearner::remember_layer(NodeId node, std::vector<float>& kept) const {
  const mesh::Mesh& mesh = parts_.mesh;
  parts_.updates.optimizer().save_layer(MeshAccess::weights(mesh), node, kept);
}

const float* SavedLearner::restart_layer(NodeId node, const float* kept) noexcept {
  return parts_.updates.optimizer().restore_layer(MeshAccess::weights(parts_.mesh), node, kept);
}

template <class Visit>
void SavedLearner::each_array(bool with_weights, Visit&& visit) const {
  visit(std::span<float>(parts_.messages.values()));
  visit(std::span<std::array<float, 2>>(parts_.sizes.sizes()));
  for (OutputRing& output : parts_.rings.outputs()) output.each_array(visit);
  if (!with_weights) return;
  Optimizer& optimizer = parts_.updates.optimizer();
  visit(optimizer.updates());
  const auto parameters = MeshAccess::weights(parts_.mesh).parameters();
  for (std::size_t s = 0; s < optimizer.slots(); ++s)
    for (std::size_t i = 0; i < parameters.size(); ++i)
      visit(std::span<float>(optimizer.slot(s, i), optimizer.slot_size(i)));
}

void SavedLearner::save_state(mesh::ByteArchive& to, bool with_weights) const {
  std::size_t size = kCounters * sizeof(std::uint64_t);
  each_array(with_weights, [&](auto values) { size += values.size_bytes(); });
  to.reserve(size + parts_.pending_scores.capacity() * sizeof(Score));
  to.put(std::uint64_t{size});
  to.put(kind_of(parts_.options));
  const SampleClock::Counters& now = parts_.clock.now;
  for (const std::uint64_t counter : {now.samples, now.scored, now.steps, now.start_tick, now.block_first,
                                      std::uint64_t{parts_.pending_scores.size()}})
    to.put(counter);
  each_array(with_weights,
             [&](auto values) { to.put(std::span<const typename decltype(values)::element_type>(values)); });
  to.put(std::span<const Score>(parts_.pending_scores));
}

Status SavedLearner::load_state(const mesh::ByteArchive& from, bool with_weights) {
  std::size_t wanted = kCounters * sizeof(std::uint64_t);
  each_array(with_weights, [&](auto values) { wanted += values.size_bytes(); });
  mesh::ByteArchive::Reader reader(from);
  const bool has_head = from.size() >= kCounters * sizeof(std::uint64_t);
  const std::uint64_t size = has_head ? reader.get<std::uint64_t>() : 0;
  if (size != wanted || reader.get<std::uint64_t>() != kind_of(parts_.options))
    return fail(
        Errc::shape_mismatch,
        "learner state: " + std::to_string(size) + " bytes where " + std::to_string(wanted) +
            " are expected, or of another rule, schedule, loss or optimizer; build the learner with the same options");
  SampleClock::Counters& now = parts_.clock.now;
  for (std::uint64_t* const counter : {&now.samples, &now.scored, &now.steps, &now.start_tick, &now.block_first})
    *counter = reader.get<std::uint64_t>();
  parts_.pending_scores.resize(reader.get<std::uint64_t>());
  each_array(with_weights, [&](auto values) { reader.get(values); });
  reader.get(std::span<Score>(parts_.pending_scores));
  return {};
}

std::vector<std::uint32_t> Learner::save_in_flight() const {
  std::vector<std::uint32_t> out;
  save_in_flight(out);
  return out;
}

void Learner::save_in_flight(std::vector<std::uint32_t>& out) const {
  const LearnerParts& p = *parts_;
  out.clear();
  mesh::MeshAccess::sync(p.mesh, false);
  const SampleClock::Counters& now = p.clock.now;
  const auto put64 = [&](std::uint64_t v) {
    out.push_back(static_cast<std::uint32_t>(v));
    out.push_back(static_cast<std::uint32_t>(v >> 32));
  };
  for (std::uint64_t v :
       {now.samples, now.scored, now.steps, now.start_tick, std::uint64_t{p.messages.values().size()}})
    put64(v);
  for (float v : p.messages.values()) out.push_back(std::bit_cast<std::uint32_t>(v));
  for (const OutputRing& output : p.rings.outputs()) {
    out.insert(out.end(), output.labels.begin(), output.labels.end());
    for (float v : output.values) out.push_back(std::bit_cast<std::uint32_t>(v));
  }
  for (NodeId node = 0; node < p.sizes.measured().size(); ++node)
    for (std::size_t half = 0; half < 2 && p.sizes.measured()[node]; ++half)
      out.push_back(std::bit_cast<std::uint32_t>(p.sizes.sizes()[node][half]));
}

Status Learner::load_in_flight(std::span<const std::uint32_t> in) {
  LearnerParts& p = *parts_;
  std::size_t wanted = 10 + p.messages.values().size();
  for (const OutputRing& output : p.rings.outputs()) wanted += output.labels.size() + output.values.size();
  wanted += 2 * static_cast<std::size_t>(std::count(p.sizes.measured().begin(), p.sizes.measured().end(), true));
  if (in.size() != wanted)
    return fail(Errc::shape_mismatch, "learner state: " + std::to_string(in.size()) + " words where " +
                                          std::to_string(wanted) + " are expected; network or learning options differ");
  const auto get64 = [&](std::size_t i) { return std::uint64_t{in[2 * i]} | std::uint64_t{in[2 * i + 1]} << 32; };
  mesh::MeshAccess::sync(p.mesh, true);
  const std::uint64_t samples = get64(0), scored = get64(1), start = get64(3);
  if (get64(4) != p.messages.values().size() || scored > samples || start > p.mesh.ticks())
    return fail(Errc::corrupt, "learner state: counters contradict each other");
  SampleClock::Counters& now = p.clock.now;
  now.samples = samples;
  now.scored = scored;
  now.steps = get64(2);
  now.start_tick = start;
  std::size_t next = 10;
  for (float& v : p.messages.values()) v = std::bit_cast<float>(in[next++]);
  for (OutputRing& output : p.rings.outputs()) {
    for (std::size_t i = 0; i < output.labels.size(); ++i) {
      const std::uint32_t label = output.labels[i] = in[next++];
      const std::size_t part = i % output.tokens, classes = output.starts[part + 1] - output.starts[part];
      if (label != kNoLabel && label >= classes)
        return fail(Errc::corrupt, "learner state: label " + std::to_string(label) + " of an output of width " +
                                       std::to_string(classes));
    }
    output.set_classes(0, output.labels.size());
    for (float& v : output.values) v = std::bit_cast<float>(in[next++]);
  }
  for (NodeId node = 0; node < p.sizes.measured().size(); ++node)
    for (std::size_t half = 0; half < 2 && p.sizes.measured()[node]; ++half) {
      p.sizes.sizes()[node][half] = std::bit_cast<float>(in[next++]);
      if (!std::isfinite(p.sizes.sizes()[node][half]))
        return fail(Errc::corrupt, "learner state: a gradient's size is not finite");
    }
  p.pending_scores.clear();
  return {};
}

}  // namespace weft::learning
