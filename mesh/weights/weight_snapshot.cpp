// SPDX-License-Identifier: Apache-2.0

#include "mesh/weights/weight_snapshot.hpp"

#include "mesh/memory/batch_copy.hpp"
#include "mesh/weights/weight_store.hpp"

#include <memory>
#include <string>
#include <utility>

namespace weft::mesh {

const float* WeightSnapshot::master(std::size_t i) const noexcept {
  return entries_[i].has_master ? reinterpret_cast<const float*>(bytes_.data() + entries_[i].master) : nullptr;
}

kernels::ConstWeight WeightSnapshot::stored(std::size_t i, const ParameterSpec& spec) const noexcept {
  if (!entries_[i].is_stored) return {};
  return QuantizedWeight::view(bytes_.data() + entries_[i].stored, entries_[i].encoding, spec.out, spec.in);
}

WeightSnapshot::Entry WeightSnapshot::entry_of(const WeightStore& weights, std::size_t i) noexcept {
  const QuantizedWeight* const stored = weights.stored(i);
  Entry entry;
  entry.version = weights.parameters_[i].version;
  entry.layer_changes = weights.layers_[weights.parameters_[i].node].changes;
  if (stored) {
    entry.is_stored = true;
    entry.encoding = stored->encoding();
    entry.stored_version = stored->version;
  }
  return entry;
}

void WeightSnapshot::take_layers(const WeightStore& weights) {
  layers_.resize(weights.node_count());
  for (NodeId node = 0; node < layers_.size(); ++node) layers_[node] = weights.encoding(node);
}

void WeightSnapshot::take_versions(const WeightStore& weights) {
  take_layers(weights);
  entries_.resize(weights.parameters().size());
  for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i] = entry_of(weights, i);
  used_ = 0;
  store_ = 0;
}

void WeightSnapshot::take(const WeightStore& weights, bool all_masters, BatchCopy& copies) {
  take_layers(weights);
  // The arrays of a parameter one after the other, from `used` on; `array(offset, bytes)` is called for each.
  const auto place = [&](std::size_t i, std::size_t& used, auto&& array) {
    Entry entry = entry_of(weights, i);
    entry.stored = entry.master = used;
    weights.visit_memory(i, [&](const Field& field, std::span<const std::byte> memory) {
      const bool is_master = field.name == WeightStore::kMaster.name;
      if (is_master && entry.is_stored && !all_masters) return;
      if (is_master) entry.has_master = true;
      (is_master ? entry.master : entry.stored) = used;
      array(used, memory);
      used += memory.size();
    });
    return entry;
  };
  const std::size_t count = weights.parameters().size();
  std::size_t used = 0;
  for (std::size_t i = 0; i < count; ++i) place(i, used, [](std::size_t, std::span<const std::byte>) {});
  if (bytes_.size() < used) {
    bytes_ = AlignedBuffer<std::byte>(used);
    store_ = 0;
  }
  const bool has_earlier = store_ == weights.number_;
  entries_.resize(count);
  used_ = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t next = used_;
    const Entry entry = place(i, next, [](std::size_t, std::span<const std::byte>) {});
    // Arrays that were copied before and have not moved since are there already.
    if (!has_earlier || entries_[i] != entry) {
      entries_[i] = entry;
      place(i, used_, [&](std::size_t at, std::span<const std::byte> memory) {
        copies.add(bytes_.data() + at, memory.data(), memory.size());
      });
    }
    used_ = next;
  }
  store_ = weights.number_;
}

bool WeightSnapshot::is_current(const WeightStore& weights) const noexcept {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const WeightStore::Parameter& parameter = weights.parameters_[i];
    if (entries_[i].version != parameter.version ||
        entries_[i].layer_changes != weights.layers_[parameter.node].changes)
      return false;
  }
  return true;
}

Result<WeightConversion> WeightSnapshot::prepare(const WeightStore& weights) const {
  if (entries_.size() != weights.parameters().size() || layers_.size() != weights.node_count())
    return fail(Errc::shape_mismatch, "weights: " + std::to_string(entries_.size()) + " parameters where " +
                                          std::to_string(weights.parameters().size()) +
                                          " are expected; another network's");
  WeightConversion made;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    const WeightStore::Parameter& parameter = weights.parameters()[i];
    const QuantizedWeight* const stored = weights.stored(i);
    const bool needs_stored = entry.is_stored && (!stored || stored->encoding() != entry.encoding);
    const bool needs_master = entry.has_master && !parameter.data;
    if (!needs_stored && !needs_master && entry.is_stored == (stored != nullptr) &&
        entry.has_master == (parameter.data != nullptr))
      continue;
    WeightConversion::Matrix matrix;
    matrix.parameter = i;
    matrix.is_stored = entry.is_stored;
    matrix.has_master = entry.has_master;
    if (needs_stored) {
      WEFT_TRY(QuantizedWeight quantized, weights.make_stored(i, entry.encoding));
      matrix.stored = std::make_unique<QuantizedWeight>(std::move(quantized));
    }
    if (needs_master) {
      WEFT_TRY(matrix.master, weights.memory().make_master(i));
    }
    made.matrices.push_back(std::move(matrix));
  }
  return made;
}

void WeightSnapshot::restore(WeightStore& weights, WeightConversion prepared, BatchCopy& copies) const {
  for (NodeId node = 0; node < layers_.size(); ++node) weights.layers_[node].encoding = layers_[node];
  weights.install(std::move(prepared));
  weights.note_change();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    WeightStore::Parameter& parameter = weights.parameters_[i];
    // A version may come again with other values, which a snapshot could not tell.
    ++weights.layers_[parameter.node].changes;
    parameter.version = entry.version;
    if (QuantizedWeight* const stored = weights.stored(i)) stored->version = entry.stored_version;
    weights.visit_memory(i, [&](const Field& field, std::span<std::byte> memory) {
      const std::size_t at = field.name == WeightStore::kMaster.name ? entry.master : entry.stored;
      copies.add(memory.data(), bytes_.data() + at, memory.size());
    });
  }
}

}  // namespace weft::mesh
