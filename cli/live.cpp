// SPDX-License-Identifier: Apache-2.0
// weft live: an agent that acts in an environment and learns from what comes of it.

#include "cli/data_directory.hpp"
#include "cli/device_report.hpp"
#include "cli/drift_json.hpp"
#include "cli/episode_log.hpp"
#include "cli/external_world.hpp"
#include "cli/json_line.hpp"
#include "cli/live_monitor.hpp"
#include "cli/model.hpp"
#include "cli/plasticity_probe.hpp"
#include "cli/progress.hpp"
#include "cli/report.hpp"
#include "cli/return_curve.hpp"
#include "cli/setup.hpp"
#include "cli/signals.hpp"
#include "cli/terminal.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"

#include "agent/agent.hpp"
#include "agent/network_difference.hpp"
#include "learning/drift/drift_watch.hpp"

#include "storage/file_system.hpp"

#include "kernels/isa.hpp"

#include "core/json.hpp"
#include "core/log.hpp"
#include "core/printable.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Steps of a call, which are kept together; a resumed run has the same calls.
constexpr std::uint64_t kBlock = 256, kMark = 16 * kBlock;
// Of an environment that may be slow, and whose answers are lost with them.
constexpr std::uint64_t kExternalBlock = 16;

struct LiveRequest {
  std::string file, state, logdir, socket, executor = "auto";
  std::string device;  // empty: the network's
  ExternalWorld::Place world;
  std::optional<std::string> durability;
  std::optional<std::uint64_t> steps, seed, checkpoint_every;
  std::size_t keep = 3, threads = 0;
  std::uint64_t max_memory = 0, probe = 0;
  bool salvage = false, json = false, quiet = false;
};

/// The number of steps is no part of an agent's identity, nor is the time that an environment has.
Result<std::optional<std::string>> difference(std::string_view stored, std::string_view given) {
  std::string texts[2];
  for (std::size_t i = 0; i < 2; ++i) {
    WEFT_TRY(Json network, parse_json(i == 0 ? stored : given, "network"));
    if (Json* const section = network.is_object() ? network.find("reinforcement") : nullptr)
      if (section->is_object()) {
        section->erase("steps");
        Json* const world = section->find("environment");
        if (world && world->is_object()) world->erase("timeout");
      }
    WEFT_TRY(texts[i], write_json(network));
  }
  return agent::network_difference(texts[0], texts[1]);
}

Result<mesh::NetworkSpec> spec_of(const Model& model, const LiveRequest& request) {
  mesh::NetworkSpec spec = model.spec;
  if (spec.reinforcement.empty())
    return fail(Errc::not_found, model.path +
                                     ": reinforcement: the network has no such section, so there is nothing to act "
                                     "in; weft options reinforcement lists what it may hold");
  if (!request.seed) return spec;
  WEFT_TRY(auto options, agent::read_reinforcement(spec.reinforcement));
  spec.seed = options.seed = *request.seed;
  spec.reinforcement = agent::write_reinforcement(options);
  return spec;
}

/// Mesh and environment of one run, with a data directory or in memory.
class Live {
 public:
  Live(const LiveRequest& request, std::string name) : request_(request), name_(std::move(name)) {}

