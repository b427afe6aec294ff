// SPDX-License-Identifier: Apache-2.0

#include "cli/data_directory.hpp"
#include "cli/output.hpp"
#include "cli/reporter.hpp"
#include "cli/run_files.hpp"
#include "cli/run_flags.hpp"
#include "cli/run_monitor.hpp"
#include "cli/run_state.hpp"
#include "cli/signals.hpp"
#include "cli/task_report.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"

#include "mesh/mesh_access.hpp"

#include "scheduler/clock.hpp"

#include "storage/checkpoint.hpp"
#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/log.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;

// A block is what Ctrl-C waits for: long enough to cost nothing, short enough not to be noticed.
constexpr std::uint64_t kLongestBlock = 256;
constexpr double kBlockSeconds = 0.05;
constexpr std::uint64_t kLongestCatchUp = 64;  // samples run at once that are overdue
constexpr std::chrono::milliseconds kClockReading{50};

/// One run from its first block to its result.
class Run {
 public:
  Run(const RunRequest& request, RunState& state, storage::CheckpointStore* store, Reporter& reporter,
      RunMonitor& monitor)
      : request_(request),
        state_(state),
        agent_(state.agent()),
        store_(store),
        reporter_(reporter),
        monitor_(monitor) {}

  Status operator()(std::optional<std::uint64_t> resumed_at) {
    first_sample_ = samples();
    first_tick_ = state_.mesh().ticks();
    reporter_.started(state_, resumed_at);
    take_stream_events(state_.stream());  // told by the runs before
    monitor_.started();
    WEFT_CHECK(make_clock());
    if (!state_.is_finished()) {
      WEFT_CHECK(stream());
      // An empty pipe: the run says where it stands.
      if (state_.feed() && state_.feed()->is_empty()) {
        reporter_.done(state_, pace());
        return {};
      }
      read_clock(true);
      monitor_.enters("finishing");
      if (Status finished = timed([&] { return state_.finish(); }); !finished) {
        if (finished.error().code() == Errc::interrupted) return stop();
        acknowledge_before_failing();
        return fail(explained(std::move(finished).error()));
      }
      tell_events();  // of samples that were under way
      if (store_) kept_ = checkpoint();
      if (agent_) kept_ = keep_agent();
    }
    Status saved = save();
    if (saved) saved = save_matrix();
    monitor_.enters("done");
    // Hours of learning are told of, whatever became of their file.
    reporter_.done(state_, pace());
    warn_of_divergence();
    return kept_ ? saved : kept_;
  }

 private:
  std::uint64_t samples() { return state_.stream().progress().samples; }

  Error explained(Error error) {
    return explain_halt(std::move(error), state_.mesh(), state_.setup().learning, state_.data_statistics());
  }

  void warn_of_divergence() {
    const learning::StreamProgress& last = state_.stream().progress();
    const double accuracy = state_.held_out_accuracy().value_or(last.prequential_accuracy);
    const double loss = state_.held_out() ? state_.held_out()->loss() : last.mean_loss;
    if (const auto note =
            divergence_note(state_.mesh(), state_.setup().learning, state_.data_statistics(), accuracy, loss))
      log_warn(*note);
  }

  Status save() {
    if (request_.storage.save.empty()) return {};
    WEFT_TRY(const auto bytes, state_.snapshot_for(request_.storage.save));
    return storage::write_file_durably(storage::real_file_system(), request_.storage.save, bytes);
  }

  Status save_matrix() {
    const learning::TaskMatrix* const tasks = tasks_of(state_.stream());
    if (request_.storage.matrix.empty() || !tasks) return {};
    const std::string text = tasks_csv(state_.stream().options().tasks, *tasks);
    return storage::write_file_durably(storage::real_file_system(), request_.storage.matrix,
                                       std::as_bytes(std::span(text)));
  }

  Pace pace() {
    return {seconds_, samples() - first_sample_, state_.mesh().ticks() - first_tick_, rated_.statistics,
            rated_.clock ? &rated_.answers : nullptr};
  }

  /// Quantiles take microseconds: not for every sample.
  void read_clock(bool is_last = false) {
    if (is_last) count_answers();
    const Clock::time_point now = Clock::now();
    if (!rated_.clock || (!is_last && now - rated_.read < kClockReading)) return;
    rated_.read = now;
    rated_.statistics = ClockStatistics{*request_.pace.rate, rated_.overrun, rated_.clock->report()};
    monitor_.clock(*rated_.statistics);
  }

