// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/mesh.hpp"

#include "formats/entity/entity.hpp"

#include "core/byte_source.hpp"

#include <optional>
#include <string>
#include <vector>

namespace weft::mesh {

/// Data of others in a mesh's file (a learner's optimiser state and messages in flight).
struct CheckpointExtras {
  std::vector<formats::Tensor> tensors;
  std::string meta_json = "{}";                        // an object, stored under meta.extras
  std::optional<std::string> stream = std::nullopt;    // the network's section "stream", where it is not the mesh's
  std::optional<std::string> learning = std::nullopt;  // and its section "learning"
  /// Ticks of the state's past that a step to come can read (learning::kept_ticks); 0: all that it has.
  std::size_t kept_ticks = 0;
};

/// Content of an .entity file (docs/formats/entity.md), to be streamed while the mesh stays as it is: network and
/// weights; with `live`, also everything that ticks change: all sessions with their histories, cells, supervision,
/// tick. What waits in mailboxes is delivered first, as the next tick would; commands for later ticks are in the file;
/// the state becomes what `restart` goes back to. The same mesh state gives the same bytes.
/// @error not_finite: a stored weight is not finite and would not be read back
Result<ByteSource> entity_of(Mesh& mesh, bool live, const CheckpointExtras& extras = {});
/// The same in memory.
Result<ByteBuffer> encode_mesh(Mesh& mesh, bool live, const CheckpointExtras& extras = {});

/// The network a file describes.
Result<NetworkSpec> network_of(const formats::EntityFile& file);
/// True when the file holds live state.
bool holds_live_state(const formats::EntityFile& file);
/// meta.extras, as JSON text; "{}" when there is none.
std::string extras_of(const formats::EntityFile& file);

/// Puts a file's weights into a mesh built from its network. @error not_found, shape_mismatch, corrupt; then the
/// mesh is to be thrown away
Status restore_weights(Mesh& mesh, const formats::EntityFile& file);
/// Puts the live state back into a mesh that has as many sessions and as deep a history (attach the learner first):
/// also commands not due yet, and a fault that halted the mesh. @error not_found, shape_mismatch, corrupt;
/// then the mesh is to be thrown away
Status restore_live(Mesh& mesh, const formats::EntityFile& file);
/// Sessions in the file's live state; 1 without any.
std::size_t sessions_of(const formats::EntityFile& file);
/// History of the state that was saved: ticks of all nodes, or, `node_depths`, of each, and how many of them are in the
/// file.
struct LiveHistory {
  std::size_t depth = 2;
  std::vector<std::uint32_t> node_depths{};
  bool keeps_history = false;  // a learning rule was attached
  std::size_t kept = 0;        // 0: all
};
/// 2 ticks without a learning rule. @error corrupt
Result<LiveHistory> history_of(const formats::EntityFile& file);

}  // namespace weft::mesh
