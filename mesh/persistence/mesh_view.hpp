// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/mesh.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/runtime/halt.hpp"
#include "mesh/weights/weight_snapshot.hpp"

#include "core/byte_source.hpp"
#include "core/state_hash.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft::mesh {

struct CellRecord;

/// Parts of a mesh that never change, as its files describe them.
struct MeshPlan {
  struct Parameter {
    ParameterSpec spec;
    std::string tensor, object;
  };
  struct CellPlan {
    NodeId first = 0;
    std::uint32_t layers = 0;
    std::vector<std::size_t> observers{};  // sizes of their memory
    bool takes_mail = false;
  };

  explicit MeshPlan(const Mesh& mesh);

  NetworkSpec spec;
  std::vector<NodeId> layers;  // nodes of spec.layers
  std::vector<Parameter> parameters;
  std::vector<std::size_t> first;  // node -> its first parameter; one past the end at the back
  std::vector<CellPlan> cells;
  bool has_observers = false;
};

/// State of a mesh for reading, at one tick boundary: the mesh's own, or a copy of it. Cheap beside the state.
struct MeshView {
  struct Weight {
    kernels::ConstWeight stored;    // its codes are null where the master computes
    const float* master = nullptr;  // null: released, or not to be saved
  };

  std::shared_ptr<const MeshPlan> plan;
  std::uint64_t ticks = 0, sessions_created = 0;
  const State* state = nullptr;                             // null: weights alone
  std::vector<Encoding> encodings;                          // by node
  std::vector<Weight> weights;                              // by parameter
  std::shared_ptr<const std::vector<std::uint64_t>> cells;  // words of `state/cells`
  std::optional<Halt> halt;
};

/// The mesh's own state; valid until the mesh changes. `live`: its weights alone, or all of it.
MeshView view_of(const Mesh& mesh, bool live);
/// Appends the words of `state/cells` as they are now.
void add_cell_words(const Mesh& mesh, std::vector<std::uint64_t>& words);
/// The same; the memory of `record` is used again.
void add_cell_words(const Mesh& mesh, std::vector<std::uint64_t>& words, CellRecord& record);

/// A rule's part of the state hash of a layer.
using LayerHash = std::function<void(NodeId, StateHasher&)>;
/// Mesh::state_hash of a view with state.
Hash128 state_hash(const MeshView& view, std::size_t session, const LayerHash& rule);
/// The network with the types that its layers have.
NetworkSpec current_spec(const MeshView& view);
/// Content of the .entity file (docs/formats/entity.md), to be streamed: the view must stay valid as long as it is.
/// @error not_finite: a stored weight is not finite and would not be read back
Result<ByteSource> entity_of(const MeshView& view, const CheckpointExtras& extras);

}  // namespace weft::mesh
