// SPDX-License-Identifier: Apache-2.0

#include "server/live_mesh.hpp"

#include "agent/agent_access.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/persistence/mesh_view.hpp"
#include "mesh/persistence/session_file.hpp"
#include "mesh/runtime/command.hpp"
#include "mesh/weights/weight_store.hpp"

#include "storage/file_system.hpp"

#include "core/json_reader.hpp"
#include "core/log.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace weft::server {
namespace {

// Topics of notes in the journal: the state as it is now, the name of the session that comes next, and the beginning of
// a swap of weights, which ends with a note of the state.
constexpr std::string_view kTopic = "weft.serve", kNextSession = "weft.serve.session", kSwap = "weft.serve.swap";

/// True where a rule is to be attached: without a section an agent would make one with the defaults.
bool learns(const LiveMesh::Options& options, const mesh::NetworkSpec& spec) {
  return options.learns && !spec.learning.empty();
}

std::vector<std::vector<float>> weights_of(const mesh::Mesh& mesh) {
  std::vector<std::vector<float>> values;
  const mesh::WeightStore& store = mesh::MeshAccess::weights(mesh);
  mesh::MeshAccess::sync(mesh, false);
  for (const auto& parameter : store.parameters()) values.push_back(store.read(parameter));
  return values;
}

/// Sets the weights that differ, a command for each parameter.
Status set_weights(LiveMesh& live, std::vector<std::vector<float>> values,
                   const std::vector<std::vector<float>>& before) {
  const auto parameters = mesh::MeshAccess::weights(live.mesh()).parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (values[i] == before[i]) continue;
    const Coord at = live.mesh().graph().nodes()[parameters[i].node].at;
    auto command = mesh::make_command(mesh::CommandKind::set_weights);
    command->level = at.l;
    command->parameter = parameters[i].index;
    command->values = std::move(values[i]);
    WEFT_TRY(const auto sent, live.post(at, command));
    if (sent->is_done() && !sent->status()) return fail(sent->status().error());
  }
  return {};
}

/// No checkpoint is taken by itself while it lasts.
class CheckpointsHeld {
 public:
  explicit CheckpointsHeld(agent::Agent* agent) : agent_(agent) {
    if (agent_) agent::AgentAccess::hold_checkpoints(*agent_, true);
  }
  ~CheckpointsHeld() {
    if (agent_) agent::AgentAccess::hold_checkpoints(*agent_, false);
  }
  CheckpointsHeld(const CheckpointsHeld&) = delete;
  CheckpointsHeld& operator=(const CheckpointsHeld&) = delete;

 private:
  agent::Agent* const agent_;
};

/// Adds a session: its name stands in the journal before it, and in a checkpoint that is taken while it comes.
template <class Add>
Result<std::size_t> with_name(std::vector<std::string>& names, const std::string& name, agent::Agent* agent,
                              Add&& add) {
  if (agent) WEFT_CHECK(agent->note(kNextSession, name));
  names.push_back(name);
  auto lane = add();
  if (!lane) names.pop_back();
  return lane;
}

}  // namespace

// --- what is kept beside the mesh

Json ServedState::json() const {
  return {{"sessions", sessions}, {"weight_version", weight_version}, {"weight_label", weight_label}};
}

Result<ServedState> ServedState::read(const Json& json) {
  ServedState state;
  WEFT_TRY(JsonReader reader, JsonReader::open(json, "served state"));
  WEFT_TRY(const auto sessions, reader.array("sessions"));
  for (const JsonValue& each : sessions) {
    WEFT_TRY(state.sessions.emplace_back(), each.string());
  }
  WEFT_TRY(state.weight_version, reader.u64("weight_version", 1));
  WEFT_TRY(state.weight_label, reader.string("weight_label"));
  return state;
}

/// The served state and the window of scores in an agent's checkpoints; its journal has the changes of the state, and
/// the samples.
class LiveMesh::Extension final : public agent::StateExtension {
 public:
  ServedState state;
  ScoreWindow scores;
  std::vector<std::vector<float>> before_swap;  // of weights that has begun and not ended

