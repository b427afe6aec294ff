// SPDX-License-Identifier: Apache-2.0

#include "mesh/persistence/checkpoint_snapshot.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/persistence/internal/entity_blobs.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/command.hpp"
#include "mesh/runtime/engine.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/linear.hpp"

#include "topology/plan.hpp"

#include "core/json.hpp"

#include <bit>
#include <deque>
#include <utility>

namespace weft::mesh {

MeshView CheckpointSnapshot::view() const {
  WEFT_ASSERT(plan_, "nothing was taken yet");
  MeshView view;
  view.plan = plan_;
  view.ticks = ticks_;
  view.encodings = weights_.layers();
  for (std::size_t i = 0; i < plan_->parameters.size(); ++i)
    view.weights.push_back({weights_.stored(i, plan_->parameters[i].spec), weights_.master(i)});
  if (!is_live_) return view;
  view.state = &*state_;
  view.sessions_created = sessions_created_;
  view.cells = cells_;
  view.halt = halt_;
  return view;
}

Status take_without_cell_snapshots(Mesh& mesh, bool live, CheckpointSnapshot& to) {
  // First: commands that are due change weights and types.
  if (live) MeshAccess::deliver_commands(mesh);
  const bool is_known = to.mesh_ == mesh.number();
  if (!is_known) {
    to.plan_ = std::make_shared<const MeshPlan>(mesh);
    to.mesh_ = mesh.number();
    to.cells_.reset();
  }
  to.is_live_ = live;
  to.ticks_ = mesh.ticks();
  if (live && (!to.state_ || to.state_id_ != MeshAccess::state(std::as_const(mesh)).id())) {
    WEFT_TRY(to.state_, MeshAccess::state(std::as_const(mesh)).make_copy());
    to.state_id_ = MeshAccess::state(std::as_const(mesh)).id();
  }
  // Nothing fails between noting the copies and making them: what is noted counts as copied.
  to.copies_.clear();
  to.copies_.reserve(mesh.plan().regions.size() + 2 * MeshAccess::weights(std::as_const(mesh)).parameters().size());
  to.weights_.take(MeshAccess::weights(std::as_const(mesh)), live, to.copies_);
  if (!live) {
    to.copies_.make(MeshAccess::executor(mesh));
    return {};
  }
  to.state_->copy_from(MeshAccess::state(std::as_const(mesh)), to.copies_);
  to.copies_.make(MeshAccess::executor(mesh));
  to.sessions_created_ = MeshAccess::sessions_created(mesh);
  if (!to.cells_ || to.plan_->has_observers || to.changes_ != mesh.registry().changes()) {
    if (!to.cells_ || to.cells_.use_count() > 1) to.cells_ = std::make_shared<std::vector<std::uint64_t>>();
    to.cells_->clear();
    add_cell_words(mesh, *to.cells_, to.record_);
    to.changes_ = mesh.registry().changes();
  }
  to.halt_.reset();
  if (const auto halt = MeshAccess::halt(mesh)) to.halt_ = *halt;
  return {};
}

Status take_checkpoint_snapshot(Mesh& mesh, bool live, CheckpointSnapshot& to) {
  WEFT_CHECK(take_without_cell_snapshots(mesh, live, to));
  // A restart returns to the last checkpoint, and this is one.
  if (live) MeshAccess::take_cell_snapshots(mesh);
  return {};
}

}  // namespace weft::mesh
