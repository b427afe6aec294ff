// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/mesh.hpp"

#include "formats/entity/entity.hpp"

#include "core/bytes.hpp"
#include "core/state_hash.hpp"

#include <cstddef>
#include <optional>

namespace weft::mesh {

/// Digest of the weights that layers compute with now: codes, scales and zero points, or float32 values. Master weights
/// are left out, because only learning uses them.
Hash128 weights_digest(const Mesh& mesh);

/// One session as the bytes of an .entity file (docs/formats/entity.md, "A session alone"): what it reads at the next
/// tick, the network it belongs to (Mesh::network_digest) and the weights it was run with. The mesh keeps it.
///
/// With a learning rule attached, `under_way` says of how many sessions, the first ones, errors are on their way
/// through the mesh: they will move its weights, and belong to no session alone, so these are refused. 0: of none
/// (schedule settle; drained).
/// @error out_of_range; unsupported: errors of it are under way; invalid_argument: a rule is attached, and `under_way`
///        is not given
Result<ByteBuffer> detach_session(const Mesh& mesh, std::size_t session,
                                  std::optional<std::size_t> under_way = std::nullopt);

/// True when a file holds a session alone.
bool holds_session(const formats::EntityFile& file);

/// Adds a session that goes on where the detached one stood, to the same bits: whatever the mesh's tick, threads, other
/// sessions and learning rule (which does not train it), as long as cells are switched alike in both meshes.
/// @return its index
/// @error not_found: no session's file; shape_mismatch: another network's; invalid_argument: it was run with other
/// weights
///        and `allow_other_weights` is not set; corrupt. The mesh is as before then
Result<std::size_t> attach_session(Mesh& mesh, const formats::EntityFile& file, bool allow_other_weights = false);

}  // namespace weft::mesh
