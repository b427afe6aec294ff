// SPDX-License-Identifier: Apache-2.0

#include "server/mesh_table.hpp"

#include "agent/journal_page.hpp"

#include "storage/file_system.hpp"

#include "core/log.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace weft::server {
namespace {

namespace fs = std::filesystem;

/// True of a folder that an agent keeps.
bool holds_agent(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().filename().string().starts_with("ckpt-")) return true;
  return false;
}

}  // namespace

MeshTable::MeshTable(Options options) : options_(std::move(options)) {}
MeshTable::~MeshTable() = default;

Result<std::shared_ptr<ServedMesh>> MeshTable::find(std::string_view name) const {
  const std::lock_guard hold(mutex_);
  const auto found = meshes_.find(name);
  if (found != meshes_.end()) return found->second;
  return fail(Errc::not_found, "mesh '" + std::string(name.substr(0, 128)) + "': none of this name is served");
}

std::vector<std::shared_ptr<ServedMesh>> MeshTable::all() const {
  std::vector<std::shared_ptr<ServedMesh>> found;
  const std::lock_guard hold(mutex_);
  for (const auto& [_, each] : meshes_) found.push_back(each);
  return found;
}

/// Reserves the name, makes the mesh without holding anything, and puts it in.
template <class Make>
Result<std::shared_ptr<ServedMesh>> MeshTable::add(const std::string& name, Make&& make) {
  if (!is_plain_name(name))
    return fail(Errc::invalid_argument, "mesh '" + name.substr(0, 128) +
                                            "': a name has 1 to 128 letters, digits, dots, dashes and underscores");
  std::optional<NumaNode> node;
  {
    const std::lock_guard hold(mutex_);
    if (meshes_.contains(name) || busy_.contains(name))
      return fail(Errc::duplicate_name, "mesh '" + name + "': one of this name is served already");
    if (meshes_.size() + busy_.size() >= options_.most)
      return fail(Errc::full, "mesh '" + name + "': " + std::to_string(options_.most) + " meshes are served already");
    busy_.insert(name);
    if (!options_.numa.nodes.empty()) node = options_.numa.nodes[next_node_++ % options_.numa.nodes.size()];
  }
  const auto made_of = [&]() -> Result<std::shared_ptr<ServedMesh>> {
    try {
      WEFT_TRY(auto live, make(node));
      if (live->has_directory()) {
        const agent::Recovery& found = live->recovery();
        log_info("mesh '" + name + "': " + (found.is_new ? "begun" : "found") + " at tick " +
                 std::to_string(live->mesh().ticks()));
      }
      ServedMesh::Options serving = options_.serving;
      serving.node = node;
      return std::make_shared<ServedMesh>(name, std::move(live), std::move(serving));
    } catch (const std::bad_alloc&) {
      return fail(Errc::too_large, "mesh '" + name + "': not enough memory");
    }
  };
  auto made = made_of();
  const std::lock_guard hold(mutex_);
  busy_.erase(name);
  if (made) meshes_[name] = *made;
  return made;
}

Result<LiveMesh::Options> MeshTable::options_of(const std::string& name, const Making& making) const {
  LiveMesh::Options options;
  options.mesh = options_.mesh;
  if (making.sessions) options.mesh.sessions = *making.sessions;
  if (making.threads) options.mesh.threads = *making.threads;
  if (making.executor) options.mesh.executor = *making.executor;
  options.durability = making.durability.value_or(options_.durability);
  options.checkpoint_every = making.checkpoint_every;
  options.learns = making.learns;
  if (!making.has_directory.value_or(!options_.state.empty())) return options;
  if (options_.state.empty())
    return fail(Errc::invalid_argument,
                "mesh '" + name + "': the server has no --state, so no mesh has a data directory");
  options.directory = options_.state + "/" + name;
  return options;
}

Result<std::shared_ptr<ServedMesh>> MeshTable::create(const std::string& name, const mesh::NetworkSpec& spec,
                                                      Making making) {
  return add(name, [&](const std::optional<NumaNode>& node) -> Result<std::unique_ptr<LiveMesh>> {
    WEFT_TRY(auto options, options_of(name, making));
    if (node) options.mesh.machine = node->machine;
    return LiveMesh::create(spec, std::move(options));
  });
}

Result<std::shared_ptr<ServedMesh>> MeshTable::create(const std::string& name, const formats::EntityFile& file,
                                                      Making making) {
  return add(name, [&](const std::optional<NumaNode>& node) -> Result<std::unique_ptr<LiveMesh>> {
    WEFT_TRY(auto options, options_of(name, making));
    if (node) options.mesh.machine = node->machine;
    return LiveMesh::create(file, std::move(options));
  });
}

Result<std::shared_ptr<ServedMesh>> MeshTable::restore(const std::string& name, const std::string& directory,
                                                       std::uint64_t tick) {
  return add(name, [&](const std::optional<NumaNode>& node) -> Result<std::unique_ptr<LiveMesh>> {
    Making making;
    making.has_directory = true;
    WEFT_TRY(auto options, options_of(name, making));
    if (node) options.mesh.machine = node->machine;
    std::error_code unknown;
    if (fs::exists(options.directory, unknown))
      return fail(Errc::duplicate_name, "mesh '" + name + "': its data directory is there already");
    WEFT_CHECK(agent::copy_checkpoint(storage::real_file_system(), directory, tick, options.directory));
    return LiveMesh::resume(std::move(options));
  });
}

Result<std::size_t> MeshTable::resume_all() {
  if (options_.state.empty()) return std::size_t{0};
  std::error_code failed;
  fs::create_directories(options_.state, failed);
  if (failed) return fail(Errc::storage, "state " + options_.state + ": " + failed.message());
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(options_.state, failed))
    if (entry.is_directory() && is_plain_name(entry.path().filename().string()) && holds_agent(entry.path()))
      names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const auto made = add(name, [&](const std::optional<NumaNode>& node) -> Result<std::unique_ptr<LiveMesh>> {
      WEFT_TRY(auto options, options_of(name, {}));
      if (node) options.mesh.machine = node->machine;
      return LiveMesh::resume(std::move(options));
    });
    if (!made) return fail(made.error());
  }
  return names.size();
}

Status MeshTable::erase(const std::string& name, bool discard) {
  std::shared_ptr<ServedMesh> mesh;
  {
    const std::lock_guard hold(mutex_);
    const auto found = meshes_.find(name);
    if (found == meshes_.end()) return fail(Errc::not_found, "mesh '" + name + "': none of this name is served");
    mesh = std::move(found->second);
    meshes_.erase(found);
    busy_.insert(name);
  }
  const std::string directory = mesh->description().directory;
  Status done = mesh->stop(!discard);
  // Requests that look at it still hold it; its data directory is let go with the last of them.
  while (mesh.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  mesh.reset();
  if (discard && !directory.empty()) {
    std::error_code failed;
    fs::remove_all(directory, failed);
    if (failed && done) done = fail(Errc::storage, "mesh '" + name + "': " + directory + ": " + failed.message());
  }
  const std::lock_guard hold(mutex_);
  busy_.erase(name);
  return done;
}

Status MeshTable::stop_all() {
  Status first;
  for (const auto& each : all())
    if (Status done = each->stop(true); !done && first) first = std::move(done);
  return first;
}

}  // namespace weft::server
