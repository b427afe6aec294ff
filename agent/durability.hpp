// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <chrono>
#include <string>
#include <string_view>

namespace weft::agent {

/// Time at which a record counts as acknowledged: from then on neither a crash nor a power cut loses it.
struct Durability {
  enum class Mode {
    tick,       ///< when the call returns; each call waits for the device
    interval,   ///< within `interval`; calls do not wait. A crash of the process alone loses less, see docs/agents.md
    checkpoint  ///< once a checkpoint holds it; the journal is written but never waited for
  };
  Mode mode = Mode::interval;
  std::chrono::nanoseconds interval = std::chrono::seconds(2);
  bool operator==(const Durability&) const = default;
};

/// "tick", "interval=2s" (units ms, s, min; "interval" alone is 2 s), "checkpoint".
/// @error invalid_argument: anything else, or an interval outside 1 ms to 1 h
Result<Durability> parse_durability(std::string_view text);
std::string to_string(const Durability& durability);

}  // namespace weft::agent
