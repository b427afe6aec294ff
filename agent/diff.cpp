// SPDX-License-Identifier: Apache-2.0

#include "agent/diff.hpp"

#include "agent/replay.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/runtime/cell.hpp"

#include "formats/entity/entity.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace weft::agent {
namespace {

/// One of the two sides: a replay, or a single state.
class Side {
 public:
  static Result<Side> open_directory(storage::FileSystem& files, const std::string& directory,
                                     std::optional<std::uint64_t> from, const mesh::MeshOptions& options) {
    Side side;
    WEFT_TRY(auto replay, Replay::open(files, directory, {from, {}, false, options}));
    side.replay_ = std::make_unique<Replay>(std::move(replay));
    return side;
  }
  static Result<Side> open_file(storage::FileSystem& files, const std::string& path, const mesh::MeshOptions& options) {
    Side side;
    WEFT_TRY(const auto file, formats::load_entity(files, path));
    WEFT_TRY(const auto spec, mesh::network_of(file));
    auto replayable = ReplayableMesh::restore(file, spec, options);
    if (!replayable) return fail(std::move(replayable).error().within(path));
    side.replayable_ = std::make_unique<ReplayableMesh>(*std::move(replayable));
    return side;
  }

  ReplayableMesh& replayable() noexcept { return replay_ ? replay_->replayable() : *replayable_; }
  std::uint64_t tick() noexcept { return replayable().mesh().ticks(); }
  Hash128 outside() const noexcept { return replay_ ? replay_->outside() : Hash128{}; }
  bool has_outside() const noexcept { return replay_ != nullptr; }
  /// To the next tick. False: there is none.
  Result<bool> advance() {
    const std::uint64_t now = tick();
    while (tick() == now) {
      if (!replay_) return false;
      WEFT_TRY(const bool more, replay_->step());
      if (!more) return tick() != now;
    }
    return true;
  }

 private:
  std::unique_ptr<Replay> replay_;
  std::unique_ptr<ReplayableMesh> replayable_;
};

/// The last checkpoints of both runs before they differ: equal in tick and hash.
std::optional<std::uint64_t> last_common(const std::vector<CheckpointInfo>& a, const std::vector<CheckpointInfo>& b) {
  std::optional<std::uint64_t> found;
  for (const CheckpointInfo& one : a)
    for (const CheckpointInfo& other : b) {
      if (one.tick != other.tick) continue;
      if (one.hash != other.hash) return found;
      found = one.tick;
    }
  return found;
}

Result<Side> open_side(storage::FileSystem& files, const std::string& path, std::optional<std::uint64_t> from,
                       const mesh::MeshOptions& options) {
  if (files.list(path)) return Side::open_directory(files, path, from, options);
  return Side::open_file(files, path, options);
}

Status check_alike(Side& a, Side& b, const std::string& a_path, const std::string& b_path) {
  const auto& one = a.replayable().mesh();
  const auto& other = b.replayable().mesh();
  if (mesh::MeshAccess::cells(one).size() != mesh::MeshAccess::cells(other).size() ||
      one.sessions() != other.sessions())
    return fail(Errc::invalid_argument, a_path + " has " + std::to_string(mesh::MeshAccess::cells(one).size()) +
                                            " cells and " + std::to_string(one.sessions()) + " sessions, " + b_path +
                                            " " + std::to_string(mesh::MeshAccess::cells(other).size()) + " and " +
                                            std::to_string(other.sessions()) + ": no two runs of one mesh");
  for (std::size_t i = 0; i < mesh::MeshAccess::cells(one).size(); ++i)
    if (mesh::MeshAccess::cells(one)[i]->at() != mesh::MeshAccess::cells(other)[i]->at())
      return fail(Errc::invalid_argument, a_path + " has a cell at " +
                                              to_string(mesh::MeshAccess::cells(one)[i]->at()) + " where " + b_path +
                                              " has " + to_string(mesh::MeshAccess::cells(other)[i]->at()));
  return {};
}

std::vector<Coord> unequal_cells(Side& a, Side& b) {
  std::vector<Coord> cells;
  const auto& one = a.replayable().mesh();
  const auto& other = b.replayable().mesh();
  for (std::size_t i = 0; i < mesh::MeshAccess::cells(one).size(); ++i)
    for (std::size_t session = 0; session < std::min(one.sessions(), other.sessions()); ++session)
      if (one.cell_hash(i, session) != other.cell_hash(i, session)) {
        cells.push_back(mesh::MeshAccess::cells(one)[i]->at());
        break;
      }
  return cells;
}

}  // namespace

Result<Comparison> diff(storage::FileSystem& files, const std::string& a_path, const std::string& b_path,
                        const mesh::MeshOptions& options) {
  std::optional<std::uint64_t> from;
  const auto a_checkpoints = Replay::checkpoint_infos(files, a_path),
             b_checkpoints = Replay::checkpoint_infos(files, b_path);
  if (a_checkpoints && b_checkpoints) from = last_common(*a_checkpoints, *b_checkpoints);
  WEFT_TRY(Side a, open_side(files, a_path, from, options));
  WEFT_TRY(Side b, open_side(files, b_path, from, options));
  WEFT_CHECK(check_alike(a, b, a_path, b_path));
  // The side that is behind catches up first.
  while (a.tick() != b.tick()) {
    Side& behind = a.tick() < b.tick() ? a : b;
    WEFT_TRY(const bool more, behind.advance());
    if (!more)
      return fail(Errc::invalid_argument, a_path + " and " + b_path + " have no tick in common: one ends at tick " +
                                              std::to_string(behind.tick()) + ", the other begins at tick " +
                                              std::to_string(std::max(a.tick(), b.tick())));
  }
  const bool compares_outside = from && a.has_outside() && b.has_outside();
  Comparison comparison;
  comparison.from = a.tick();
  std::optional<std::uint64_t> external_since;
  for (;;) {
    ++comparison.compared;
    if (compares_outside && !external_since && a.outside() != b.outside()) external_since = a.tick();
    if (auto cells = unequal_cells(a, b); !cells.empty()) {
      comparison.divergence = Divergence{a.tick(), std::move(cells), external_since.has_value(), external_since};
      return comparison;
    }
    comparison.until = a.tick();
    // Their calls may be cut differently, so one may have come further in a step than the other.
    WEFT_TRY(const bool a_more, a.advance());
    WEFT_TRY(const bool b_more, b.advance());
    bool ends = !a_more || !b_more;
    while (!ends && a.tick() != b.tick()) {
      WEFT_TRY(const bool more, (a.tick() < b.tick() ? a : b).advance());
      ends = !more;
    }
    if (!ends) continue;
    comparison.longer = a_more == b_more ? "" : a_more ? a_path : b_path;
    return comparison;
  }
}

}  // namespace weft::agent
