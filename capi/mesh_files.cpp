// SPDX-License-Identifier: Apache-2.0
// Meshes, learners and sessions in files, and snapshots in memory.

#include "capi/internal/arguments.hpp"
#include "capi/internal/objects.hpp"

#include "learning/learner_snapshot.hpp"

#include "mesh/persistence/entity_model.hpp"
#include "mesh/persistence/mesh_load.hpp"
#include "mesh/persistence/session_file.hpp"

#include "formats/entity/entity.hpp"
#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include "core/size_limit.hpp"

#include <cstring>
#include <utility>

namespace weft::capi {
namespace {

constexpr std::size_t kMaxFileBytes = size_limit(40);
constexpr const char* kCheckpoints = "the agent's checkpoint keeps it";

Outcome hand_out_mesh(mesh::Mesh loaded, weft_mesh** out_mesh) {
  return hand_out(std::make_unique<MeshObject>(std::make_shared<MeshState>(std::move(loaded))), out_mesh);
}

/// Sessions, the first ones, of which errors may be under way.
std::optional<std::size_t> under_way(MeshState& state) {
  const learning::Learner* const learner = state.learner();
  if (!learner) return std::nullopt;
  return learner->options().schedule == learning::Schedule::settle
             ? 0
             : learning::with_replayed_rows(learner->options()).learners;
}

/// Content of a mesh's file: live with the learner that drives it, if any.
Result<ByteSource> content_of(MeshState& state, bool live) {
  WEFT_TRY(mesh::Mesh* const own, state.own_mesh("saving", kCheckpoints));
  mesh::CheckpointExtras extras;
  if (live && state.attached) {
    extras.tensors = learning::learner_tensors(*state.attached);
    extras.kept_ticks = learning::kept_ticks(*state.attached);
    extras.learning = state.section;
  }
  return mesh::entity_of(*own, live, extras);
}

/// A mesh and its learner as a file has them. On failure nothing is handed out.
Outcome hand_out_learner(const formats::EntityFile& file, std::string_view name, const weft_mesh_options* options,
                         weft_mesh** out_mesh, weft_learner** out_learner) {
  WEFT_TRY(mesh::MeshOptions wanted, mesh_options_of(options));
  if (!file.contains("learning/in_flight") || !mesh::holds_live_state(file))
    return fail(Errc::not_found,
                std::string(name) + ": the file holds no learner; load the mesh " + "alone, and build a learner on it");
  WEFT_TRY(const mesh::NetworkSpec spec, mesh::network_of(file));
  WEFT_TRY(auto section, learning::read_learning(spec.learning));
  wanted.sessions = mesh::sessions_of(file);
  WEFT_TRY(mesh::Mesh built, mesh::Mesh::build(spec, std::move(wanted)));
  auto state = std::make_shared<MeshState>(std::move(built));
  WEFT_TRY(auto learner, learning::Learner::build(*state->own, std::move(section)));
  WEFT_CHECK(mesh::restore_weights(*state->own, file));
  WEFT_CHECK(mesh::restore_live(*state->own, file));
  WEFT_CHECK(learning::restore_learner(*learner, file));
  weft_learner* handle = nullptr;
  const Outcome made = hand_out(std::make_unique<LearnerObject>(state, std::move(learner), spec.learning), &handle);
  if (!made.is_good()) return made;
  const Outcome both = hand_out(std::make_unique<MeshObject>(std::move(state)), out_mesh);
  if (!both.is_good()) {
    (void)weft_learner_destroy(handle);
    return report(WEFT_FULL, "too many handles");
  }
  *out_learner = handle;
  return both;
}

/// A failure with the file's name in front, unless it has it.
Outcome load_learner(Result<formats::EntityFile> file, std::string_view name, const weft_mesh_options* options,
                     weft_mesh** out_mesh, weft_learner** out_learner) {
  if (!file)
    return fail(std::move(file).error().text().starts_with(name) ? std::move(file).error()
                                                                 : std::move(file).error().within(name));
  return hand_out_learner(*file, name, options, out_mesh, out_learner);
}

}  // namespace
}  // namespace weft::capi

using namespace weft;
using namespace weft::capi;

weft_status weft_mesh_load(const char* path, const weft_mesh_options* options, weft_mesh** out_mesh) {
  return guarded([&]() -> Outcome {
    WEFT_CHECK(check_out(out_mesh, "out_mesh"));
    WEFT_TRY(const std::string_view place, text_of(path, "path"));
    WEFT_TRY(mesh::MeshOptions wanted, mesh_options_of(options));
    WEFT_TRY(mesh::Mesh loaded, mesh::Mesh::load(std::string(place), std::move(wanted)));
    return hand_out_mesh(std::move(loaded), out_mesh);
  });
}

weft_status weft_mesh_load_bytes(const void* bytes, size_t count, const weft_mesh_options* options,
                                 weft_mesh** out_mesh) {
  return guarded([&]() -> Outcome {
    WEFT_CHECK(check_out(out_mesh, "out_mesh"));
    WEFT_TRY(const ByteSpan file, bytes_of(bytes, count, "bytes"));
    WEFT_TRY(mesh::MeshOptions wanted, mesh_options_of(options));
    WEFT_TRY(mesh::Mesh loaded, mesh::load_mesh(file, "bytes", std::move(wanted)));
    return hand_out_mesh(std::move(loaded), out_mesh);
  });
}

