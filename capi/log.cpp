// SPDX-License-Identifier: Apache-2.0

#include "core/log.hpp"

#include "capi/internal/arguments.hpp"
#include "capi/internal/call.hpp"
#include "capi/weft.h"

#include "core/log_function.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

static_assert(WEFT_LOG_TRACE == int(weft::LogLevel::trace) && WEFT_LOG_DEBUG == int(weft::LogLevel::debug) &&
              WEFT_LOG_INFO == int(weft::LogLevel::info) && WEFT_LOG_WARN == int(weft::LogLevel::warn) &&
              WEFT_LOG_ERROR == int(weft::LogLevel::error) && WEFT_LOG_OFF == int(weft::LogLevel::off));

namespace weft::capi {
namespace {

constexpr std::size_t kMostLines = 4096;
constexpr const char* kLost = " log lines were not read in time and are lost";
constexpr std::uint64_t kLongestWait = std::uint64_t{1} << 60;  // 36 years: sums with a clock's time stay exact

struct Line {
  int level = 0;
  std::string text;
};

/// Lines that wait for weft_next_log.
struct KeptLines {
  std::mutex mutex;
  std::condition_variable has_some;
  std::deque<Line> lines;
  std::uint64_t lost = 0;
};

KeptLines& kept_lines() {
  // Never destroyed: threads may log and wait while the process ends.
  static KeptLines& instance = *new KeptLines;
  return instance;
}

void keep_line(void*, int level, const char* text) {
  KeptLines& kept = kept_lines();
  {
    const std::lock_guard hold(kept.mutex);
    kept.lines.push_back({level, text});
    if (kept.lines.size() > kMostLines) {
      kept.lines.pop_front();
      ++kept.lost;
    }
  }
  kept.has_some.notify_one();
}

Outcome check_level(int level) {
  if (level >= WEFT_LOG_TRACE && level <= WEFT_LOG_OFF) return {};
  return fail(Errc::out_of_range, "log level: " + std::to_string(level) + " is outside [0, 5], trace to off");
}

}  // namespace
}  // namespace weft::capi

using namespace weft;
using namespace weft::capi;

weft_status weft_set_log(weft_log_function function, void* user, int level) {
  return guarded([&]() -> Outcome {
    if (const Outcome checked = check_level(level); !checked.is_good()) return checked;
    set_log_function(function, user, static_cast<LogLevel>(level));
    return {};
  });
}

weft_status weft_keep_log(int level) {
  return guarded([&]() -> Outcome {
    if (const Outcome checked = check_level(level); !checked.is_good()) return checked;
    set_log_function(keep_line, nullptr, static_cast<LogLevel>(level));
    return {};
  });
}

weft_status weft_next_log(uint64_t nanoseconds, int* out_level, char* buffer, size_t capacity, size_t* out_needed) {
  return guarded([&]() -> Outcome {
    KeptLines& kept = kept_lines();
    std::unique_lock hold(kept.mutex);
    const auto has_some = [&] { return !kept.lines.empty(); };
    if (!has_some() && nanoseconds > 0)
      kept.has_some.wait_for(hold, std::chrono::nanoseconds(std::min(nanoseconds, kLongestWait)), has_some);
    if (!has_some()) return fail(Errc::timed_out, "no log line came in time");
    // The notice of lost lines comes first and is none of the queue: more may be lost until it has been read.
    const bool tells_lost = kept.lost > 0;
    const Line told = {WEFT_LOG_WARN, tells_lost ? std::to_string(kept.lost) + kLost : std::string()};
    const Line& first = tells_lost ? told : kept.lines.front();
    if (out_level) *out_level = first.level;
    const Outcome copied = copy_text(first.text, buffer, capacity, out_needed);
    if (!copied.is_good() || !buffer) return copied;
    if (tells_lost)
      kept.lost = 0;
    else
      kept.lines.pop_front();
    return copied;
  });
}
