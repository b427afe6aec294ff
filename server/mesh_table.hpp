// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/served_mesh.hpp"

#include "mesh/network/network.hpp"

#include "formats/entity/entity.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace weft::server {

/// The meshes of a server by name, and where their data directories are.
/// @thread any
class MeshTable {
 public:
  struct Options {
    std::string state;  ///< each mesh with a data directory has one below it, by its name; empty: none may have one
    ServedMesh::Options serving;
    mesh::MeshOptions mesh;
    agent::Durability durability;
    std::size_t most = 256;  ///< meshes
    NumaPlacement numa{};    ///< a mesh learns, so there is one of it: on one node
  };
  /// Options of one mesh.
  struct Making {
    std::optional<std::size_t> sessions, threads;
    std::optional<bool> has_directory;  ///< none: where the table has a directory for them
    std::optional<agent::Durability> durability;
    std::optional<mesh::ExecutorKind> executor;
    std::uint64_t checkpoint_every = 0;
    bool learns = true;
  };

  explicit MeshTable(Options options);
  ~MeshTable();

  const Options& options() const noexcept { return options_; }
  /// @error not_found
  Result<std::shared_ptr<ServedMesh>> find(std::string_view name) const;
  /// By name.
  std::vector<std::shared_ptr<ServedMesh>> all() const;

  /// Makes a mesh, or goes on with the one in its data directory, and begins to serve it. Takes as long as that takes.
  /// @error duplicate_name: one of this name is served; invalid_argument: no plain name, or no directory; as
  /// LiveMesh::create
  Result<std::shared_ptr<ServedMesh>> create(const std::string& name, const mesh::NetworkSpec& spec, Making making);
  Result<std::shared_ptr<ServedMesh>> create(const std::string& name, const formats::EntityFile& file, Making making);
  /// Makes a data directory of the checkpoint of `tick` in another one, and serves the mesh that goes on from it.
  /// @error not_found: no such checkpoint; as create and agent::copy_checkpoint
  Result<std::shared_ptr<ServedMesh>> restore(const std::string& name, const std::string& directory,
                                              std::uint64_t tick);
  /// Goes on with all meshes whose data directories lie there; returns how many. @error of the first that fails
  Result<std::size_t> resume_all();
  /// Executes what waits, takes a checkpoint, and serves it no more. `discard`: its data directory goes too.
  /// @error not_found; storage: the checkpoint or the removal
  Status erase(const std::string& name, bool discard);
  /// The same with all. @error the first
  Status stop_all();

 private:
  template <class Make>
  Result<std::shared_ptr<ServedMesh>> add(const std::string& name, Make&& make);
  Result<LiveMesh::Options> options_of(const std::string& name, const Making& making) const;

  const Options options_;
  mutable std::mutex mutex_;  // of the three below
  std::map<std::string, std::shared_ptr<ServedMesh>, std::less<>> meshes_;
  std::size_t next_node_ = 0;
  std::set<std::string> busy_;  // names under construction, or on their way out
};

}  // namespace weft::server
