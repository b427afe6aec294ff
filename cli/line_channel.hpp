// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace weft::cli {

/// Lines to a program and back: by pipes to a child process, or by a Unix socket.
/// @thread one at a time
class LineChannel {
 public:
  /// Runs a command of the shell, in a process group of its own. Its stderr is ours.
  static Result<std::unique_ptr<LineChannel>> start(const std::string& command);
  /// @error not_found: nobody listens there; invalid_argument, storage
  static Result<std::unique_ptr<LineChannel>> connect(const std::string& path);
  /// Closes it. A child has half a second to end, another one after SIGTERM, and is killed then.
  ~LineChannel();
  LineChannel(const LineChannel&) = delete;
  LineChannel& operator=(const LineChannel&) = delete;

  /// @error timed_out; storage: the other side is gone, and how; interrupted: two seconds after a signal to us
  Status write_line(std::string_view line, std::chrono::milliseconds timeout);
  /// The next line, without its end. @error as write_line, with what came of a line; too_large: it is longer
  Result<std::string> read_line(std::size_t longest, std::chrono::milliseconds timeout);

 private:
  LineChannel(int in, int out, pid_t child) noexcept : in_(in), out_(out), child_(child) {}
  /// The end of the other side, in words.
  std::string end() const;
  bool child_has_ended(std::chrono::milliseconds within) const;
  Status cut_off(Errc code, const std::string& text) const;

  int in_, out_;  // the same of a socket
  pid_t child_;   // 0: none
  std::string buffer_;
};

}  // namespace weft::cli
