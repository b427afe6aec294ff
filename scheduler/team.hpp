// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

namespace weft::scheduler {

/// Worker team for a program with one heavy region (TickProgram::wants_team). A call returns when all its bodies are
/// done, so `context` may live on the caller's stack.
class Team {
 public:
  using Body = void (*)(void* context, std::size_t index);
  virtual ~Team() = default;
  /// Threads that may take part, the caller's included.
  virtual std::size_t size() const noexcept = 0;
  /// Runs body(context, 0) ... body(context, count - 1), in any order and on any of the team's threads, all inside the
  /// executor's ThreadHooks, and returns when all are done. Workers that are asleep are not waited for.
  /// @thread the one that runs the program; a body must not call it
  virtual void operator()(std::size_t count, Body body, void* context) noexcept = 0;
};

}  // namespace weft::scheduler
