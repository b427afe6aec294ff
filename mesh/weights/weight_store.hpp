// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"
#include "mesh/weights/layer_rates.hpp"
#include "mesh/weights/parameter_memory.hpp"
#include "mesh/weights/quantized_weight.hpp"
#include "mesh/weights/tied_weights.hpp"
#include "mesh/weights/weight_conversion.hpp"

#include "topology/node_memory.hpp"
#include "topology/plan.hpp"

#include "core/archive.hpp"
#include "core/philox.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace weft::mesh {

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

  LayerRates rates;

  /// Room for all parameters of `graph`, zeroed, in the encodings that it names; `plan` counts cells as units, region
  /// by region. Without `keeps_masters`, only layers that are float32 or quantisation-aware have masters.
  static Result<WeightStore> build(const Graph& graph, const std::vector<std::uint32_t>& node_region,
                                   const topology::Plan& plan, topology::NodeMemory& memory, bool keeps_masters);
  /// Memory beside the parameters, for arrays that are laid out as they are.
  const ParameterMemory& memory() const noexcept { return memory_; }
  /// Fills every parameter from the network's seed and its layer's place.
  void initialize(const Graph& graph, std::uint64_t seed);
  /// Row-major values that a parameter's initializer draws; with the network's seed and the purpose `init` those that
  /// it began with.
  std::vector<float> draw(const Graph& graph, const Parameter& parameter, std::uint64_t seed,
                          RandomPurpose purpose) const;

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
    const kernels::ConstWeight* const tied = tied_.forward(node);
    return {tied ? tied : views_.data() + first_[node]};
  }
  /// Parameters that a layer computes with, in the order in which it is given them, where they are not just its own;
  /// else empty.
  std::span<const std::uint32_t> slots(NodeId node) const noexcept { return tied_.parameters(node); }

  /// Row-major values: of the master, or dequantized where it is released.
  std::vector<float> read(const Parameter& parameter) const;
  /// @error shape_mismatch: wrong number of values; not_finite: naming the first index; the parameter is untouched
  Status write(Parameter& parameter, std::span<const float> values, std::string_view object);
  /// Whole rows of a matrix whose master is held, from row `first` on, a multiple of 16; after the last ones
  /// `end_rows`, and until then the parameter is half written. @error not_finite: as `write`
  Status write_rows(Parameter& parameter, std::size_t first, std::span<const float> rows, std::string_view object);
  void end_rows(Parameter& parameter);

  /// Encoding of a layer's matrices now, but for those inside a container that have their own (`encoding_of`). float32
  /// for a layer without a matrix.
  const Encoding& encoding(NodeId node) const noexcept { return layers_[node].encoding; }
  /// Encoding of a parameter now; float32 of a vector.
  Encoding encoding_of(std::size_t parameter) const noexcept {
    return storage_[parameter].active ? storage_[parameter].active->encoding() : Encoding(Dtype::float32);
  }
  /// True when learning can change the layer's weights: its master weights are kept.
  bool learns(NodeId node) const noexcept { return layers_[node].has_masters; }
  /// The weights that errors and targets travel back through: the stored ones where a layer is quantisation-aware (the
  /// straight-through estimate) or has no masters, else the masters.
  ConstWeights backward_view(NodeId node) const noexcept {
    if (const kernels::ConstWeight* const tied = tied_.backward(node)) return {tied};
    return {backward_views_.data() + first_[node]};
  }
  /// Stores a layer's matrices in another encoding; the one before is given back. Other layers are not touched, nor
  /// matrices inside a container that have an encoding of their own.
  /// @error unsupported: the layer has no such matrix; not_finite: a weight the type cannot hold, the first index
  /// named,
  ///        also when it could (NaN, infinities) unless `allow_non_finite`; nothing changes then
  Status morph(NodeId node, std::string_view object, const Encoding& encoding, bool allow_non_finite = false);
  /// Memory for a matrix in another encoding, which belongs to the caller.
  Result<QuantizedWeight> make_stored(std::size_t parameter, const Encoding& encoding,
                                      std::span<WeightArena> arenas = {}) const {
    const ParameterSpec& spec = *parameters_[parameter].spec;
    return memory_.make_quantized(parameter, encoding, spec.out, spec.in, arenas);
  }
  /// Quantizes a layer's matrices anew after its masters moved. Allocates nothing.
  void refresh(NodeId node) noexcept;
  /// The same by a stream's operations, whatever versions say: after a step that moved them.
  void quantize_stored(NodeId node, kernels::OpStream& stream);
  /// A parameter's version, where somebody else moved it and quantized it anew.
  void set_version(std::size_t parameter, std::uint64_t version) noexcept;
  /// The matrix as stored, or null where it is float32.
  const QuantizedWeight* stored(std::size_t parameter) const noexcept { return storage_[parameter].active.get(); }
  QuantizedWeight* stored(std::size_t parameter) noexcept { return storage_[parameter].active.get(); }

  /// Gives back the masters of layers that are not stored as float32. What the encoding rounded away is lost.
  /// Such layers learn no more until they are morphed to float32.
  /// @error unsupported: a float32 layer computes with its master; nothing changes then
  Status release_masters(const Graph& graph, std::span<const NodeId> nodes);
  /// Sets a master that is held to what the stored form dequantizes to, after that was read from a file.
  void dequantize_master(std::size_t parameter) noexcept;

  /// Another number after every change but those of a learning rule's steps.
  std::uint64_t changes() const noexcept { return changes_.load(std::memory_order_relaxed); }
  /// A master was moved, and its version, other than through this class.
  void note_change() noexcept { changes_.fetch_add(1, std::memory_order_relaxed); }
  /// A master's panels; released: dequantized into `dequantized`.
  kernels::ConstPanels panels(std::size_t parameter, AlignedBuffer<float>& dequantized) const;

  /// The weights of a layer as values: the forms that compute, and the masters.
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
    if (stored.codes) QuantizedWeight::visit(stored, archive);
    if (master) archive(kMaster, std::span<const float>(master, spec.stored_size()));
  }
  /// The weights of a parameter as memory, in whole cache lines: its master, then its quantized form, each where it has
  /// one. Versions beside them say when they changed. For archives that move all of it.
  template <class Archive>
  void visit_memory(std::size_t parameter, Archive&& archive) const {
    visit_memory_of<const std::byte>(*this, parameter, archive);
  }
  template <class Archive>
  void visit_memory(std::size_t parameter, Archive&& archive) {
    visit_memory_of<std::byte>(*this, parameter, archive);
  }
  static constexpr Field kMaster{"master", Scope::weights}, kStored{"stored", Scope::weights};

  /// Bytes of what layers compute with: codes, scales, zero points, vectors; lane padding counted.
  std::uint64_t bytes() const noexcept;
  std::uint64_t bytes(NodeId node) const noexcept;
  /// All memory it holds, masters too, as the allocators gave it.
  std::uint64_t allocated_bytes() const noexcept;
  /// Number of weights, padding not counted.
  std::uint64_t count() const noexcept;

 private:
  friend class WeightSnapshot;
  struct Storage {
    std::unique_ptr<QuantizedWeight> active;  // null: the master computes
    WeightMemory master;                      // made by a conversion; else in the arena
    bool trains_stored = false;               // "qat"
  };
  struct LayerStorage {
    Encoding encoding;
    bool has_masters = true;
    std::uint64_t changes = 0;  // of places and types; never goes back
  };
  /// Threads of several regions execute commands, so they may count at once.
  struct Count : std::atomic<std::uint64_t> {
    Count() : std::atomic<std::uint64_t>(0) {}
    Count(Count&& other) noexcept : std::atomic<std::uint64_t>(other.load()) {}
    Count& operator=(Count&& other) noexcept {
      store(other.load());
      return *this;
    }
  };
  template <class Byte, class Self, class Archive>
  static void visit_memory_of(Self& self, std::size_t i, Archive& archive) {
    using Floats = std::conditional_t<std::is_const_v<Byte>, const float, float>;
    const std::size_t floats = ParameterMemory::padded(self.parameters_[i].spec->stored_size());
    Floats* const master = self.parameters_[i].data;
    if (master) archive(kMaster, std::span<Byte>(reinterpret_cast<Byte*>(master), floats * sizeof(float)));
    QuantizedWeight* const stored = self.storage_[i].active.get();
    if (stored) archive(kStored, std::span<Byte>(stored->block(), stored->padded_size()));
  }
  void fill_rows(Parameter& parameter, RandomStream& random);
  /// Puts a conversion's storage in the place of what is there, and sets the views of its layers.
  void install(WeightConversion made) noexcept;
  /// Sets what a layer computes with, where others do too, after its storage or its types changed.
  void set_views(NodeId node) noexcept;
  Status make_arena(const std::vector<bool>& is_inside);

  std::vector<Parameter> parameters_;
  std::vector<kernels::ConstWeight> views_, backward_views_;
  TiedWeights tied_;
  std::vector<Storage> storage_;
  std::vector<LayerStorage> layers_;  // by node
  std::vector<std::uint32_t> first_;  // node -> its first parameter; one past the end at the back
  ParameterMemory memory_;
  ParameterBuffer arena_;  // masters, a region after the other
  Count changes_;
  std::uint64_t number_ = 0;  // no two stores that were built have the same
};

}  // namespace weft::mesh
