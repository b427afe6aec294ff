// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/memory/batch_copy.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/weights/quantized_weight.hpp"
#include "mesh/weights/weight_copy.hpp"

#include "topology/node_memory.hpp"
#include "topology/plan.hpp"

#include "core/archive.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft::mesh {

/// An array beside every parameter, laid out and placed as the master weights are: gradients, velocities, moments.
class ParameterBuffer {
 public:
  /// The floats beside parameter `i` of the store, spec->stored_size() of them.
  float* data(std::size_t i) const noexcept { return data_[i]; }

 private:
  friend class WeightStore;
  std::vector<float*> data_;
  std::vector<topology::NodeBuffer> buffers_;
};

/// Every layer's weights. A matrix has a float32 master, which learning moves, and is stored in the encoding of its
/// layer, which computes; in float32 the two are one. A version counts the changes of each master, so that derived
/// forms know when they are stale. Vectors (biases, gains) are float32 always.
/// @thread a parameter is written by the region that owns its layer, or between ticks by the owner of the mesh
class WeightStore {
 public:
  struct Parameter {
    NodeId node = 0;
    std::uint32_t index = 0;  // into Layer::parameters()
    const ParameterSpec* spec = nullptr;
    float* data = nullptr;  // the master, spec->stored_size() floats, 64-byte aligned; null: released
    std::uint64_t version = 0;
  };

  /// Room for all parameters of `graph`, zeroed, in the encodings that it names; `plan` counts cells as units, region
  /// by region. Without `keeps_masters`, only layers that are float32 or quantisation-aware have masters.
  static Result<WeightStore> build(const Graph& graph, const std::vector<std::uint32_t>& node_region,
                                   const topology::Plan& plan, topology::NodeMemory& memory, bool keeps_masters);
  /// A zeroed array beside every parameter.
  Result<ParameterBuffer> make_buffer() const;
  /// The same beside some parameters; null beside the others.
  Result<ParameterBuffer> make_buffer(const std::vector<bool>& is_inside) const;
  /// Fills every parameter from the network's seed and its layer's place.
  void initialize(const Graph& graph, std::uint64_t seed);

  std::span<Parameter> parameters() noexcept { return parameters_; }
  std::span<const Parameter> parameters() const noexcept { return parameters_; }
  /// Parameters of one layer.
  std::span<Parameter> of(NodeId node) noexcept;
  std::span<const Parameter> of(NodeId node) const noexcept;
  /// Nodes of the network, ports counted.
  std::size_t node_count() const noexcept { return first_.size() - 1; }
  /// Position of a layer's first parameter in `parameters()`.
  std::size_t first(NodeId node) const noexcept { return first_[node]; }
  /// The same as the ops take them; stays valid while types change.
  ConstWeights view(NodeId node) const noexcept {
    return {joined_[node] ? joined_[node]->forward.data() : views_.data() + first_[node]};
  }
  /// Parameters that a layer computes with, in the order in which it is given them, where they are not just its own;
  /// else empty.
  std::span<const std::uint32_t> slots(NodeId node) const noexcept {
    return joined_[node] ? std::span<const std::uint32_t>(joined_[node]->parameters) : std::span<const std::uint32_t>();
  }

  /// Row-major values: of the master, or decoded where it is released.
  std::vector<float> read(const Parameter& parameter) const;
  /// @error shape_mismatch: wrong number of values; not_finite: naming the first index; the parameter is untouched
  Status write(Parameter& parameter, std::span<const float> values, std::string_view object);
  /// Whole rows of a matrix whose master is held, from row `first` on, a multiple of 16; after the last ones
  /// `end_rows`, and until then the parameter is half written. @error not_finite: as `write`
  Status write_rows(Parameter& parameter, std::size_t first, std::span<const float> rows, std::string_view object);
  void end_rows(Parameter& parameter);

