// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/executor.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::mesh::internal {

/// Work of one call that an executor's threads share, such as rows that stand alone.
/// @param body  called once, with the team or, where nobody helps, null; it throws nothing
/// @thread as Executor::run; all that the team wrote is visible afterwards
template <class Body>
void with_team(scheduler::Executor& executor, const Body& body) noexcept {
  class Program final : public scheduler::TickProgram {
   public:
    explicit Program(const Body& own) : body_(own) {}
    std::size_t region_count() const noexcept override { return 1; }
    std::span<const std::uint32_t> neighbours(std::size_t) const noexcept override { return {}; }
    void run_interior(std::size_t, std::uint64_t) noexcept override { body_(team_); }
    void run_boundary(std::size_t, std::uint64_t) noexcept override {}
    std::uint64_t block() const noexcept override { return 0; }
    bool wants_team() const noexcept override { return true; }
    void use_team(scheduler::Team* team) noexcept override { team_ = team; }

   private:
    const Body& body_;
    scheduler::Team* team_ = nullptr;
  };
  Program program(body);
  executor.run(program, 1);
}

}  // namespace weft::mesh::internal
