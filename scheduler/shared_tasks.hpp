// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/executor.hpp"

#include <cstddef>
#include <exception>
#include <span>
#include <vector>

namespace weft::scheduler {

/// Runs task(0) ... task(count - 1), in any order, on the executor's threads; returns when all are done.
/// @error what a task throws, of the first one that did; the others are run all the same
template <class Task>
void run_tasks(Executor& executor, std::size_t count, const Task& task) {
  class Program final : public TickProgram {
   public:
    Program(std::size_t count, const Task& task) : task_(task), thrown_(count) {}
    std::size_t region_count() const noexcept override { return 1; }
    std::span<const std::uint32_t> neighbours(std::size_t) const noexcept override { return {}; }
    bool wants_team() const noexcept override { return true; }
    void use_team(Team* team) noexcept override { team_ = team; }
    void run_interior(std::size_t, std::uint64_t) noexcept override {}
    void run_boundary(std::size_t, std::uint64_t) noexcept override {
      const auto body = [](void* self, std::size_t i) { static_cast<Program*>(self)->run_one(i); };
      if (team_) return (*team_)(thrown_.size(), body, this);
      for (std::size_t i = 0; i < thrown_.size(); ++i) run_one(i);
    }
    void throw_first() const {
      for (const std::exception_ptr& each : thrown_)
        if (each) std::rethrow_exception(each);
    }

   private:
    void run_one(std::size_t i) noexcept {
      try {
        task_(i);
      } catch (...) {
        thrown_[i] = std::current_exception();
      }
    }
    const Task& task_;
    std::vector<std::exception_ptr> thrown_;
    Team* team_ = nullptr;
  };
  Program program(count, task);
  executor.run(program, 1);
  program.throw_first();
}

}  // namespace weft::scheduler
