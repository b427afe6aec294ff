// SPDX-License-Identifier: Apache-2.0

#include "mesh/weights/weight_store.hpp"

#include "kernels/encode.hpp"
#include "kernels/linear.hpp"

#include <algorithm>

namespace weft::mesh {

Status WeightStore::morph(NodeId node, std::string_view object, const Encoding& encoding, bool allow_non_finite) {
  const std::size_t begin = first_[node], end = first_[node + 1];
  std::vector<std::size_t> matrices;
  for (std::size_t i = begin; i < end; ++i)
    if (is_matrix(i)) matrices.push_back(i);
  if (matrices.empty())
    return fail(Errc::unsupported, std::string(object) + ": has no weight matrix to store as " + to_string(encoding) +
                                       "; only layers with one have a numeric type");
  if (encoding == layers_[node].encoding) return {};

  // Everything that can fail comes before the first change.
  std::vector<std::unique_ptr<QuantizedWeight>> made(matrices.size());
  std::vector<AlignedBuffer<float>> rooms(matrices.size());
  std::vector<WeightMemory> masters(matrices.size());
  for (std::size_t m = 0; m < matrices.size(); ++m) {
    const std::size_t i = matrices[m];
    const ParameterSpec& spec = *parameters_[i].spec;
    const kernels::ConstPanels from = panels(i, rooms[m]);
    if (const auto bad = kernels::first_unstorable(from, encoding.dtype, allow_non_finite))
      return fail(Errc::not_finite,
                  std::string(object) + " '" + spec.name + "': weight " + std::to_string(*bad) + " is " +
                      std::to_string(from.data[kernels::panel_index(spec.in, *bad / spec.in, *bad % spec.in)]) +
                      ", which " + to_string(encoding) + " does not take; set finite weights first");
    if (encoding.dtype == Dtype::float32) {
      if (!parameters_[i].data) {
        WEFT_TRY(masters[m], make_master_room(i));
      }
      continue;
    }
    WEFT_TRY(QuantizedWeight stored, make_stored(i, encoding));
    stored.encode(from);
    stored.version = parameters_[i].version;
    made[m] = std::make_unique<QuantizedWeight>(std::move(stored));
  }
  for (std::size_t m = 0; m < matrices.size(); ++m) {
    if (masters[m].bytes() != 0) take_master(matrices[m], std::move(masters[m]));
    storage_[matrices[m]].active = std::move(made[m]);
    set_view(matrices[m]);
  }
  layers_[node].encoding = encoding;
  return {};
}

Result<QuantizedWeight> WeightStore::make_stored(std::size_t i, const Encoding& encoding) const {
  return QuantizedWeight::make(encoding, parameters_[i].spec->out, parameters_[i].spec->in, *memory_, numa_node(i));
}

void WeightStore::refresh(NodeId node) noexcept {
  for (std::size_t i = first_[node]; i < first_[node + 1]; ++i) {
    QuantizedWeight* const stored = storage_[i].active.get();
    if (!stored || !parameters_[i].data || stored->version == parameters_[i].version) continue;
    stored->encode({parameters_[i].data, parameters_[i].spec->out, parameters_[i].spec->in});
    stored->version = parameters_[i].version;
  }
}

void WeightStore::encode_stored(NodeId node, kernels::OpStream& stream) {
  for (std::size_t i = first_[node]; i < first_[node + 1]; ++i) {
    QuantizedWeight* const stored = storage_[i].active.get();
    if (!stored || !parameters_[i].data) continue;
    stored->encode({parameters_[i].data, parameters_[i].spec->out, parameters_[i].spec->in}, stream);
    stored->version = parameters_[i].version;
  }
}

void WeightStore::set_version(std::size_t parameter, std::uint64_t version) noexcept {
  // Going back, it may come to versions that there were, with other values.
  if (version < parameters_[parameter].version) ++layers_[parameters_[parameter].node].changes;
  parameters_[parameter].version = version;
  if (QuantizedWeight* const stored = storage_[parameter].active.get()) stored->version = version;
}

Result<WeightMemory> WeightStore::make_master_room(std::size_t i) const {
  return WeightMemory::allocate(parameters_[i].spec->stored_size() * sizeof(float), *memory_, numa_node(i));
}

void WeightStore::take_master(std::size_t i, WeightMemory room) noexcept {
  storage_[i].master = std::move(room);
  parameters_[i].data = reinterpret_cast<float*>(storage_[i].master.data());
  storage_[i].active->decode({parameters_[i].data, parameters_[i].spec->out, parameters_[i].spec->in});
}

Status WeightStore::rebuild_master(NodeId node) {
  for (std::size_t i = first_[node]; i < first_[node + 1]; ++i)
    if (!parameters_[i].data) {
      WEFT_TRY(WeightMemory room, make_master_room(i));
      take_master(i, std::move(room));
      set_view(i);
    }
  return {};
}

void WeightStore::decode_master(std::size_t i) noexcept {
  QuantizedWeight* const stored = storage_[i].active.get();
  if (!stored) return;
  if (parameters_[i].data) stored->decode({parameters_[i].data, parameters_[i].spec->out, parameters_[i].spec->in});
  stored->version = ++parameters_[i].version;
  note_change();
}

Status WeightStore::release_masters(const Graph& graph, std::span<const NodeId> nodes) {
  for (const NodeId node : nodes)
    if (layers_[node].encoding.dtype == Dtype::float32)
      return fail(Errc::unsupported,
                  graph.nodes()[node].object + ": computes with its master weights; morph it to another type first");
  std::vector<bool> is_released(parameters_.size(), false), stays(parameters_.size(), false);
  for (const NodeId node : nodes)
    for (std::size_t i = first_[node]; i < first_[node + 1]; ++i) is_released[i] = storage_[i].active != nullptr;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    stays[i] = !is_released[i] && parameters_[i].data && storage_[i].master.bytes() == 0;
  // The arena is made anew without them, so that its memory goes back to the system.
  WEFT_CHECK(make_arena(stays));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (is_released[i]) {
      parameters_[i].data = nullptr;
      storage_[i].master = {};
    }
    set_view(i);
  }
  return {};
}

}  // namespace weft::mesh
