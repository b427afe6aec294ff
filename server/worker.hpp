// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace weft::server {

/// A thread for work that takes long, such as loading a mesh, one piece after another.
/// @thread any
class Worker {
 public:
  explicit Worker(std::size_t capacity = 32);
  ~Worker() { stop(); }
  /// Ends what is being done, and drops what waits.
  void stop();
  /// False: the queue is full, or the worker ends.
  bool submit(std::function<void()> work);

 private:
  void run();

  const std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace weft::server