  Status open(const Model& model, const mesh::NetworkSpec& spec) {
    if (!request_.logdir.empty() && !has_journal(request_.state))
      WEFT_CHECK(ScalarLog::check_unused(storage::real_file_system(), request_.logdir, "step"));
    mesh::MeshOptions options;
    options.threads = request_.threads;
    options.max_memory = request_.max_memory;
    options.executor = *scheduler::parse_executor(request_.executor);
    options.device = request_.device;
    WEFT_TRY(const auto reinforcement, agent::read_reinforcement(spec.reinforcement));
    WEFT_CHECK(make_world(reinforcement.environment));
    WEFT_CHECK(open_agent(model, spec, options));
    loop().connect(world_);
    WEFT_CHECK(open_logs());
    spec_ = spec;
    if (request_.probe) seen_.emplace(loop().options().input, request_.probe);
    WEFT_TRY(monitor_, LiveMonitor::open({request_.socket, request_.state}, learner().mesh(),
                                         {agent_.get(), &learner(), &spec_, durability_}));
    return {};
  }
  Status run() {
    const std::uint64_t wanted = request_.steps.value_or(loop().options().steps);
    const std::uint64_t begin = loop().steps();
    checkpointed_ = begin;
    began_ = begin;
    tell_start();
    tell_episodes();  // those since the checkpoint that was found: a kill may have come before they were told
    const auto started = Clock::now();
    Status ran;
    while (ran && !noted_signal() && !stdout_is_broken() && (wanted == 0 || loop().steps() < wanted)) {
      const std::uint64_t block = world_ ? kExternalBlock : kBlock;
      const std::uint64_t left = wanted == 0 ? block : wanted - loop().steps();
      ran = act(std::min(left, block - loop().steps() % block));
      // Before a checkpoint, behind which no kill makes them known again.
      tell_episodes();
      if (ran && seen_) probe(false);
      monitor_->progressed({loop().steps(), loop().episodes(), loop().mean_return()});
      if (ran && agent_) ran = keep();
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
    monitor_->enters("stopping");
    if (ran && seen_) probe(true);
    if (ran && agent_) ran = agent_->checkpoint_and_wait();
    // Keeps what was learned until then, whatever ended it.
    if (!ran && agent_)
      if (const Status kept = agent_->acknowledge(); !kept) log_warn(kept.error().text());
    progress_.clear();
    if (world_) tell_fault();
    if (world_) world_->close();
    tell_end(loop().steps() - begin, seconds);
    if (!ran || (!noted_signal() && !stdout_is_broken())) return explained(std::move(ran));
    const std::string text = noted_signal() ? "stopped by a signal" : "stopped, as nobody reads stdout any more,";
    return fail(noted_signal() ? Errc::interrupted : Errc::storage,
                text + " at step " + grouped(loop().steps()) + (agent_ ? "; the same command goes on" : ""));
  }

 private:
  Status make_world(const agent::EnvironmentOptions& options) {
    const int given = !request_.world.command.empty() + !request_.world.socket.empty();
    const bool is_external = options.kind == agent::EnvironmentKind::external;
    if (given != is_external)
      return fail(Errc::invalid_argument,
                  is_external ? "reinforcement.environment: it is external; give one of --environment COMMAND and "
                                "--environment-socket PATH"
                              : "--environment, --environment-socket: they are of an environment of the type "
                                "'external', and this one is '" +
                                    std::string(name(options.kind)) + "'");
    if (is_external)
      world_ = std::make_shared<ExternalWorld>(request_.world, options,
                                               [this](const ExternalWorld::Return& back) { tell_return(back); });
    return {};
  }

  Status open_agent(const Model& model, const mesh::NetworkSpec& spec, const mesh::MeshOptions& options) {
    const auto on_create = [&](mesh::Mesh& mesh) -> Status {
      return model.entity ? mesh::restore_weights(mesh, *model.entity) : Status();
    };
    if (request_.state.empty()) {
      WEFT_TRY(replayable_, agent::ReplayableMesh::begin(spec, true, options));
      return on_create(replayable_->mesh());
    }
    agent::Agent::Options kept;
    if (request_.durability) {
      WEFT_TRY(kept.durability, agent::parse_durability(*request_.durability));
    }
    kept.keep = request_.keep;
    kept.salvage = request_.salvage;
    kept.mesh = options;
    kept.on_create = on_create;
    kept.differ = difference;
    kept.identity = "live";
    durability_ = kept.durability;
    WEFT_TRY(agent_, agent::Agent::open(storage::real_file_system(), request_.state, spec, std::move(kept), found_));
    return {};
  }

  /// That of the data directory is drawn by weft plot DIR.
  Status open_logs() {
    turn_ = steps_of_a_turn(loop().options().environment);
    const bool resumes = agent_ && !found_.is_new;
    log_.emplace(EpisodeLog::Columns{turn_ != 0 || learning::drift_of(learner()).is_on(), request_.probe != 0});
    if (!request_.logdir.empty()) WEFT_CHECK(log_->open_log(request_.logdir, resumes));
    std::error_code none;
    if (agent_ && !std::filesystem::equivalent(request_.logdir, request_.state, none))
      log_->open_kept(request_.state, resumes, loop().steps());
    return {};
  }

  learning::Learner& learner() { return agent_ ? *agent_->learner() : *replayable_->learner(); }
  agent::EnvironmentLoop& loop() { return agent_ ? *agent_->loop() : *replayable_->loop(); }
  const mesh::Mesh& mesh() { return agent_ ? agent_->mesh() : replayable_->mesh(); }
  std::string hash() {
    const Hash128 one = agent_ ? agent_->hash() : replayable_->hash();
    return to_string(one);
  }

  Status act(std::uint64_t steps) { return agent_ ? agent_->act(steps) : replayable_->act(steps); }

  Status keep() {
    if (loop().steps() % kMark == 0) WEFT_CHECK(agent_->mark());
    if (request_.checkpoint_every && loop().steps() - checkpointed_ >= *request_.checkpoint_every &&
        agent_->checkpoint())
      checkpointed_ = loop().steps();
    return {};
  }

  void tell_start() {
    const agent::ReinforcementOptions& o = loop().options();
    if (request_.json) {
      print_json({{"event", "start"},
                  {"network", name_},
                  {"environment", name(o.environment.kind)},
                  {"environments", o.environments},
                  {"algorithm", name(o.algorithm)},
                  {"seed", o.seed},
                  {"steps", loop().steps()},
                  {"episodes", loop().episodes()},
                  {"isa", name(kernels::active_isa())},
                  {"resumed", agent_ && !found_.is_new},
                  {"replayed_records", found_.records},
                  {"state_hash", hash()}});
    } else if (agent_ && !found_.is_new) {
      std::printf("found       step %s, episode %s; %s records replayed\n", grouped(loop().steps()).c_str(),
                  grouped(loop().episodes()).c_str(), grouped(found_.records).c_str());
    }
    for (const auto* const all : {&found_.passed_over, &found_.damages})
      for (const std::string& one : *all) std::fprintf(stderr, "weft: %s\n", escaped(one).c_str());
  }

  void tell_episodes() {
    const std::vector<std::uint64_t> changes = changes_of_turns();
    log_->add(loop().ended(), loop().drift_events(), changes);
    for (const std::uint64_t step : changes)
      if (request_.json && step > began_) print_json({{"event", "change"}, {"step", step}});
    for (const agent::Episode& episode : loop().ended()) {
      curve_.add(episode.sum);
      if (request_.json)
        print_json({{"event", "episode"},
                    {"episode", episode.number},
                    {"session", episode.session},
                    {"step", episode.last_step},
                    {"length", episode.steps},
                    {"return", episode.sum},
                    {"truncated", episode.truncated}});
    }
    for (const learning::DriftEvent& event : loop().drift_events()) tell_drift(event);
    loop().clear_ended();
    if (request_.json || request_.quiet || !progress_.is_due()) return;
    const std::string text = "step " + grouped(loop().steps()) + ", episode " + grouped(loop().episodes()) +
                             ", return " + two_digits(loop().mean_return());
    const Terminal terminal = Terminal::of(STDERR_FILENO);
    const std::size_t used = text.size() + 3;  // the last column stays free
    const std::size_t width = terminal.redraws && terminal.columns() > used ? terminal.columns() - used : 0;
    progress_.show(text + (width >= 4 ? "  " + curve_.drawn(std::min<std::size_t>(width, 40), terminal.unicode) : ""));
  }

  /// Steps since the last call after which the environment changed; at the first call since its beginning.
  std::vector<std::uint64_t> changes_of_turns() {
    std::vector<std::uint64_t> steps;
    if (turn_ == 0) return steps;
    for (; turns_ < loop().steps() / turn_; ++turns_) steps.push_back((turns_ + 1) * turn_);
    return steps;
  }

  void tell_drift(const learning::DriftEvent& event) {
    const std::string_view level = name(static_cast<learning::DriftLevel>(event.level));
    const learning::DriftOptions& drift = learner().options().drift;
    if (request_.json)
      print_json({{"event", "drift_seen"},
                  {"level", level},
                  {"detector", name(drift.detector.kind)},
                  {"input", name(drift.input)},
                  {"step", event.sample},
                  {"score", event.score}});
    else if (!request_.quiet)
      std::fprintf(stderr, "weft: %s\n",
                   (std::string(name(drift.detector.kind)) + ": " + std::string(level) + " at step " +
                    grouped(event.sample) + ", by " + std::string(name(drift.input)))
                       .c_str());
  }

  /// Measures the layers for the last observations. `is_end`: whenever that was done before.
  void probe(bool is_end) {
    seen_->take(learner().mesh());
    if (!is_end && Clock::now() - probed_ < std::chrono::seconds(1)) return;
    probed_ = Clock::now();
    if (is_end) probe_ = {};
    const std::vector<learning::LayerPlasticity>& layers = probe_.look([&] { return seen_->measure(learner()); });
    if (layers.empty()) return;
    const NetworkPlasticity all = network_plasticity(layers);
    log_->add_plasticity(loop().steps(), {all.dormant, all.effective_rank, all.weight_norm});
    if (is_end) last_layers_ = layers;
    if (request_.json && !is_end)
      print_json({{"event", "progress"},
                  {"steps", loop().steps()},
                  {"episodes", loop().episodes()},
                  {"mean_return", loop().mean_return()},
                  {"plasticity", plasticity_json(layers)}});
  }

  /// An external environment came back to where it was, or an episode is left.
  void tell_return(const ExternalWorld::Return& back) {
    const bool is_left = !back.why.empty();
    if (request_.json) {
      Json event{{"event", is_left ? "episode_left" : "environment_back"},
                 {"environment", world_->place().name()},
                 {"episode", back.episode},
                 {"length", back.steps}};
      if (is_left) event["why"] = back.why;
      print_json(event);
    } else if (is_left) {
      std::fprintf(stderr, "weft: episode %s is left after %s steps: %s\n", grouped(back.episode).c_str(),
                   grouped(back.steps).c_str(), escaped(back.why).c_str());
    }
  }

  /// To do about it is told with the error that ends the run.
  void tell_fault() {
    const auto& fault = world_->fault();
    if (!fault || !request_.json) return;
    print_json({{"event", "environment_fault"},
                {"environment", world_->place().name()},
                {"request", fault->request},
                {"step", loop().steps()},
                {"episode", loop().episode()},
                {"code", name(fault->error.code())},
                {"text", fault->error.text()},
                {"advice", advice(fault->error.code())}});
  }
  std::string advice(Errc code) {
    std::string text = code == Errc::timed_out
                           ? "look why it hangs, or give it more time (reinforcement.environment.timeout)"
                       : code == Errc::interrupted ? "a step was under way"
                                                   : "mend the environment";
    return text + (agent_ ? "; the same command goes on from step " + grouped(loop().steps())
                          : "; without --state nothing is kept");
  }
  /// The end of the run, with what to do about it.
  Status explained(Status ran) {
    if (ran || !world_ || !world_->fault()) return ran;
    return fail(ran.error().code(), ran.error().text() + "; " + advice(ran.error().code()));
  }

  void tell_end(std::uint64_t steps, double seconds) {
    const double rate = seconds > 0 ? static_cast<double>(steps) / seconds : 0.0;
    // A step that was broken off has changed the mesh, and the data directory goes on before it.
    const bool is_whole = !loop().is_cut_off();
    if (request_.json) {
      Json event{{"event", "done"},
                 {"steps", loop().steps()},
                 {"episodes", loop().episodes()},
                 {"mean_return", loop().mean_return()},
                 {"interrupted", noted_signal() != 0},
                 {"seconds", seconds},
                 {"steps_per_second", rate},
                 {"device", device_json(mesh().device_statistics())}};
      if (const Json drift = drift_json(learner()); !drift.is_null()) event["drift"] = drift;
      if (is_whole) event["tick"] = mesh().ticks();
      if (is_whole) event["state_hash"] = hash();
      if (seen_) event["plasticity"] = plasticity_json(last_layers_);
      print_json(event);
      return;
    }
    std::printf("steps       %s in %s episodes, %s steps/s\n", grouped(loop().steps()).c_str(),
                grouped(loop().episodes()).c_str(), short_number(rate).c_str());
    std::printf("return      %s, mean of the last 100 episodes\n", two_digits(loop().mean_return()).c_str());
    if (const learning::DriftWatch& drift = learning::drift_of(learner()); drift.is_on())
      std::printf("drift       %s changes and %s improvements seen by %s\n", grouped(drift.changes()).c_str(),
                  grouped(drift.improvements()).c_str(),
                  std::string(name(learner().options().drift.detector.kind)).c_str());
    if (const auto* const device = mesh().device_statistics())
      std::printf("device      %s\n", escaped(where_it_ran(device)).c_str());
    const Terminal terminal = Terminal::of(STDOUT_FILENO);
    const std::size_t columns = terminal.columns(), width = columns > 16 ? std::min<std::size_t>(columns - 13, 40) : 0;
    if (const std::string drawn = curve_.drawn(width, terminal.unicode); terminal.redraws && !drawn.empty())
      std::printf("curve       %s\n", drawn.c_str());
    std::string_view label = "layers      ";
    for (const std::string& layer : plasticity_lines(last_layers_)) {
      std::printf("%s%s\n", std::string(label).c_str(), layer.c_str());
      label = "            ";
    }
    if (is_whole) std::printf("state hash  %s\n", hash().c_str());
  }

  const LiveRequest& request_;
  const std::string name_;
  std::optional<agent::ReplayableMesh> replayable_;  // without a data directory
  std::unique_ptr<agent::Agent> agent_;              // with one
  agent::Recovery found_;
  std::shared_ptr<ExternalWorld> world_;  // null: the environment is ours
  std::uint64_t checkpointed_ = 0;
  ProgressLine progress_;
  ReturnCurve curve_;  // of this process's episodes
  std::optional<EpisodeLog> log_;
  std::uint64_t turn_ = 0, turns_ = 0;  // steps of one of the environment; those told
  std::uint64_t began_ = 0;             // step that this process goes on from
  mesh::NetworkSpec spec_;              // as the agent was begun, to commands
  agent::Durability durability_;
  std::optional<SeenInputs> seen_;  // of --probe
  PlasticityProbe probe_;
  Clock::time_point probed_{};
  std::vector<learning::LayerPlasticity> last_layers_;
  std::unique_ptr<LiveMonitor> monitor_;  // the last: it looks at the others
};

Status live(const LiveRequest& request) {
  const bool is_kept = !request.state.empty();
  if (!is_kept && (request.durability || request.checkpoint_every || request.salvage))
    return fail(Errc::invalid_argument,
                "--durability, --checkpoint-every, --salvage: they are of a data directory; give --state DIR");
  WEFT_CHECK(check_device(request.device));
  WEFT_TRY(const Model model, read_model(request.file));
  WEFT_TRY(const mesh::NetworkSpec spec, spec_of(model, request));
  Live run(request, spec.name);
  if (Status opened = run.open(model, spec); !opened) return fail(blamed(std::move(opened).error(), request.file));
  watch_signals();
  return run.run();
}

}  // namespace