  /// Answers that were due up to the samples that are learned; those that were skipped are known in `await`.
  void count_answers() {
    if (!rated_.clock) return;
    const scheduler::ClockCounts now = rated_.clock->counts();
    const auto [due, met] = scheduler::due_between(std::exchange(rated_.counted, now), now);
    rated_.answers.add(due, met, state_.stream().adaptation());
  }

  Status make_clock() {
    if (!request_.pace.rate) return {};
    rated_.overrun = *scheduler::parse_overrun(request_.pace.overrun.value_or("skip"));
    rated_.answers = learning::ChangeAvailability(state_.stream().adaptation().scores());
    scheduler::FixedRate rate{.hertz = *request_.pace.rate, .overrun = rated_.overrun};
    rate.executor = &mesh::MeshAccess::executor(state_.mesh());
    rate.is_interrupted = [this] {
      read_clock();
      monitor_.progressed();
      return noted_signal() != 0 || RunMonitor::reader_is_gone();
    };
    WEFT_TRY(rated_.clock, scheduler::make_fixed_rate_clock(std::move(rate)));
    return {};
  }

  /// Samples that are due now, one with a clock unless they are to be caught up; 0 when a signal came.
  std::uint64_t await(std::uint64_t wanted) {
    if (!rated_.clock) return wanted;
    read_clock();
    // Its pace is that of the clock: waiting counts.
    const auto begin = Clock::now();
    const std::uint64_t due = rated_.clock->await(std::min(wanted, kLongestCatchUp));
    count_answers();
    seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
    return due;
  }

  template <class Work>
  Status timed(Work&& work) {
    const auto begin = Clock::now();
    Status status = work();
    last_seconds_ = std::chrono::duration<double>(Clock::now() - begin).count();
    seconds_ += last_seconds_;
    return status;
  }

  /// A block of samples; of one, where its layers are to be measured.
  Status advance(std::uint64_t samples) {
    if (!monitor_.wants_layers()) return timed([&] { return state_.advance(samples); });
    std::vector<learning::LayerDiagnostics> measured;
    Status advanced = timed([&] { return state_.advance_measured(measured); });
    monitor_.layers(std::move(measured));
    return advanced;
  }

  /// While no sample arrives.
  Status idle() {
    if (noted_signal() || RunMonitor::reader_is_gone()) return fail(Errc::interrupted, "stopped");
    monitor_.progressed();
    reporter_.progressed(state_, pace());
    if (agent_) report_agent();
    return {};
  }

  /// A row that was refused ends the run, which is kept as it was before.
  Status refuse_row(const Error& why) {
    if (store_) WEFT_CHECK(checkpoint());
    if (agent_) WEFT_CHECK(keep_agent());
    // Bad input, whatever part of the program found it.
    return fail(Errc::parse_failed,
                why.text() + "; the rows before it are kept: " + std::to_string(state_.feed_place().rows()));
  }

  /// To the end of the stream, or to a signal.
  Status stream() {
    if (state_.feed()) state_.feed()->while_idle([this] { return idle(); });
    const std::uint64_t every = request_.storage.checkpoint_every.value_or(0);
    // A sample of a deep network takes seconds, and a signal is heard between blocks.
    std::uint64_t block = state_.mesh().graph().nodes().size() > 1000 ? 1 : 16;
    bool had_drifted = state_.stream().progress().before_drift.has_value();
    while (!state_.stream().is_done()) {
      if (noted_signal() || RunMonitor::reader_is_gone()) return stop();
      const std::uint64_t wanted = await(every ? std::min(block, every - samples() % every) : block);
      if (wanted == 0) continue;
      const std::uint64_t before = samples();
      Status advanced = advance(wanted);
      if (rated_.clock) rated_.clock->finished(samples() - before);
      monitor_.progressed();  // also when a cell halted the mesh
      if (!advanced && advanced.error().code() == Errc::interrupted) return stop();
      if (!advanced && state_.feed() && Feed::is_of_a_row(advanced.error().code())) return refuse_row(advanced.error());
      if (!advanced) {
        acknowledge_before_failing();
        return fail(explained(std::move(advanced).error()));
      }
      if (last_seconds_ < kBlockSeconds / 4) block = std::min(block * 2, kLongestBlock);
      if (last_seconds_ > kBlockSeconds) block = std::max<std::uint64_t>(block / 2, 1);
      tell_events();
      tell_expired(false);
      if (!had_drifted && state_.stream().progress().before_drift) {
        had_drifted = true;
        reporter_.drifted(state_);
      }
      reporter_.progressed(state_, pace());
      // The last one is written when what is under way has been learned too.
      if (every && samples() / every != before / every && !state_.stream().is_done()) {
        if (store_) WEFT_CHECK(checkpoint());
        // Busy with the one before: that one is young enough.
        if (agent_) agent_->checkpoint();
      }
      if (agent_) report_agent();
    }
    tell_expired(true);
    return {};
  }