  Status begin(agent::ReplayableMesh& replayable) override {
    replayable_ = &replayable;
    return {};
  }
  std::string save() const override {
    Json json = state.json();
    ScoreWindow window = scores;
    if (const learning::Learner* const rule = replayable_->learner())
      for (const learning::Score& each : rule->scores()) window.add(each);  // those of the call that goes on
    json["scores"] = window.save();
    return json.dump();
  }
  Status load(std::string_view text) override {
    if (text == "{}") return {};  // another program's agent, such as one of the Python module
    WEFT_TRY(const Json json, parse_json(text, "served state"));
    WEFT_TRY(state, ServedState::read(json));
    if (const Json* const saved = json.find("scores")) {  // older ones have none
      WEFT_TRY(scores, ScoreWindow::read(*saved));
    }
    return {};
  }
  Status replayed(const agent::Record& record) override {
    if (learning::Learner* const rule = replayable_->learner()) {
      for (const learning::Score& each : rule->scores()) scores.add(each);
      rule->clear_scores();
    }
    // Names go with the records of sessions themselves: a kill may come between those and a note.
    const bool is_new = std::holds_alternative<agent::AddSessionRecord>(record) ||
                        std::holds_alternative<agent::AttachSessionRecord>(record);
    const auto* const removed = std::get_if<agent::RemoveSessionRecord>(&record);
    const std::size_t now = replayable_->mesh().sessions();
    // Those that a mesh begins with are in no checkpoint yet: `settle` names them as it did.
    if (is_new || removed) state.sessions.resize(is_new ? now - 1 : now + 1);
    if (is_new) state.sessions.push_back(std::exchange(next_session_, {}));
    if (removed) state.sessions.erase(state.sessions.begin() + static_cast<std::ptrdiff_t>(removed->session));
    const auto* const note = std::get_if<agent::AnnotationRecord>(&record);
    if (note && note->topic == kNextSession) next_session_ = note->text;
    if (note && note->topic == kSwap) before_swap = weights_of(replayable_->mesh());
    if (!note || note->topic != kTopic) return {};
    before_swap.clear();
    WEFT_TRY(const Json json, parse_json(note->text, "served state"));
    WEFT_TRY(state, ServedState::read(json));
    return {};
  }

 private:
  agent::ReplayableMesh* replayable_ = nullptr;
  std::string next_session_;
};

// --- making one

LiveMesh::LiveMesh(Options options) : options_(std::move(options)), extension_(std::make_unique<Extension>()) {}
LiveMesh::~LiveMesh() = default;

agent::Agent::Options LiveMesh::agent_options() {
  agent::Agent::Options options;
  options.durability = options_.durability;
  options.checkpoint_every = options_.checkpoint_every;
  options.mesh = options_.mesh;
  options.extension = extension_.get();
  return options;
}

Result<std::unique_ptr<LiveMesh>> LiveMesh::create(const mesh::NetworkSpec& spec, Options options) {
  std::unique_ptr<LiveMesh> made(new LiveMesh(std::move(options)));
  if (made->options_.directory.empty()) {
    WEFT_TRY(auto live, agent::ReplayableMesh::begin(spec, learns(made->options_, spec), made->options_.mesh));
    made->volatile_ = std::make_unique<agent::ReplayableMesh>(std::move(live));
  } else {
    auto settings = made->agent_options();
    settings.learns = learns(made->options_, spec);
    WEFT_TRY(made->agent_, agent::Agent::open(storage::real_file_system(), made->options_.directory, spec,
                                              std::move(settings), made->recovery_));
  }
  WEFT_CHECK(made->settle());
  return made;
}

