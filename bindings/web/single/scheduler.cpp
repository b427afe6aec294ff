// SPDX-License-Identifier: Apache-2.0
// The room scheduler without oneTBB: whoever calls runs the steps.

#include "scheduler/executor.hpp"
#include "scheduler/internal/alone.hpp"

namespace weft::scheduler {
namespace {

class CallerExecutor final : public Executor {
 public:
  explicit CallerExecutor(const ThreadHooks& hooks) : hooks_(hooks) {}
  std::uint64_t run(TickProgram& program, std::uint64_t n) noexcept override {
    const internal::HookScope scope(hooks_);
    return internal::run_alone(program, n);
  }
  std::size_t concurrency() const noexcept override { return 1; }
  std::string_view name() const noexcept override { return "resident"; }

 private:
  const ThreadHooks hooks_;
};

}  // namespace

Result<std::unique_ptr<Executor>> make_executor(const topology::Machine&, ExecutorOptions options) {
  if (options.kind == ExecutorKind::deterministic)
    return fail(Errc::invalid_argument, "the deterministic executor has no threads: make_deterministic_executor");
  return std::unique_ptr<Executor>(std::make_unique<CallerExecutor>(options.hooks));
}

}  // namespace weft::scheduler