  void tell_events() {
    for (const learning::DriftEvent& event : state_.stream().take_drift_events()) reporter_.drift_seen(state_, event);
    for (const learning::AnomalyEvent& event : take_anomalies(state_.stream())) reporter_.anomaly_seen(event);
    for (const learning::StreamEvent& event : take_stream_events(state_.stream())) reporter_.marked(state_, event);
  }

  /// Samples that have expired, at most once a second.
  void tell_expired(bool is_end) {
    const auto counts = late_counts_of(state_.learner());
    if (!counts) return;
    if (counts->expired == told_expired_ || (!is_end && seconds_ < expired_at_ + 1)) return;
    reporter_.expired(counts->expired - told_expired_, *counts);
    told_expired_ = counts->expired;
    expired_at_ = seconds_;
  }

  Status checkpoint() {
    const auto begin = Clock::now();
    monitor_.enters("saving");
    WEFT_TRY(const auto bytes, state_.snapshot());
    const std::uint64_t at = samples();
    const Json info{{"kind", "weft run"}, {"samples", at}, {"ticks", state_.mesh().ticks()}};
    WEFT_CHECK(store_->write({state_.mesh().ticks()}, {{kRunFile, bytes}}, info));
    reporter_.saved(at, store_->directory());
    monitor_.saved(bytes.size(), Clock::now() - begin);
    last_saved_ = at;
    return {};
  }

  /// Keeps what was learned until the mesh halted, so that the next start goes on behind it. The halt is what is told;
  /// that the disk fails too is a warning.
  void acknowledge_before_failing() {
    if (!agent_) return;
    if (const Status kept = agent_->acknowledge(); !kept) log_warn(kept.error().text());
    report_agent();
  }

  /// The whole run is on disk, in a checkpoint.
  Status keep_agent() {
    if (auto kept = agent_->checkpoint_and_wait(); !kept) {
      const auto& acknowledged = agent_->statistics().acknowledged;
      return fail(std::move(kept).error().within("acknowledged up to tick " + std::to_string(acknowledged.tick)));
    }
    report_agent();
    return {};
  }

  /// Reports the state of the journal, and each checkpoint that has been written meanwhile.
  void report_agent() {
    const agent::AgentStatistics statistics = agent_->statistics();
    if (state_.feed()) reporter_.acknowledged(state_.feed()->acknowledged(statistics.acknowledged));
    monitor_.journal({to_string(state_.setup().durability), statistics.acknowledged.tick, statistics.waiting_bytes,
                      statistics.journal_bytes, statistics.last_error.value_or("")});
    const agent::CheckpointStatistics& checkpoint = statistics.checkpoint;
    for (; checkpoint_failures_ < checkpoint.failed; ++checkpoint_failures_) monitor_.save_failed();
    if (checkpoint.written == checkpoints_) return;
    checkpoints_ = checkpoint.written;
    reporter_.kept(checkpoint, agent_->directory());
    monitor_.saved(checkpoint.bytes, checkpoint.pause);
  }

  Status stop() {
    const bool by_signal = noted_signal() != 0;
    std::string text = by_signal ? "stopped by a signal" : "stopped, as nobody reads stdout any more,";
    text += " at sample " + std::to_string(samples());
    monitor_.enters("stopping");
    if (store_) {
      if (samples() > 0 && last_saved_ != samples()) WEFT_CHECK(checkpoint());
      text += "; go on with --resume";
    }
    if (agent_) {
      WEFT_CHECK(keep_agent());
      text += "; the same command goes on";
    }
    return fail(by_signal ? Errc::interrupted : Errc::storage, text);
  }

