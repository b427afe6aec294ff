// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/command_queue.hpp"
#include "cli/live_statistics.hpp"
#include "cli/notify.hpp"
#include "cli/reporter.hpp"
#include "cli/run_state.hpp"
#include "cli/top_server.hpp"

#include "actors/watchdog.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace weft::cli {

/// Options of `weft run` about logs, sockets and the watchdog.
struct MonitorRequest {
  std::string socket;      // given with --socket; must work
  std::string directory;   // of --state or --checkpoint: has a socket by default, or a warning. Empty: none
  std::string log;         // empty: no log file
  double hang_limit = 10;  // seconds; 0: off
  std::string on_hang = "report";
  bool json = false;
};

/// Everybody who looks on while `weft run` works: faults and hangs go to the log and to JSON lines, statistics to `weft
/// top`, keep-alive messages to the service manager. The run loop calls it between blocks; ticks never wait for it.
/// @thread one at a time: the run loop's
class RunMonitor {
 public:
  /// @error as TopServer::open, for a socket that was asked for
  static Result<std::unique_ptr<RunMonitor>> open(const MonitorRequest& request, RunState& state, Reporter& reporter);
  ~RunMonitor();
  RunMonitor(const RunMonitor&) = delete;
  RunMonitor& operator=(const RunMonitor&) = delete;

  /// Logs the state found in the data directory; damage is printed to stderr too.
  void found();
  /// All is loaded, the first block follows.
  void started();
  /// After each block, and now and then while a clock or a sample is waited for. Commands that came are executed.
  void progressed();
  /// True once a second while somebody looks: the layers of the next sample are to be measured.
  bool wants_layers();
  void layers(std::vector<learning::LayerDiagnostics> measured);
  /// For the clock to say how it is kept; before `progressed`.
  void clock(const ClockStatistics& now) { statistics_.run.clock = now; }
  /// Before something during which no ticks are run: "saving", "finishing", "stopping", "done".
  void enters(const char* phase);
  /// A checkpoint is on the device. `pause`: for how long ticks stood still.
  void saved(std::uint64_t bytes, std::chrono::duration<double> pause);
  void save_failed() noexcept { ++statistics_.failed_checkpoints; }
  /// For the journal to say how it fares.
  void journal(LiveStatistics::Journal now) { statistics_.journal = std::move(now); }

  /// True once the reader of the events has closed the pipe.
  static bool reader_is_gone() noexcept;

 private:
  using Clock = LiveStatistics::Clock;
  explicit RunMonitor(RunState& state, Reporter& reporter, bool json);
  Status serve(const MonitorRequest& request);
  void take_commands();
  void close_commands();
  void tell_faults();
  void tell_standings();
  void tell(const actors::Hang& hang);
  void measure(Clock::time_point now);
  void publish();
  std::string answer();
  std::string status_line() const;
  Coord at(actors::ActorId actor) const { return agent_.cells[actor]; }

  RunState& state_;
  Reporter& reporter_;
  const bool json_;
  AgentIdentity agent_;
  LiveStatistics statistics_;
  LivePublisher publisher_;
  ServiceNotifier notifier_;

  std::uint64_t next_event_ = 0;                          // of the supervisor's ring
  std::map<actors::ActorId, actors::ActorStatus> known_;  // cells that had a fault, and where they stood last
  std::set<actors::ActorId> halted_;
  /// When each was done last.
  struct Times {
    Clock::time_point publish{}, measure{}, status{}, faults{}, layers{};
    std::atomic<Clock::rep> look{0};  // by somebody outside
  } last_;
  std::uint64_t measured_ticks_ = 0, measured_samples_ = 0, faults_told_ = 0;

  CommandQueue commands_;
  std::unique_ptr<actors::Watchdog> watchdog_;  // these two use all the others from threads of their own
  std::unique_ptr<TopServer> server_;
  std::string noted_in_;  // the directory that says where the socket is
};

}  // namespace weft::cli