Result<std::unique_ptr<LiveMesh>> LiveMesh::create(const formats::EntityFile& file, Options options) {
  if (mesh::holds_session(file))
    return fail(Errc::invalid_argument, "the file holds a session alone; attach it to a mesh of its network");
  WEFT_TRY(const mesh::NetworkSpec spec, mesh::network_of(file));
  std::unique_ptr<LiveMesh> made(new LiveMesh(std::move(options)));
  if (!made->options_.directory.empty()) {
    auto settings = made->agent_options();
    settings.learns = learns(made->options_, spec);
    settings.on_create = [&](mesh::Mesh& to) { return mesh::restore_weights(to, file); };
    WEFT_TRY(made->agent_, agent::Agent::open(storage::real_file_system(), made->options_.directory, spec,
                                              std::move(settings), made->recovery_));
  } else if (mesh::holds_live_state(file)) {
    WEFT_TRY(auto live, agent::ReplayableMesh::restore(file, spec, made->options_.mesh));
    made->volatile_ = std::make_unique<agent::ReplayableMesh>(std::move(live));
  } else {
    WEFT_TRY(auto live, agent::ReplayableMesh::begin(spec, learns(made->options_, spec), made->options_.mesh));
    WEFT_CHECK(mesh::restore_weights(live.mesh(), file));
    made->volatile_ = std::make_unique<agent::ReplayableMesh>(std::move(live));
  }
  WEFT_CHECK(made->settle());
  return made;
}

Result<std::unique_ptr<LiveMesh>> LiveMesh::resume(Options options) {
  std::unique_ptr<LiveMesh> made(new LiveMesh(std::move(options)));
  WEFT_TRY(made->agent_, agent::Agent::open(made->options_.directory, made->agent_options()));
  WEFT_CHECK(made->settle());
  return made;
}

Status LiveMesh::settle() {
  auto& names = extension_->state.sessions;
  names.resize(mesh().sessions());
  for (std::size_t lane = 0; lane < names.size(); ++lane) {
    if (!names[lane].empty()) continue;
    std::string name = std::to_string(lane);
    while (std::find(names.begin(), names.end(), name) != names.end()) name += "_";
    names[lane] = std::move(name);
  }
  // A kill came within a swap of weights: nobody was told that it was done.
  const auto before = std::exchange(extension_->before_swap, {});
  if (before.empty()) return {};
  log_warn("network '" + mesh().spec().name + "': a swap of weights was cut off; those of before are put back");
  const CheckpointsHeld held(agent_.get());
  WEFT_CHECK(set_weights(*this, before, weights_of(mesh())));
  return remember();
}

// --- calls

const mesh::Mesh& LiveMesh::mesh() const noexcept { return agent_ ? agent_->mesh() : volatile_->mesh(); }
learning::Learner* LiveMesh::learner_of() noexcept { return agent_ ? agent_->learner() : volatile_->learner(); }
const ServedState& LiveMesh::state() const noexcept { return extension_->state; }
const ScoreWindow& LiveMesh::scores() const noexcept { return extension_->scores; }

Status LiveMesh::with_learner() const {
  if (learner()) return {};
  return fail(Errc::unsupported, "network '" + mesh().spec().name + "': it has no section \"learning\"");
}

void LiveMesh::take_scores() {
  last_scores_.clear();
  learning::Learner* const from = learner_of();
  if (!from) return;
  last_scores_.assign(from->scores().begin(), from->scores().end());
  for (const learning::Score& each : last_scores_) extension_->scores.add(each);
  from->clear_scores();
}

Status LiveMesh::set_input(std::string_view port, std::span<const float> values, std::size_t session) {
  return agent_ ? agent_->set_input(port, values, session) : volatile_->mesh().set_input(port, values, session);
}

Status LiveMesh::tick(std::uint64_t n) { return agent_ ? agent_->tick(n) : volatile_->mesh().tick(n); }

Status LiveMesh::learn(std::span<const mesh::RunInput> inputs, std::span<const learning::Target> targets,
                       std::uint64_t samples) {
  WEFT_CHECK(with_learner());
  const Status done = agent_ ? agent_->learn(inputs, targets, samples) : learner_of()->learn(inputs, targets, samples);
  take_scores();
  return done;
}

Status LiveMesh::drain() {
  WEFT_CHECK(with_learner());
  const Status done = agent_ ? agent_->drain() : learner_of()->drain();
  take_scores();
  return done;
}

Result<learning::Ticket> LiveMesh::observe(std::span<const mesh::RunInput> inputs) {
  WEFT_CHECK(with_learner());
  auto ticket = agent_ ? agent_->observe(inputs) : learner_of()->observe(inputs);
  take_scores();
  return ticket;
}

