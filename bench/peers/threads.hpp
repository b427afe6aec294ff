// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/float_environment.hpp"

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace weft::bench {

/// The least that runs a kernel on several threads (kernels/parallel_for.hpp): each takes every n-th task and waits,
/// spinning, for the others. For machines that are otherwise idle.
class SpinningThreads {
 public:
  explicit SpinningThreads(std::size_t threads) : threads_(threads) {
    for (std::size_t i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
  }
  ~SpinningThreads() {
    stop_ = true;
    call_.fetch_add(1, std::memory_order_release);
    for (auto& worker : workers_) worker.join();
  }
  SpinningThreads(const SpinningThreads&) = delete;
  SpinningThreads& operator=(const SpinningThreads&) = delete;

  void operator()(std::size_t count, void (*body)(void*, std::size_t), void* context) {
    count_ = count;
    body_ = body;
    context_ = context;
    open_.store(threads_ - 1, std::memory_order_relaxed);
    call_.fetch_add(1, std::memory_order_release);  // pairs with the acquire in work
    for (std::size_t task = 0; task < count; task += threads_) body(context, task);
    while (open_.load(std::memory_order_acquire) != 0) {  // pairs with the release in work
    }
  }

 private:
  void work(std::size_t self) {
    const kernels::FlushSubnormals exact;
    for (std::size_t seen = 0;;) {
      while (call_.load(std::memory_order_acquire) == seen) {
      }
      ++seen;
      if (stop_) return;
      for (std::size_t task = self; task < count_; task += threads_) body_(context_, task);
      open_.fetch_sub(1, std::memory_order_release);
    }
  }

  std::size_t threads_;
  std::size_t count_ = 0;
  void (*body_)(void*, std::size_t) = nullptr;
  void* context_ = nullptr;
  std::atomic<std::size_t> call_{0}, open_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace weft::bench