  /// Encoding of a layer's matrices now. float32 for a layer without a matrix.
  const Encoding& encoding(NodeId node) const noexcept { return layers_[node].encoding; }
  /// True when learning can change the layer's weights: its master weights are kept.
  bool learns(NodeId node) const noexcept { return layers_[node].has_masters; }
  /// The weights that errors and targets travel back through: the stored ones of a quantisation-aware layer (the
  /// straight-through estimate) and of one without masters, else the masters.
  ConstWeights backward_view(NodeId node) const noexcept {
    if (joined_[node]) return {joined_[node]->backward.data()};
    return {(goes_back_stored(node) ? views_ : master_views_).data() + first_[node]};
  }
  /// Stores a layer's matrices in another encoding; the one before is given back. Other layers are not touched.
  /// @error unsupported: the layer has no matrix; not_finite: a weight the type cannot hold, the first index named,
  ///        also when it could (NaN, infinities) unless `allow_non_finite`; nothing changes then
  Status morph(NodeId node, std::string_view object, const Encoding& encoding, bool allow_non_finite = false);
  /// Room for a matrix in another encoding, that belongs to the caller.
  Result<QuantizedWeight> make_stored(std::size_t parameter, const Encoding& encoding) const;
  /// Encodes a layer's matrices anew after its masters moved. Allocates nothing.
  void refresh(NodeId node) noexcept;
  /// The same by a stream's operations, whatever versions say: after a step that moved them.
  void encode_stored(NodeId node, kernels::OpStream& stream);
  /// A parameter's version, where somebody else moved it and encoded it anew.
  void set_version(std::size_t parameter, std::uint64_t version) noexcept;
  /// The matrix as stored, or null where it is float32.
  const QuantizedWeight* stored(std::size_t parameter) const noexcept { return storage_[parameter].active.get(); }
  QuantizedWeight* stored(std::size_t parameter) noexcept { return storage_[parameter].active.get(); }

  /// Gives back the masters of layers that are not stored as float32. What the encoding rounded away is lost.
  /// Such layers learn no more until `rebuild_master`.
  /// @error unsupported: a float32 layer computes with its master; nothing changes then
  Status release_masters(const Graph& graph, std::span<const NodeId> nodes);
  /// Makes the masters of a layer again from its stored form: the values that it computes with.
  Status rebuild_master(NodeId node);
  /// Sets a master that is held to what the stored form decodes to, after that was read from a file.
  void decode_master(std::size_t parameter) noexcept;

  /// Notes what to copy for `to` to hold all weights; without `all_masters` only those of layers that compute with
  /// them. What `to` holds already, from the last time, is left out where versions say that it has not moved. Allocates
  /// nothing when `to` has held as much before.
  void copy_to(WeightCopy& to, bool all_masters, BatchCopy& copies) const;
  /// Memory needed before a copy (with all master weights) of this network's weights can be restored.
  /// @error shape_mismatch: another network's; too_large
  Result<WeightRoom> make_room(const WeightCopy& from) const;
  /// Puts types and versions back and notes what to copy for the weights, two copies a parameter at most.
  void load(const WeightCopy& from, WeightRoom room, BatchCopy& copies);
  /// True when no weight, version or type has changed since the copy, whose arrays may be left out.
  bool is_unchanged_since(const WeightCopy& copy) const noexcept;
  /// Another number after every change but those of a learning rule's steps.
  std::uint64_t changes() const noexcept { return changes_.load(std::memory_order_relaxed); }
  /// A master was moved, and its version, other than through this class.
  void note_change() noexcept { changes_.fetch_add(1, std::memory_order_relaxed); }
  /// Notes versions and types alone, for `is_unchanged_since`.
  void note_to(WeightCopy& to) const;

  /// The weights of a layer: the forms that compute, and the masters.
  template <class Archive>
  void visit_layer(NodeId node, Archive& archive) const {
    for (std::size_t i = first_[node]; i < first_[node + 1]; ++i) {
      const QuantizedWeight* const stored = storage_[i].active.get();
      visit_parameter(*parameters_[i].spec, stored ? stored->view() : kernels::ConstWeight(), parameters_[i].data,
                      archive);
    }
  }
  /// One parameter's part of it. `stored.codes` null: it computes with its master; `master` null: released.
  template <class Archive>
  static void visit_parameter(const ParameterSpec& spec, const kernels::ConstWeight& stored, const float* master,
                              Archive& archive) {
    if (stored.codes) {
      const kernels::WeightBytes bytes = kernels::weight_bytes(stored.encoding(), stored.out, stored.in);
      const auto array = [&](std::string_view name, const void* data, std::size_t size) {
        archive(Field{name, Scope::weights}, std::span(static_cast<const std::byte*>(data), size));
      };
      archive(Field{"dtype", Scope::weights}, std::uint64_t(stored.dtype));
      archive(Field{"granularity", Scope::weights}, std::uint64_t(stored.granularity));
      array("codes", stored.codes, bytes.codes);
      array("scales", stored.scales, bytes.scales);
      array("zeros", stored.zeros, bytes.zeros);
    }
    if (master) archive(Field{"master", Scope::weights}, std::span<const float>(master, spec.stored_size()));
  }