Status LiveMesh::teach(learning::Ticket ticket, std::span<const learning::Target> targets) {
  WEFT_CHECK(with_learner());
  const Status done = agent_ ? agent_->teach(ticket, targets) : learner_of()->teach(ticket, targets);
  take_scores();
  return done;
}

Status LiveMesh::forgo(learning::Ticket ticket) {
  WEFT_CHECK(with_learner());
  return agent_ ? agent_->forgo(ticket) : learner_of()->forgo(ticket);
}

Result<mesh::CommandMessage> LiveMesh::post(Coord cell, std::shared_ptr<mesh::Command> command) {
  if (agent_) return agent_->post(cell, std::move(command), true);
  WEFT_TRY(auto sent, volatile_->mesh().post(cell, std::move(command)));
  mesh::MeshAccess::deliver_commands(volatile_->mesh());
  return sent;
}

void LiveMesh::resume_after_halt() {
  if (agent_)
    agent_->resume();
  else
    volatile_->mesh().resume();
}

Status LiveMesh::move_to(const topology::Machine& machine, std::shared_mutex* readers) {
  if (agent_) return agent::AgentAccess::move_to(*agent_, machine, readers);
  volatile_->quiesce();
  mesh::MeshOptions options = options_.mesh;
  options.machine = machine;
  WEFT_TRY(agent::ReplayableMesh moved, volatile_->copy(std::move(options)));
  const auto still = readers ? std::unique_lock(*readers) : std::unique_lock<std::shared_mutex>();
  volatile_->swap(moved);
  return {};
}

// --- sessions

Result<std::size_t> LiveMesh::lane_of(std::string_view session) const {
  const auto& names = state().sessions;
  const auto found = std::find(names.begin(), names.end(), session);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  return fail(Errc::not_found, "session '" + std::string(session) + "': there is none of this name");
}

Status LiveMesh::remember() { return agent_ ? agent_->note(kTopic, extension_->state.json().dump()) : Status(); }

Result<std::size_t> LiveMesh::add_session(const std::string& name) {
  if (lane_of(name)) return fail(Errc::duplicate_name, "session '" + name + "': there is one of this name");
  WEFT_TRY(const std::size_t lane, with_name(extension_->state.sessions, name, agent_.get(), [this] {
             return agent_ ? agent_->add_session() : volatile_->mesh().add_session();
           }));
  WEFT_CHECK(remember());
  return lane;
}

Status LiveMesh::remove_session(std::string_view name) {
  WEFT_TRY(const std::size_t lane, lane_of(name));
  auto& names = extension_->state.sessions;
  const std::string kept = names[lane];
  names.erase(names.begin() + static_cast<std::ptrdiff_t>(lane));
  const Status removed = agent_ ? agent_->remove_session(lane) : volatile_->mesh().remove_session(lane);
  if (!removed) {
    names.insert(names.begin() + static_cast<std::ptrdiff_t>(lane), kept);
    return removed;
  }
  return remember();
}

Status LiveMesh::reset_session(std::string_view name) {
  WEFT_TRY(const std::size_t lane, lane_of(name));
  return agent_ ? agent_->reset_session(lane) : volatile_->mesh().reset_session(lane);
}

Result<ByteBuffer> LiveMesh::save_session(std::string_view name) const {
  WEFT_TRY(const std::size_t lane, lane_of(name));
  const learning::Learner* const rule = learner();
  if (!rule) return mesh::detach_session(mesh(), lane);
  const bool is_under_way =
      rule->options().schedule == learning::Schedule::pipelined && rule->scored() != rule->samples();
  return mesh::detach_session(mesh(), lane, is_under_way ? learning::with_replayed_rows(rule->options()).learners : 0);
}

Result<std::size_t> LiveMesh::attach_session(const std::string& name, ByteSpan file) {
  if (lane_of(name)) return fail(Errc::duplicate_name, "session '" + name + "': there is one of this name");
  const auto attach = [&]() -> Result<std::size_t> {
    if (agent_) return agent_->attach_session(file);
    WEFT_TRY(const auto decoded, formats::decode_entity(file, "session"));
    return mesh::attach_session(volatile_->mesh(), decoded);
  };
  WEFT_TRY(const std::size_t lane, with_name(extension_->state.sessions, name, agent_.get(), attach));
  WEFT_CHECK(remember());
  return lane;
}

