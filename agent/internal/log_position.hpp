// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/journal_flusher.hpp"

#include "mesh/mesh.hpp"

#include "storage/journal.hpp"

namespace weft::agent::internal {

/// Position of the last record of a journal, and of the mesh that it moved.
inline LogPosition log_position(const storage::JournalWriter& journal, const mesh::Mesh& mesh) noexcept {
  return {journal.place().number, mesh.ticks()};
}

}  // namespace weft::agent::internal
