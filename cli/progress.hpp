// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/terminal.hpp"

#include <chrono>
#include <string>

namespace weft::cli {

/// Signs on stderr that long work goes on. On a terminal a line is redrawn in place and gone at the end; elsewhere
/// (a log, a service) a line is added each ten seconds.
/// @thread one at a time
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// True when `show` would show something: the text need not be made before.
  bool is_due() const noexcept;
  /// Shows `text`, on a terminal ten times a second at most.
  void show(const std::string& text);
  /// Takes the line away, before something else is printed.
  void clear();

 private:
  Terminal terminal_;
  std::chrono::steady_clock::time_point last_;
  bool is_drawn_ = false;
};

}  // namespace weft::cli