weft_status weft_mesh_save(weft_mesh* mesh, const char* path, int live) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    WEFT_TRY(const std::string_view place, text_of(path, "path"));
    WEFT_TRY(const ByteSource content, content_of(of.state, live != 0));
    return storage::write_file_durably(storage::real_file_system(), std::string(place), content);
  });
}

weft_status weft_mesh_save_bytes(weft_mesh* mesh, int live, void* buffer, size_t capacity, size_t* out_needed) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    WEFT_TRY(const ByteSource content, content_of(of.state, live != 0));
    Outcome outcome;
    if (is_size_only(content.size(), buffer, capacity, out_needed, outcome)) return outcome;
    auto* to = static_cast<std::byte*>(buffer);
    return content.produce([&](ByteSpan part) -> Status {
      std::memcpy(to, part.data(), part.size());
      to += part.size();
      return {};
    });
  });
}

weft_status weft_learner_load(const char* path, const weft_mesh_options* options, weft_mesh** out_mesh,
                              weft_learner** out_learner) {
  return guarded([&]() -> Outcome {
    WEFT_CHECK(check_out(out_mesh, "out_mesh"));
    WEFT_CHECK(check_out(out_learner, "out_learner"));
    WEFT_TRY(const std::string_view place, text_of(path, "path"));
    const std::string name(place);
    WEFT_TRY(storage::MappedFile bytes, storage::real_file_system().map(name, kMaxFileBytes));
    return load_learner(formats::decode_entity(std::move(bytes), name), name, options, out_mesh, out_learner);
  });
}

weft_status weft_learner_load_bytes(const void* bytes, size_t count, const weft_mesh_options* options,
                                    weft_mesh** out_mesh, weft_learner** out_learner) {
  return guarded([&]() -> Outcome {
    WEFT_CHECK(check_out(out_mesh, "out_mesh"));
    WEFT_CHECK(check_out(out_learner, "out_learner"));
    WEFT_TRY(const ByteSpan file, bytes_of(bytes, count, "bytes"));
    return load_learner(formats::decode_entity(file, "bytes"), "bytes", options, out_mesh, out_learner);
  });
}

weft_status weft_mesh_add_session(weft_mesh* mesh, size_t* out_session) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    WEFT_CHECK(check_out(out_session, "out_session"));
    WEFT_TRY(*out_session, of.state.change([](auto& to) { return to.add_session(); }));
    return {};
  });
}

weft_status weft_mesh_remove_session(weft_mesh* mesh, size_t session) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    return of.state.change([&](auto& to) { return to.remove_session(session); });
  });
}

weft_status weft_mesh_reset_session(weft_mesh* mesh, size_t session) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    return of.state.change([&](auto& to) { return to.reset_session(session); });
  });
}

weft_status weft_mesh_detach_session(weft_mesh* mesh, size_t session, void* buffer, size_t capacity,
                                     size_t* out_needed) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    WEFT_TRY(const ByteBuffer file, mesh::detach_session(of.state.mesh(), session, under_way(of.state)));
    return copy_out(file.data(), file.size(), 1, buffer, capacity, out_needed);
  });
}

weft_status weft_mesh_attach_session(weft_mesh* mesh, const void* bytes, size_t count, int other_weights,
                                     size_t* out_session) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    WEFT_CHECK(check_out(out_session, "out_session"));
    WEFT_TRY(const ByteSpan given, bytes_of(bytes, count, "bytes"));
    if (of.state.agent) {
      WEFT_TRY(*out_session, of.state.agent->attach_session(given, other_weights != 0));
      return {};
    }
    WEFT_TRY(const auto file, formats::decode_entity(given, "session"));
    WEFT_TRY(*out_session, mesh::attach_session(*of.state.own, file, other_weights != 0));
    return {};
  });
}

weft_status weft_snapshot_create(weft_snapshot** out_snapshot) {
  return guarded([&]() -> Outcome {
    WEFT_CHECK(check_out(out_snapshot, "out_snapshot"));
    return hand_out(std::make_unique<SnapshotObject>(), out_snapshot);
  });
}

weft_status weft_snapshot_destroy(weft_snapshot* snapshot) { return destroy<SnapshotObject>(snapshot); }

weft_status weft_mesh_take_snapshot(weft_mesh* mesh, weft_snapshot* to) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    return with<SnapshotObject>(to, [&](SnapshotObject& into) -> Outcome {
      WEFT_TRY(mesh::Mesh* const own, of.state.own_mesh("a snapshot", kCheckpoints));
      own->take_snapshot(into.snapshot);
      return {};
    });
  });
}

weft_status weft_mesh_restore_snapshot(weft_mesh* mesh, weft_snapshot* from) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    return with<SnapshotObject>(from, [&](SnapshotObject& kept) -> Outcome {
      WEFT_TRY(mesh::Mesh* const own, of.state.own_mesh("restoring a snapshot", kCheckpoints));
      return own->restore_snapshot(kept.snapshot);
    });
  });
}
