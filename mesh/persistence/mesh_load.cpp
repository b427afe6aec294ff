// SPDX-License-Identifier: Apache-2.0
// A mesh from a file.

#include "mesh/persistence/mesh_load.hpp"

#include "mesh/loom/loom_network.hpp"
#include "mesh/memory/memory_estimate.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/runtime/step_rule.hpp"

#include "formats/entity/entity.hpp"
#include "formats/loom/loom_entity.hpp"
#include "storage/file_system.hpp"

#include "core/size_limit.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace weft::mesh {
namespace {

constexpr std::size_t kMaxFileBytes = size_limit(40);

/// Stands for the rule that was attached when live state was saved: it makes place for the history in the file, and
/// learns nothing.
class Stand final : public StepRule {
 public:
  bool fires(std::uint64_t) const noexcept override { return true; }
  std::uint64_t fired_before(std::uint64_t step) const noexcept override { return step; }
  void learn(StepContext&, NodeId) noexcept override {}
};

struct Contents {
  NetworkSpec spec;
  std::optional<formats::EntityFile> entity;  // none: a network file
};

Result<Contents> read_contents(storage::MappedFile bytes, const std::string& path) {
  Contents contents;
  if (formats::is_loom_entity(bytes.bytes())) {
    WEFT_TRY(const formats::LoomEntityFile file, formats::decode_loom_entity(std::move(bytes), path));
    WEFT_TRY(ImportedEntity imported, import_loom_entity(file));
    return Contents{std::move(imported.spec), std::move(imported.file)};
  }
  if (!formats::is_entity(bytes.bytes())) {
    WEFT_TRY(contents.spec, read_network(as_text(bytes.bytes()), path));
    WEFT_CHECK(bytes.intact());
    return contents;
  }
  WEFT_TRY(contents.entity, formats::decode_entity(std::move(bytes), path));
  WEFT_TRY(contents.spec, network_of(*contents.entity));
  return contents;
}

Result<Contents> read_file(const std::string& path) {
  WEFT_TRY(storage::MappedFile bytes, storage::real_file_system().map(path, kMaxFileBytes));
  return read_contents(std::move(bytes), path);
}

/// A failure with the file's name in front, unless it has it.
template <class Loaded>
Result<Loaded> named(Result<Loaded> loaded, std::string_view name) {
  if (!loaded && !loaded.error().text().starts_with(name)) return fail(std::move(loaded).error().within(name));
  return loaded;
}

Result<Mesh> build(const Contents& contents, MeshOptions options) {
  if (contents.entity && holds_live_state(*contents.entity)) options.sessions = sessions_of(*contents.entity);
  WEFT_TRY(Mesh mesh, Mesh::build(contents.spec, std::move(options)));
  if (contents.entity) WEFT_CHECK(load_state(mesh, *contents.entity));
  return mesh;
}

}  // namespace

Status load_state(Mesh& mesh, const formats::EntityFile& file) {
  WEFT_CHECK(restore_weights(mesh, file));
  if (!holds_live_state(file)) return {};
  WEFT_TRY(const LiveHistory kept, history_of(file));
  if (!kept.keeps_history) return restore_live(mesh, file);
  if (!kept.node_depths.empty() && kept.node_depths.size() != mesh.graph().nodes().size())
    return fail(Errc::corrupt, "meta.live.node_depths: " + std::to_string(kept.node_depths.size()) + " where " +
                                   std::to_string(mesh.graph().nodes().size()) + " layers and inputs are");
  const std::size_t depth = kept.kept ? 2 : kept.depth;
  const std::vector<std::uint32_t> depths = kept.kept ? std::vector<std::uint32_t>() : kept.node_depths;
  MemoryEstimate history;
  history.add("history", State::bytes_for(mesh.graph(), {mesh.sessions(), depth, true, depths}));
  WEFT_CHECK(check_memory("live state", history, mesh.options().max_memory));
  Stand stand;
  WEFT_CHECK(MeshAccess::attach(mesh, &stand, depth, depths));
  const Status restored = restore_live(mesh, file);
  WEFT_CHECK(MeshAccess::attach(mesh, nullptr, 2));  // what was committed stays
  return restored;
}

Result<Mesh> Mesh::load(const std::string& path, MeshOptions options) {
  const auto load = [&]() -> Result<Mesh> {
    WEFT_TRY(const Contents contents, read_file(path));
    return mesh::build(contents, std::move(options));
  };
  return named(load(), path);
}

Result<Mesh> load_mesh(ByteSpan file, std::string_view name, MeshOptions options) {
  const auto load = [&]() -> Result<Mesh> {
    ByteBuffer bytes(file.size());
    std::copy(file.begin(), file.end(), bytes.begin());
    WEFT_TRY(const Contents contents, read_contents(storage::MappedFile(std::move(bytes)), std::string(name)));
    return build(contents, std::move(options));
  };
  return named(load(), name);
}

Result<NetworkSpec> load_network(const std::string& path) {
  const auto load = [&]() -> Result<NetworkSpec> {
    WEFT_TRY(Contents contents, read_file(path));
    return std::move(contents.spec);
  };
  return named(load(), path);
}

}  // namespace weft::mesh
