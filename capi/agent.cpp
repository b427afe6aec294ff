// SPDX-License-Identifier: Apache-2.0

#include "agent/agent.hpp"

#include "capi/internal/arguments.hpp"
#include "capi/internal/objects.hpp"

#include "agent/durability.hpp"
#include "agent/environment_loop.hpp"

#include "core/json.hpp"

#include <utility>

namespace weft::capi {
namespace {

Result<agent::Agent::Options> agent_options_of(const weft_agent_options* options) {
  WEFT_TRY(const weft_agent_options given, struct_of(options, "agent options"));
  agent::Agent::Options made;
  WEFT_TRY(made.mesh, mesh_options_of(given.mesh));
  if (given.durability) {
    WEFT_TRY(made.durability, agent::parse_durability(given.durability));
  }
  made.identity = text_or_empty(given.identity);
  if (given.keep > 0) made.keep = given.keep;
  made.checkpoint_every = given.checkpoint_every;
  if (given.checkpoint_bytes > 0) made.checkpoint_bytes = given.checkpoint_bytes;
  made.learns = given.no_learning == 0;
  made.salvage = given.salvage != 0;
#if defined(__EMSCRIPTEN__)
  made.background = false;  // there are no threads
#endif
  return made;
}

Outcome open(const char* directory, const mesh::NetworkSpec* network, const weft_agent_options* options,
             weft_agent** out_agent) {
  WEFT_CHECK(check_out(out_agent, "out_agent"));
  WEFT_TRY(const std::string_view place, text_of(directory, "directory"));
  WEFT_TRY(agent::Agent::Options wanted, agent_options_of(options));
  const std::string path(place);
  WEFT_TRY(auto opened, network ? agent::Agent::open(path, *network, std::move(wanted))
                                : agent::Agent::open(path, std::move(wanted)));
  return hand_out(std::make_unique<AgentObject>(std::make_shared<MeshState>(std::move(opened))), out_agent);
}

Json reinforcement_of(const agent::EnvironmentLoop* loop) {
  if (!loop) return nullptr;
  return {{"steps", loop->steps()}, {"episodes", loop->episodes()}, {"mean_return", loop->mean_return()}};
}

Json statistics_of(agent::Agent& agent) {
  const agent::AgentStatistics statistics = agent.statistics();
  const auto position = [](const agent::LogPosition& at) { return Json{{"tick", at.tick}, {"record", at.record}}; };
  return {{"directory", agent.directory()},
          {"at", position(statistics.at)},
          {"acknowledged", position(statistics.acknowledged)},
          {"waiting_bytes", statistics.waiting_bytes},
          {"journal_bytes", statistics.journal_bytes},
          {"journal_failures", statistics.journal_failures},
          {"reinforcement", reinforcement_of(agent.loop())},
          {"last_error", statistics.last_error ? Json(*statistics.last_error) : Json(nullptr)}};
}

}  // namespace
}  // namespace weft::capi

using namespace weft;
using namespace weft::capi;

weft_status weft_agent_open(const char* directory, weft_network* network, const weft_agent_options* options,
                            weft_agent** out_agent) {
  if (!network) return guarded([&]() -> Outcome { return open(directory, nullptr, options, out_agent); });
  return with<NetworkObject>(
      network, [&](NetworkObject& of) -> Outcome { return open(directory, &of.spec, options, out_agent); });
}

weft_status weft_agent_mesh(weft_agent* agent, weft_mesh** out_mesh) {
  return with<AgentObject>(agent, [&](AgentObject& of) -> Outcome {
    WEFT_CHECK(check_out(out_mesh, "out_mesh"));
    return hand_out(std::make_unique<MeshObject>(of.shared_mesh), out_mesh);
  });
}

weft_status weft_agent_learner(weft_agent* agent, weft_learner** out_learner) {
  return with<AgentObject>(agent, [&](AgentObject& of) -> Outcome {
    WEFT_CHECK(check_out(out_learner, "out_learner"));
    if (!of.agent().learner()) return fail(Errc::not_found, of.agent().directory() + ": the agent does not learn");
    return hand_out(std::make_unique<LearnerObject>(of.shared_mesh), out_learner);
  });
}

weft_status weft_agent_acknowledge(weft_agent* agent) {
  return with<AgentObject>(agent, [&](AgentObject& of) -> Outcome { return of.agent().acknowledge(); });
}

weft_status weft_agent_checkpoint(weft_agent* agent) {
  return with<AgentObject>(agent, [&](AgentObject& of) -> Outcome { return of.agent().checkpoint_and_wait(); });
}

weft_status weft_agent_act(weft_agent* agent, uint64_t steps) {
  return with<AgentObject>(agent, [&](AgentObject& of) -> Outcome { return of.agent().act(steps); });
}

weft_status weft_agent_note(weft_agent* agent, const char* topic, const char* text) {
  return with<AgentObject>(agent, [&](AgentObject& of) -> Outcome {
    WEFT_TRY(const std::string_view about, text_of(topic, "topic"));
    WEFT_TRY(const std::string_view content, text_of(text, "text"));
    return of.agent().note(about, content);
  });
}

weft_status weft_agent_mark(weft_agent* agent) {
  return with<AgentObject>(agent, [&](AgentObject& of) -> Outcome { return of.agent().mark(); });
}

weft_status weft_agent_statistics(weft_agent* agent, char* buffer, size_t capacity, size_t* out_needed) {
  return with<AgentObject>(agent, [&](AgentObject& of) -> Outcome {
    return copy_text(statistics_of(of.agent()).dump(), buffer, capacity, out_needed);
  });
}

weft_status weft_agent_close(weft_agent* agent) {
  Claim claim(agent, AgentObject::kKind);
  if (claim.status() != WEFT_OK) return claim.status();
  return guarded([&]() -> Outcome {
    // An agent that ends drops what it has not written, as one that is killed does.
    const Status written = static_cast<AgentObject&>(claim.object()).agent().acknowledge();
    claim.remove();
    return written;
  });
}
