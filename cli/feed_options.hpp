// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/table.hpp"

#include <string>

namespace weft::cli {

/// Settings of a run whose samples arrive while it goes on.
struct FeedOptions {
  std::string pipe;    // "-": standard input; empty: none
  std::string follow;  // a socket or a directory; empty: none
  learning::RowFormat format = learning::RowFormat::detect;
  bool skips_bad = false;  // a row that is refused is counted and passed over, else it ends the run
  bool answers = false;    // printed, a JSON object each
  bool json = false;       // rows passed over are events
  bool is_on() const noexcept { return !pipe.empty() || !follow.empty(); }
  /// The name of the source in messages.
  std::string name() const { return follow.empty() ? "standard input" : follow; }
};

}  // namespace weft::cli
