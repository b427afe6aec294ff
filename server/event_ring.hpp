// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/http_exchange.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace weft::server {

/// Events of one mesh and those that read them as server-sent events. Single events have numbers and are kept for a
/// while, so that a reader that comes back gets what it missed; statistics are sent at each reader's pace and never
/// again. Nothing here waits for a reader: one that does not keep up loses events, and is told how many.
/// @thread any
/// @source WHATWG HTML, section 9.2 (server-sent events)
class EventRing {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kKept = 4096;  // events
  static constexpr std::size_t kMostReaders = 16;
  static constexpr std::chrono::seconds kHeartbeat{15};

  struct Reading {
    std::set<std::string, std::less<>> topics;  ///< empty: all
    std::chrono::milliseconds every{1000};      ///< between two statistics
    std::optional<std::uint64_t> after;         ///< number of the last event that the reader has
  };
  /// Topics there are, by the events that they hold: "faults" holds "fault".
  static bool is_topic(std::string_view topic) noexcept;

  /// @error full: kMostReaders read already
  Status check_room() const;
  void add(std::shared_ptr<HttpStream> stream, Reading reading);
  /// A single event, such as "checkpoint", to those who read its topic.
  void publish(std::string_view topic, std::string_view event, const Json& data);
  /// Statistics to those for whom it is time, heartbeats to those who heard nothing; forgets readers that have gone.
  void turn(Clock::time_point now, const std::function<Json()>& statistics);
  /// Says goodbye to all.
  void end();

  std::size_t readers() const;
  std::uint64_t dropped() const;

 private:
  struct Event {
    std::uint64_t number = 0;
    std::string topic, text;
  };
  struct Reader {
    std::shared_ptr<HttpStream> stream;
    Reading reading;
    Clock::time_point next{}, heard = Clock::now();
    std::uint64_t lost = 0;
  };
  static bool wants(const Reading& reading, std::string_view topic);
  void send(Reader& to, std::string text, bool is_statistics);

  mutable std::mutex mutex_;
  std::deque<Event> events_;
  std::vector<Reader> readers_;
  std::uint64_t next_ = 1, dropped_ = 0;
  bool ended_ = false;
};

}  // namespace weft::server