  const RunRequest& request_;
  RunState& state_;
  agent::Agent* agent_;              // keeps its own checkpoints
  storage::CheckpointStore* store_;  // without one
  Reporter& reporter_;
  RunMonitor& monitor_;
  std::uint64_t first_sample_ = 0, first_tick_ = 0;
  std::optional<std::uint64_t> last_saved_;
  std::uint64_t checkpoints_ = 0, checkpoint_failures_ = 0;  // of the agent, told of
  double seconds_ = 0, last_seconds_ = 0;
  std::uint64_t told_expired_ = 0;
  double expired_at_ = -1;  // of seconds_
  /// Of --rate.
  struct Rated {
    std::unique_ptr<scheduler::Clock> clock;  // null: without one
    scheduler::Overrun overrun = scheduler::Overrun::skip;
    std::optional<ClockStatistics> statistics;
    Clock::time_point read{};
    scheduler::ClockCounts counted{};
    learning::ChangeAvailability answers;
  } rated_;
  Status kept_;  // the last state, in a checkpoint
};

Status run(const RunRequest& request) {
  WEFT_TRY(const Model model, read_model(request.sample.file));
  WEFT_TRY(auto setup, make_setup(model, request));
  WEFT_CHECK(check_files(request, setup));
  const std::array others{setup.csv_path, setup.data_directory, setup.validation_path, setup.test_path};
  WEFT_TRY(Samples samples, read_run_samples(model, setup));
  WEFT_CHECK(check_read(request, samples.data));
  if (!request.monitor.log.empty()) set_log_file(request.monitor.log);
  if (!request.monitor.logdir.empty() && !has_journal(request.storage.state) && request.storage.checkpoint.empty())
    WEFT_CHECK(ScalarLog::check_unused(storage::real_file_system(), request.monitor.logdir, "samples"));
  auto opened = RunState::open(model, std::move(setup), std::move(samples));
  if (!opened) return fail(blamed(std::move(opened).error(), request.sample.file, others));
  RunState& state = **opened;
  std::optional<storage::CheckpointStore> store;
  std::optional<std::uint64_t> resumed_at;
  if (!request.storage.checkpoint.empty()) {
    WEFT_TRY(store, storage::CheckpointStore::open(storage::real_file_system(), request.storage.checkpoint));
    WEFT_TRY(resumed_at, resume(request, *store, state));
    if (!request.monitor.logdir.empty() && !resumed_at)
      WEFT_CHECK(ScalarLog::check_unused(storage::real_file_system(), request.monitor.logdir, "samples"));
  }
  WEFT_CHECK(check_savable(request, state));
  watch_signals();
  state.stop_by(signal_flag());
  auto reporter =
      request.monitor.json || request.sample.answers ? make_json_reporter() : make_text_reporter(request.monitor.quiet);
  if (!request.monitor.logdir.empty()) {
    const LoggedColumns columns{request.monitor.probe != 0,
                                has_stream_events(state.stream().options(), state.learner()->options())};
    WEFT_TRY(ScalarLog log,
             ScalarLog::open(storage::real_file_system(), request.monitor.logdir, "samples", logged_scalars(columns)));
    reporter = make_logged_reporter(std::move(reporter), std::move(log), columns);
  }
  if (state.agent()) {
    reporter->found(state);
    if (!state.recovery().is_new) resumed_at = state.stream().progress().samples;
  }
  const std::string data_directory = request.storage.state.empty() ? request.storage.checkpoint : request.storage.state;
  WEFT_TRY(const auto monitor, RunMonitor::open({.socket = request.monitor.socket,
                                                 .directory = data_directory,
                                                 .log = request.monitor.log,
                                                 .hang_limit = request.monitor.hang_limit,
                                                 .on_hang = request.monitor.on_hang,
                                                 .json = request.monitor.json || request.sample.answers},
                                                state, *reporter));
  if (state.agent()) monitor->found();
  Status ran = Run(request, state, store ? &*store : nullptr, *reporter, *monitor)(resumed_at);
  reporter->interrupt();
  return ran;
}

}  // namespace

Verb add_run(CLI::App& program) {
  CLI::App* app = add_verb(program, "run", "Stream samples through a network that predicts, is scored, then learns");
  auto request = std::make_shared<RunRequest>();
  add_run_flags(*app, *request);
  return {app, [request] { return run(*request); }};
}

}  // namespace weft::cli
