// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

namespace weft::scheduler {

/// Threads that share one piece of work of a program whose only region is heavy (TickProgram::wants_team). Who asks
/// waits, so nothing that is asked outlives the question.
class Team {
 public:
  using Body = void (*)(void* context, std::size_t index);
  virtual ~Team() = default;
  /// Threads that may take part, the asking one included.
  virtual std::size_t size() const noexcept = 0;
  /// Runs body(context, 0) ... body(context, count - 1), in any order and on any of the team's threads, all inside the
  /// executor's ThreadHooks, and returns when all are done. Workers that are asleep are not waited for.
  /// @thread the one that runs the program; a body must not ask in turn
  virtual void operator()(std::size_t count, Body body, void* context) noexcept = 0;
};

}  // namespace weft::scheduler