Verb add_live(CLI::App& program) {
  CLI::App* app = add_verb(program, "live", "Act in an environment, and learn from what comes of it");
  auto request = std::make_shared<LiveRequest>();
  LiveRequest& r = *request;
  add_argument(*app, "NETWORK", r.file, "A network file with a section \"reinforcement\", or an .entity file")
      .required();
  add_option(*app, "state", r.state, "The agent's data directory; the agent is kept there, and continues from there")
      .type_name("DIR");
  add_option(*app, "environment", r.world.command, "Command of the shell that is an external environment")
      .type_name("COMMAND");
  add_option(*app, "environment-socket", r.world.socket, "Unix socket that an external environment listens on")
      .type_name("PATH");
  add_option(*app, "steps", r.steps, "Steps in all, with those before; 0: until it is stopped");
  add_option(*app, "seed", r.seed, "Seed of weights, episodes and exploration");
  add_option(*app, "durability", r.durability,
             "When a step counts as kept: tick, interval=2s (the default) or checkpoint");
  add_option(*app, "checkpoint-every", r.checkpoint_every, "A checkpoint every so many steps (100,000)")
      .within(std::uint64_t{1}, UINT64_MAX);
  add_option(*app, "keep", r.keep, "Checkpoints kept in the agent's data directory")
      .within(std::uint64_t{1}, std::uint64_t{100000});
  add_flag(*app, "salvage", r.salvage, "Go on where a damaged journal ends, and forget what came after");
  add_option(*app, "threads", r.threads, "Threads at most; 0: all usable cores").within(std::uint64_t{0}, kMostThreads);
  add_max_memory(*app, r.max_memory);
  add_device(*app, r.device);
  add_executor(*app, r.executor);
  add_option(*app, "logdir", r.logdir, "Also write each episode's numbers there: for TensorBoard, and as scalars.csv")
      .type_name("DIR");
  add_option(*app, "socket", r.socket, "Answer weft top and weft send there; with --state there is one by default")
      .type_name("PATH");
  add_option(*app, "probe", r.probe,
             "Measure each layer once a second, and at the end, with the last N observations, one of each 256 steps: "
             "dormant units, effective rank, norm of the weights")
      .within(std::uint64_t{1}, std::uint64_t{4096})
      .type_name("N");
  add_flag(*app, "json", r.json, "Events on stdout, a JSON object a line");
  add_flag(*app, "quiet", r.quiet, "No progress on stderr; notes stay");
  return {app, [request] { return live(*request); }};
}

}  // namespace weft::cli
