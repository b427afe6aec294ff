// SPDX-License-Identifier: Apache-2.0

// Copies weights out of a store, and back.

#include "mesh/weights/weight_copy.hpp"

#include "mesh/weights/weight_store.hpp"

#include <algorithm>

namespace weft::mesh {
namespace {
std::size_t cache_lines(std::size_t bytes) noexcept { return (bytes + 63) / 64 * 64; }
}  // namespace

const float* WeightCopy::master(std::size_t i) const noexcept {
  return entries_[i].has_master ? reinterpret_cast<const float*>(bytes_.data() + entries_[i].master) : nullptr;
}

kernels::ConstWeight WeightCopy::stored(std::size_t i, const ParameterSpec& spec) const noexcept {
  if (!entries_[i].is_stored) return {};
  return QuantizedWeight::view(bytes_.data() + entries_[i].stored, entries_[i].encoding, spec.out, spec.in);
}

WeightCopy::Entry WeightStore::note(std::size_t i) const noexcept {
  const QuantizedWeight* const stored = storage_[i].active.get();
  WeightCopy::Entry entry;
  entry.version = parameters_[i].version;
  entry.layer_changes = layers_[parameters_[i].node].changes;
  if (stored) {
    entry.is_stored = true;
    entry.encoding = stored->encoding();
    entry.stored_version = stored->version;
  }
  return entry;
}

void WeightStore::note_to(WeightCopy& to) const {
  to.entries_.resize(parameters_.size());
  to.layers_.resize(layers_.size());
  for (NodeId node = 0; node < layers_.size(); ++node) to.layers_[node] = layers_[node].encoding;
  for (std::size_t i = 0; i < parameters_.size(); ++i) to.entries_[i] = note(i);
  to.used_ = 0;
  to.store_ = 0;
}

void WeightStore::copy_to(WeightCopy& to, bool all_masters, BatchCopy& copies) const {
  to.layers_.resize(layers_.size());
  for (NodeId node = 0; node < layers_.size(); ++node) to.layers_[node] = layers_[node].encoding;
  const auto place = [&](std::size_t i, std::size_t& used) {
    WeightCopy::Entry entry = note(i);
    const ParameterSpec& spec = *parameters_[i].spec;
    entry.has_master = parameters_[i].data && (all_masters || !entry.is_stored);
    entry.stored = used;
    if (entry.is_stored) used += cache_lines(QuantizedWeight::block_size(entry.encoding, spec.out, spec.in));
    entry.master = used;
    if (entry.has_master) used += cache_lines(spec.stored_size() * sizeof(float));
    return entry;
  };
  std::size_t used = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) place(i, used);
  if (to.bytes_.size() < used) {
    to.bytes_ = AlignedBuffer<std::byte>(used);
    to.store_ = 0;
  }
  const bool has_earlier = to.store_ == number_;
  to.entries_.resize(parameters_.size());
  to.used_ = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const WeightCopy::Entry entry = place(i, to.used_);
    // A copy that is still current is reused.
    if (has_earlier && to.entries_[i] == entry) continue;
    to.entries_[i] = entry;
    const ParameterSpec& spec = *parameters_[i].spec;
    if (entry.is_stored)
      copies.add(to.bytes_.data() + entry.stored, storage_[i].active->block(),
                 QuantizedWeight::block_size(entry.encoding, spec.out, spec.in));
    if (entry.has_master)
      copies.add(to.bytes_.data() + entry.master, parameters_[i].data, spec.stored_size() * sizeof(float));
  }
  to.store_ = number_;
}

Result<WeightRoom> WeightStore::make_room(const WeightCopy& from) const {
  if (from.entries_.size() != parameters_.size() || from.layers_.size() != layers_.size())
    return fail(Errc::shape_mismatch, "weights: " + std::to_string(from.entries_.size()) + " parameters where " +
                                          std::to_string(parameters_.size()) + " are expected; another network's");
  WeightRoom room;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const WeightCopy::Entry& entry = from.entries_[i];
    const QuantizedWeight* const stored = storage_[i].active.get();
    const bool needs_stored = entry.is_stored && (!stored || stored->encoding() != entry.encoding);
    const bool needs_master = entry.has_master && !parameters_[i].data;
    if (!needs_stored && !needs_master && entry.is_stored == (stored != nullptr) &&
        entry.has_master == (parameters_[i].data != nullptr))
      continue;
    WeightRoom::Matrix matrix;
    matrix.parameter = i;
    if (needs_stored) {
      WEFT_TRY(QuantizedWeight made, make_stored(i, entry.encoding));
      matrix.stored = std::make_unique<QuantizedWeight>(std::move(made));
    }
    if (needs_master) {
      WEFT_TRY(matrix.master, make_master_room(i));
    }
    room.matrices.push_back(std::move(matrix));
  }
  return room;
}

void WeightStore::load(const WeightCopy& from, WeightRoom room, BatchCopy& copies) {
  for (NodeId node = 0; node < layers_.size(); ++node) layers_[node].encoding = from.layers_[node];
  for (WeightRoom::Matrix& matrix : room.matrices) {
    const std::size_t i = matrix.parameter;
    const WeightCopy::Entry& entry = from.entries_[i];
    if (!entry.is_stored)
      storage_[i].active.reset();
    else if (matrix.stored)
      storage_[i].active = std::move(matrix.stored);
    if (!entry.has_master) {
      parameters_[i].data = nullptr;
      storage_[i].master = {};
    } else if (matrix.master.bytes() != 0) {
      storage_[i].master = std::move(matrix.master);
      parameters_[i].data = reinterpret_cast<float*>(storage_[i].master.data());
    }
    set_view(i);
  }
  note_change();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const WeightCopy::Entry& entry = from.entries_[i];
    const ParameterSpec& spec = *parameters_[i].spec;
    // A version may come again with other values, which a copy could not tell.
    ++layers_[parameters_[i].node].changes;
    parameters_[i].version = entry.version;
    if (entry.is_stored) {
      copies.add(storage_[i].active->block(), from.bytes_.data() + entry.stored,
                 QuantizedWeight::block_size(entry.encoding, spec.out, spec.in));
      storage_[i].active->version = entry.stored_version;
    }
    if (entry.has_master)
      copies.add(parameters_[i].data, from.bytes_.data() + entry.master, spec.stored_size() * sizeof(float));
  }
}

bool WeightStore::is_unchanged_since(const WeightCopy& copy) const noexcept {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (copy.entries_[i].version != parameters_[i].version ||
        copy.entries_[i].layer_changes != layers_[parameters_[i].node].changes)
      return false;
  return true;
}

}  // namespace weft::mesh
