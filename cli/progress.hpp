// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/terminal.hpp"

#include <chrono>
#include <string>

namespace weft::cli {

/// A line on stderr that is redrawn while long work goes on, on a terminal only, and gone when it ends.
/// @thread one at a time
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Shows `text`, ten times a second at most.
  void show(const std::string& text);
  /// Takes the line away, before something else is printed.
  void clear();
  /// False: nobody would see it.
  bool is_seen() const noexcept { return terminal_.redraws; }

 private:
  Terminal terminal_;
  std::chrono::steady_clock::time_point last_{};
  bool is_drawn_ = false;
};

}  // namespace weft::cli