  /// Every array that layers compute with or learn, as (address, bytes); a parameter's master before its stored form.
  void each_array(const std::function<void(NodeId, const void*, std::size_t)>& visit) const;

  /// Bytes of what layers compute with: codes, scales, zero points, vectors; lane padding counted.
  std::uint64_t bytes() const noexcept;
  std::uint64_t bytes(NodeId node) const noexcept;
  /// All memory it holds, masters too, as the allocators gave it.
  std::uint64_t allocated_bytes() const noexcept;
  /// Number of weights, padding not counted.
  std::uint64_t count() const noexcept;

 private:
  void fill_rows(Parameter& parameter, RandomStream& random);
  struct Storage {
    std::unique_ptr<QuantizedWeight> active;  // null: the master computes
    WeightMemory master;                      // made by `rebuild_master` or `morph`; else in the arena
  };
  struct LayerStorage {
    Encoding encoding;
    bool quantization_aware = false;
    bool has_masters = true;
    std::uint64_t changes = 0;  // of places and types; never goes back
  };
  /// The weights of a layer that computes with other layers' too, side by side.
  struct Joined {
    std::vector<std::uint32_t> parameters;
    std::vector<kernels::ConstWeight> forward, backward;
  };
  /// A place of a layer's joined weights that another layer's parameter fills.
  struct TiedPlace {
    Joined* joined = nullptr;
    std::uint32_t slot = 0;
  };
  /// Regions' threads execute commands, so they may count at once.
  struct Count : std::atomic<std::uint64_t> {
    Count() : std::atomic<std::uint64_t>(0) {}
    Count(Count&& other) noexcept : std::atomic<std::uint64_t>(other.load()) {}
    Count& operator=(Count&& other) noexcept {
      store(other.load());
      return *this;
    }
  };
  WeightCopy::Entry note(std::size_t i) const noexcept;
  void join(const Graph& graph);
  bool goes_back_stored(NodeId node) const noexcept {
    return layers_[node].quantization_aware || !layers_[node].has_masters;
  }
  bool is_matrix(std::size_t i) const noexcept { return parameters_[i].spec->is_matrix(); }
  /// A master's panels; released: decoded into `room`.
  kernels::ConstPanels panels(std::size_t i, AlignedBuffer<float>& room) const;
  void set_view(std::size_t i) noexcept;
  Result<WeightMemory> make_master_room(std::size_t i) const;
  /// Makes the decoded values the master.
  void take_master(std::size_t i, WeightMemory room) noexcept;
  Status make_arena(const std::vector<bool>& is_inside);
  std::uint32_t numa_node(std::size_t i) const noexcept { return region_node_[parameter_region_[i]]; }

  std::vector<Parameter> parameters_;
  std::vector<kernels::ConstWeight> views_, master_views_;
  std::vector<std::unique_ptr<Joined>> joined_;                     // by node
  std::unordered_map<NodeId, std::vector<TiedPlace>> tied_places_;  // by the node whose weights stand there
  std::vector<Storage> storage_;
  std::vector<LayerStorage> layers_;  // by node
  std::vector<std::uint32_t> first_;  // node -> its first parameter; one past the end at the back
  ParameterBuffer arena_;             // masters, a region after the other
  std::vector<std::uint32_t> parameter_region_, region_node_;
  topology::NodeMemory* memory_ = nullptr;
  Count changes_;
  std::uint64_t number_ = 0;  // no two stores that were built have the same
};

}  // namespace weft::mesh