// --- weights

Status LiveMesh::replace_weights(const formats::EntityFile& file, const std::string& label) {
  // Another mesh of the same network takes the file first: whatever is wrong with it, nothing has changed here.
  mesh::MeshOptions beside;
  beside.threads = 1;
  WEFT_TRY(mesh::Mesh checked, mesh::Mesh::build(mesh().current_spec(), beside));
  WEFT_CHECK(mesh::restore_weights(checked, file));
  return put_weights(weights_of(checked), label);
}

Status LiveMesh::roll_back(std::optional<std::uint64_t> version) {
  const auto found = std::find_if(kept_.rbegin(), kept_.rend(),
                                  [&](const KeptVersion& each) { return !version || each.version == *version; });
  if (found == kept_.rend())
    return fail(Errc::not_found, version ? "weights: version " + std::to_string(*version) + " is not kept any more"
                                         : "weights: no earlier version is kept");
  const std::string label = "rolled back to " + std::to_string(found->version);
  return put_weights(found->values, label);
}

Status LiveMesh::put_weights(std::vector<std::vector<float>> values, const std::string& label) {
  KeptVersion before{state().weight_version, state().weight_label, weights_of(mesh())};
  // A checkpoint in the middle would be of weights that are partly new, and hide the note that says so.
  const CheckpointsHeld held(agent_.get());
  if (agent_) WEFT_CHECK(agent_->note(kSwap, {}));
  if (Status set = set_weights(*this, std::move(values), before.values); !set) {
    // Those that were set before the one that failed go back.
    WEFT_CHECK(set_weights(*this, before.values, weights_of(mesh())));
    WEFT_CHECK(remember());
    return set;
  }
  ServedState& now = extension_->state;
  ++now.weight_version;
  now.weight_label = label;
  kept_.push_back(std::move(before));
  if (kept_.size() > kKeptVersions) kept_.erase(kept_.begin());
  return remember();
}

// --- what lasts

Status LiveMesh::mark(std::string_view note) {
  if (!agent_)
    return fail(Errc::unsupported, "this mesh has no data directory, so no journal; create it with \"data_directory\"");
  if (!note.empty()) WEFT_CHECK(agent_->note("note", note));
  return agent_->mark();
}

Status LiveMesh::checkpoint() {
  if (!agent_) return fail(Errc::unsupported, "this mesh has no data directory; create it with \"data_directory\"");
  // At the tick of the last checkpoint there is none to take, and the journal holds what came since.
  const agent::CheckpointStatistics last = agent_->statistics().checkpoint;
  if (last.written > 0 && last.at.tick == mesh().ticks()) return agent_->acknowledge();
  Status done = agent_->checkpoint_and_wait();
  if (!done && done.error().code() == Errc::invalid_argument) return agent_->acknowledge();
  return done;
}

Status LiveMesh::acknowledge() { return agent_ ? agent_->acknowledge() : Status(); }

std::optional<agent::AgentStatistics> LiveMesh::statistics() const {
  return agent_ ? std::optional(agent_->statistics()) : std::nullopt;
}

Hash128 LiveMesh::hash() const {
  if (!agent_) return volatile_->hash();
  return agent::fold_sessions(mesh().sessions(), [this](std::size_t s) { return mesh().state_hash(s); });
}

Result<ByteBuffer> LiveMesh::entity(bool live) {
  if (live && agent_)
    return fail(Errc::unsupported, "the live state of a mesh with a data directory is in its checkpoints");
  // The learner's part of the state would be missing.
  if (live && learner())
    return fail(Errc::unsupported, "the live state of a mesh that learns is kept by a data directory alone");
  if (live) return mesh::encode_mesh(volatile_->mesh(), true);
  mesh::MeshAccess::sync(mesh(), false);
  WEFT_TRY(const auto source, mesh::entity_of(mesh::view_of(mesh(), false), {}));
  return collect(source);
}

}  // namespace weft::server
