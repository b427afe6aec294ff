// SPDX-License-Identifier: Apache-2.0
// Meshes: built, fed, ticked, looked at.

#include "mesh/mesh.hpp"

#include "capi/internal/arguments.hpp"
#include "capi/internal/objects.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace weft::capi {

Result<mesh::Mesh*> MeshState::own_mesh(std::string_view call, std::string_view instead) {
  if (!agent) return &*own;
  return fail(
      Errc::unsupported,
      std::string(call) + ": the mesh is an agent's, whose journal must have every change; " + std::string(instead));
}

namespace {

using Clock = std::chrono::steady_clock;

/// As Mesh::tick_for, through the journal.
Result<std::uint64_t> tick_agent_for(agent::Agent& agent, std::chrono::nanoseconds budget) {
  const Clock::time_point end = Clock::now() + budget;
  std::uint64_t ticks = 0;
  for (Clock::time_point now = Clock::now(); now < end;) {
    const Clock::time_point before = now;
    WEFT_CHECK(agent.tick());
    ++ticks;
    now = Clock::now();
    if (now + (now - before) > end) break;
  }
  return ticks;
}

constexpr std::uint64_t kMostNanoseconds = std::uint64_t{1} << 60;  // 36 years: sums with a clock's time stay exact

}  // namespace
}  // namespace weft::capi

using namespace weft;
using namespace weft::capi;

weft_status weft_mesh_build(weft_network* network, const weft_mesh_options* options, weft_mesh** out_mesh) {
  return with<NetworkObject>(network, [&](NetworkObject& from) -> Outcome {
    WEFT_CHECK(check_out(out_mesh, "out_mesh"));
    WEFT_TRY(mesh::MeshOptions wanted, mesh_options_of(options));
    WEFT_TRY(mesh::Mesh built, mesh::Mesh::build(from.spec, std::move(wanted)));
    return hand_out(std::make_unique<MeshObject>(std::make_shared<MeshState>(std::move(built))), out_mesh);
  });
}

weft_status weft_mesh_destroy(weft_mesh* mesh) { return destroy<MeshObject>(mesh); }

weft_status weft_mesh_set_input(weft_mesh* mesh, const char* port, size_t session, const float* values, size_t count) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    WEFT_TRY(const std::string_view name, text_of(port, "port"));
    WEFT_TRY(const auto given, array_of(values, count, "values"));
    return of.state.change([&](auto& to) { return to.set_input(name, given, session); });
  });
}

weft_status weft_mesh_output(weft_mesh* mesh, const char* name, size_t session, float* values, size_t capacity,
                             size_t* out_needed) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    WEFT_TRY(const std::string_view output, text_of(name, "name"));
    WEFT_TRY([[maybe_unused]] const auto buffer, array_of(values, capacity, "values"));
    WEFT_TRY(const auto found, of.state.mesh().output(output, session));
    return copy_out(found, values, capacity, out_needed);
  });
}

weft_status weft_mesh_output_at(weft_mesh* mesh, weft_coord at, size_t session, float* values, size_t capacity,
                                size_t* out_needed) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    WEFT_TRY([[maybe_unused]] const auto buffer, array_of(values, capacity, "values"));
    WEFT_TRY(const auto found, of.state.mesh().output(coord_of(at), session));
    return copy_out(found, values, capacity, out_needed);
  });
}

weft_status weft_mesh_tick(weft_mesh* mesh, uint64_t ticks) {
  return with<MeshObject>(
      mesh, [&](MeshObject& of) -> Outcome { return of.state.change([&](auto& to) { return to.tick(ticks); }); });
}

weft_status weft_mesh_tick_for(weft_mesh* mesh, uint64_t nanoseconds, uint64_t* out_ticks) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    WEFT_CHECK(check_out(out_ticks, "out_ticks"));
    const std::chrono::nanoseconds budget(std::min(nanoseconds, kMostNanoseconds));
    WEFT_TRY(*out_ticks, of.state.agent ? tick_agent_for(*of.state.agent, budget) : of.state.own->tick_for(budget));
    return {};
  });
}

weft_status weft_mesh_run(weft_mesh* mesh, const weft_input* inputs, size_t input_count, uint64_t ticks,
                          const weft_output* outputs, size_t output_count) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    WEFT_TRY(mesh::Mesh* const own, of.state.own_mesh("a run", "set inputs and tick"));
    WEFT_TRY(const auto from, inputs_of(inputs, input_count));
    WEFT_TRY(const auto to, outputs_of(outputs, output_count));
    if (ticks > PTRDIFF_MAX / own->sessions())
      return fail(Errc::out_of_range, "ticks: " + std::to_string(ticks) + " of a run");
    return own->run(from.span(), ticks, to.span());
  });
}

weft_status weft_mesh_forward(weft_mesh* mesh, const weft_input* inputs, size_t input_count, size_t rows,
                              const weft_output* outputs, size_t output_count) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    WEFT_TRY(const auto from, inputs_of(inputs, input_count));
    WEFT_TRY(const auto to, outputs_of(outputs, output_count));
    return of.state.mesh().forward(from.span(), rows, to.span());
  });
}

weft_status weft_mesh_resume(weft_mesh* mesh) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    of.state.change([](auto& to) { to.resume(); });
    return {};
  });
}

weft_status weft_mesh_ticks(weft_mesh* mesh, uint64_t* out_ticks) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    WEFT_CHECK(check_out(out_ticks, "out_ticks"));
    *out_ticks = of.state.mesh().ticks();
    return {};
  });
}

weft_status weft_mesh_sessions(weft_mesh* mesh, size_t* out_sessions) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    WEFT_CHECK(check_out(out_sessions, "out_sessions"));
    *out_sessions = of.state.mesh().sessions();
    return {};
  });
}

weft_status weft_mesh_state_hash(weft_mesh* mesh, size_t session, char* buffer, size_t capacity, size_t* out_needed) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    const mesh::Mesh& here = of.state.mesh();
    if (session >= here.sessions())
      return fail(Errc::out_of_range, "session " + std::to_string(session) + " of " + std::to_string(here.sessions()));
    return copy_text(to_string(here.state_hash(session)), buffer, capacity, out_needed);
  });
}
