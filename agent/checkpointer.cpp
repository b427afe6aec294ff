// SPDX-License-Identifier: Apache-2.0

#include "agent/checkpointer.hpp"

#include "core/json.hpp"
#include "core/log.hpp"
#include "core/out_of_memory.hpp"

#if defined(__linux__)
#include <sys/resource.h>
#include <sys/syscall.h>

#include <unistd.h>
#endif

#include <utility>

namespace weft::agent {
namespace {

/// Niceness of the writing thread. With no idle core it takes 1.5 % of one (15 parts in 1024) instead of half, because
/// a step waits for its slowest thread. With an idle core it runs at full speed.
[[maybe_unused]] constexpr int kNice = 19;

void be_modest() noexcept {
#if defined(__linux__)
  // Linux lowers one thread by its number; where it does not, checkpoints are written sooner and ticks wait longer.
  if (setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice) != 0)
    log_info("checkpoints are written at the priority of the ticks");
#endif
}

}  // namespace

Checkpointer::Checkpointer(storage::CheckpointStore& store, std::function<void()> before,
                           std::function<void(LogPosition)> done, bool background, Now now)
    : store_(store), before_(std::move(before)), done_(std::move(done)), now_(std::move(now)) {
  if (background) thread_ = std::thread([this] { work(); });
}

Checkpointer::~Checkpointer() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool Checkpointer::is_busy() const {
  const std::lock_guard lock(mutex_);
  return is_writing_;
}

void Checkpointer::start(Job job, bool awaited) {
  const bool beside = thread_.joinable() && !awaited;
  {
    const std::lock_guard lock(mutex_);
    WEFT_ASSERT(!is_writing_, "a checkpoint is being written");
    is_writing_ = true;
    if (beside) job_ = std::move(job);
  }
  if (beside)
    changed_.notify_all();
  else
    write(std::move(job));
}

Status Checkpointer::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !is_writing_; });
  return last_;
}

CheckpointStatistics Checkpointer::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

std::optional<std::string> Checkpointer::last_error() const {
  const std::lock_guard lock(mutex_);
  return last_ ? std::nullopt : std::optional<std::string>(last_.error().text());
}

void Checkpointer::work() {
  be_modest();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stops_ || job_; });
    // One that was begun is brought to its end: its pause was paid for.
    if (!job_) return;
    Job job = std::move(*job_);
    job_.reset();
    lock.unlock();
    write(std::move(job));
    lock.lock();
  }
}

void Checkpointer::write(Job job) {
  const auto begin = now_();
  std::uint64_t bytes = 0;
  Status done = or_out_of_memory([&]() -> Status {
    WEFT_CHECK(store(job, bytes));
    done_(job.at);
    return {};
  });
  const std::lock_guard lock(mutex_);
  if (done)
    statistics_ = {job.at, job.pause, now_() - begin, bytes, statistics_.written + 1, statistics_.failed};
  else
    ++statistics_.failed;
  (void)or_out_of_memory([&]() -> Status {
    if (done && !last_)
      log_warn("checkpoints are written again, the last one at tick " + std::to_string(job.at.tick));
    else if (!done && last_)
      log_warn("no checkpoint could be written at tick " + std::to_string(job.at.tick) +
               ", the agent goes on and tries again: " + done.error().text());
    return {};
  });
  last_ = std::move(done);
  is_writing_ = false;
  changed_.notify_all();
}

Status Checkpointer::store(const Job& job, std::uint64_t& bytes) {
  WEFT_TRY(const Content content, job.encode());
  bytes = content.file.size();
  WEFT_TRY(const auto info, parse_json(content.info, "checkpoint info"));
  before_();
  return store_.write({job.at.tick, job.at.record}, {{kAgentFile, content.file}}, info);
}

}  // namespace weft::agent
