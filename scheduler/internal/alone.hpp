// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/executor.hpp"

namespace weft::scheduler::internal {

/// Runs steps [first, n) of a program on the calling thread, region after region, step after step. With one region this
/// is a bare loop.
std::uint64_t run_alone(TickProgram& program, std::uint64_t n, std::uint64_t first = 0) noexcept;

/// Calls the hooks around a scope.
class HookScope {
 public:
  explicit HookScope(const ThreadHooks& hooks) noexcept : hooks_(hooks) {
    if (hooks_.enter) word_ = hooks_.enter(hooks_.context);
  }
  ~HookScope() {
    if (hooks_.leave) hooks_.leave(hooks_.context, word_);
  }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

 private:
  const ThreadHooks& hooks_;
  std::uint64_t word_ = 0;
};

}  // namespace weft::scheduler::internal
