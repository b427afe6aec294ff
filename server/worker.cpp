// SPDX-License-Identifier: Apache-2.0

#include "server/worker.hpp"

#include <signal.h>

#include <utility>

namespace weft::server {

Worker::Worker(std::size_t capacity) : capacity_(capacity) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the program's
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Worker::stop() {
  {
    const std::lock_guard hold(mutex_);
    stops_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  waiting_.clear();  // nothing is added any more
}

bool Worker::submit(std::function<void()> work) {
  {
    const std::lock_guard hold(mutex_);
    if (stops_ || waiting_.size() >= capacity_) return false;
    waiting_.push_back(std::move(work));
  }
  changed_.notify_one();
  return true;
}

void Worker::run() {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock hold(mutex_);
      changed_.wait(hold, [this] { return stops_ || !waiting_.empty(); });
      if (stops_) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work();
  }
}

}  // namespace weft::server
