// SPDX-License-Identifier: Apache-2.0
// The rows of a mesh's state: their number, their history, and their way out and in.

#include "mesh/internal/mesh_parts.hpp"
#include "mesh/mesh.hpp"

#include <algorithm>

namespace weft::mesh {

Status Mesh::Parts::rebuild_state(State::Options wanted, std::size_t keep_sessions,
                                  std::optional<std::size_t> removed) {
  sync(true);
  WEFT_TRY(State fresh, State::build(graph, layout.node_region, layout.plan, layout.memory, wanted));
  // Committed values only: a deeper or shallower history starts anew.
  for (std::size_t b = 0, from = 0; b < keep_sessions; ++b, ++from) {
    if (removed && from == *removed) ++from;
    fresh.copy_session(*state, from, b, ticks, std::min(wanted.depth, state->depth()));
  }
  auto next = std::make_unique<State>(std::move(fresh));
  next.swap(state);
  try {
    make_engine();
  } catch (...) {
    next.swap(state);  // the engine still runs on the one before
    throw;
  }
  options.sessions = wanted.sessions;
  return {};
}

Result<std::size_t> Mesh::add_session() {
  State::Options options = parts_->state->options();
  const std::size_t before = options.sessions++;
  if (before >= kMaxSessions)
    return fail(Errc::too_large, "sessions: " + std::to_string(before) + " are there, at most 65536 are carried");
  WEFT_CHECK(parts_->rebuild_state(options, before, std::nullopt));
  // Initial sessions take streams 1, 2, ... as they first draw; no later one may reuse them.
  parts_->sync(true);
  parts_->state->set_streams(before, parts_->ticks, ++parts_->sessions_created);
  parts_->take_cell_snapshots();
  return before;
}

Status Mesh::remove_session(std::size_t session) {
  State::Options options = parts_->state->options();
  if (session >= options.sessions)
    return fail(Errc::out_of_range, "session " + std::to_string(session) + " of " + std::to_string(options.sessions));
  if (options.sessions == 1)
    return fail(Errc::invalid_argument, "session 0 is the last one; a mesh keeps at least one");
  --options.sessions;
  WEFT_CHECK(parts_->rebuild_state(options, options.sessions, session));
  parts_->take_cell_snapshots();
  return {};
}

Status Mesh::reset_session(std::size_t session) {
  if (session >= sessions())
    return fail(Errc::out_of_range, "session " + std::to_string(session) + " of " + std::to_string(sessions()));
  parts_->sync(true);
  parts_->state->reset_session(session, parts_->ticks);
  return {};
}

}  // namespace weft::mesh
