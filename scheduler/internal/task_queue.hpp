// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/internal/wait.hpp"
#include "scheduler/team.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace weft::scheduler::internal {

/// Queue into which one thread posts tasks and others take them. A word holds the number of the posting and the first
/// and the last task that nobody has taken; who moves that word on owns a task, and until its task is done the poster
/// cannot go on, so the other members do not change meanwhile. One exchange to take a task, one addition to report it
/// done, no lock. The poster takes tasks from the front and others from the back: of two threads each gets the same
/// part of every posting, and finds in its cache what it wrote there in the last one.
class TaskQueue {
 public:
  static constexpr std::size_t kMostTasks = 0xffff;

  /// @thread the poster's; every posting is followed by work() and await()
  void post(std::size_t count, Team::Body body, void* context) noexcept {
    body_ = body;
    context_ = context;
    count_ = static_cast<std::uint32_t>(count);
    done_.store(0, std::memory_order_relaxed);
    const std::uint64_t posting = (word_.load(std::memory_order_relaxed) >> 32) + 1;
    // Release: pairs with the exchange in work.
    word_.store(posting << 32 | std::uint64_t{count} << 16, std::memory_order_release);
  }

  /// Does tasks as long as there are any; how many. `is_poster`: from the front.
  std::size_t work(bool is_poster) noexcept {
    std::size_t tasks = 0;
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint64_t next = word & 0xffff, end = word >> 16 & 0xffff;
      if (next >= end) break;
      const std::uint64_t left = is_poster ? word + 1 : word - (std::uint64_t{1} << 16);
      if (!word_.compare_exchange_weak(word, left, std::memory_order_acquire, std::memory_order_relaxed)) continue;
      body_(context_, is_poster ? next : end - 1);
      done_.fetch_add(1, std::memory_order_release);  // pairs with the acquire in await
      ++tasks;
      word = word_.load(std::memory_order_relaxed);
    }
    return tasks;
  }

  /// Returns when every task of the last posting is done. No task is long, so this spins.
  void await() const noexcept {
    for (std::uint32_t tries = 0; done_.load(std::memory_order_acquire) != count_; ++tries)
      tries < 4096 ? pause() : std::this_thread::yield();
  }

 private:
  alignas(128) std::atomic<std::uint64_t> word_{0};
  // Written by the poster while no task is out.
  Team::Body body_ = nullptr;
  void* context_ = nullptr;
  std::uint32_t count_ = 0;
  alignas(128) std::atomic<std::uint32_t> done_{0};
};

}  // namespace weft::scheduler::internal
