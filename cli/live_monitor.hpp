// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/command_queue.hpp"
#include "cli/live_statistics.hpp"
#include "cli/top_server.hpp"

#include "actors/watchdog.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace weft::cli {

/// Those who look on while `weft live` works: statistics for `weft top`, commands of `weft send`. Its loop calls it
/// between blocks of steps, which never wait for it.
/// @thread one at a time: the loop's
class LiveMonitor {
 public:
  struct Place {
    std::string socket;     // given with --socket; must work
    std::string directory;  // of --state: has a socket by default, or a warning. Empty: none
    bool is_on() const noexcept { return !socket.empty() || !directory.empty(); }
  };
  /// `target`: the mesh with its learner; all of it must outlive the monitor. @error as TopServer::open, for a socket
  /// that was asked for
  static Result<std::unique_ptr<LiveMonitor>> open(const Place& place, mesh::Mesh& mesh, CommandPlace target);
  ~LiveMonitor();
  LiveMonitor(const LiveMonitor&) = delete;
  LiveMonitor& operator=(const LiveMonitor&) = delete;

  /// After each block. Commands that came are executed.
  void progressed(const LiveStatistics::Acting& now);
  /// Before something during which no steps are run: "stopping", "done".
  void enters(const char* phase);

 private:
  using Clock = LiveStatistics::Clock;
  LiveMonitor(mesh::Mesh& mesh, CommandPlace target);
  Status serve(const Place& place);
  void publish();

  mesh::Mesh& mesh_;
  CommandPlace target_;
  AgentIdentity agent_;
  LiveStatistics statistics_;
  LivePublisher publisher_;
  Clock::time_point measured_ = Clock::now(), published_{};
  std::uint64_t measured_ticks_ = 0, measured_steps_ = 0;
  CommandQueue commands_;
  std::unique_ptr<actors::Watchdog> watchdog_;  // these two use all the others from threads of their own
  std::unique_ptr<TopServer> server_;
  std::string noted_in_;  // the directory that says where the socket is
};

}  // namespace weft::cli
