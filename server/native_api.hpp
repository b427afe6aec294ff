// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/idempotency.hpp"
#include "server/job_table.hpp"
#include "server/mesh_table.hpp"
#include "server/router.hpp"
#include "server/worker.hpp"

#include <string>

namespace weft::server {

/// Parts of a server that the native routes, `/api/v1`, need. Lasts as long as the router that they were added to.
struct NativeContext {
  MeshTable& meshes;
  Worker& worker;  ///< for what takes long and is of no mesh yet
  JobTable& jobs;  ///< for what takes longer than a client should wait for
  IdempotencyStore& idempotency;
  const std::string model_directory;  ///< of files that clients may name; empty: none
  const bool allows_weights = false;  ///< routes that replace weights
  const std::string version;
};

/// Create, list, describe, delete meshes; their networks, files and hashes.
void add_mesh_routes(Router& router, NativeContext& context);
/// Ticks, passes, learning, the mesh's own clock.
void add_tick_routes(Router& router, NativeContext& context);
/// Sessions of a mesh.
void add_session_routes(Router& router, NativeContext& context);
/// Orders, checkpoints, marks, weights, events.
void add_state_routes(Router& router, NativeContext& context);
/// A mesh's past: journal, checkpoints, replays; jobs.
void add_history_routes(Router& router, NativeContext& context);
/// 202: the work of a request has become a job.
HttpResponse job_accepted(const std::string& id);
/// Cells: heat maps, lists, one in full.
void add_cell_routes(Router& router, NativeContext& context);

}  // namespace weft::server
