// SPDX-License-Identifier: Apache-2.0

#include "agent/journal_flusher.hpp"

#include "core/log.hpp"
#include "core/out_of_memory.hpp"

#include <algorithm>
#include <utility>

namespace weft::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Longest time for which records stay in the process's own memory before they are handed to the system.
constexpr nanoseconds kHandOver = milliseconds(20);
constexpr nanoseconds kFirstPause = milliseconds(20), kLongestPause = milliseconds(1000);

}  // namespace

nanoseconds steady_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

JournalFlusher::JournalFlusher(storage::JournalWriter& journal, DurableWatermark acknowledgements, Options options,
                               LogPosition start)
    : journal_(journal),
      acknowledgements_(std::move(acknowledgements)),
      options_(std::move(options)),
      latest_(start),
      acknowledged_(start) {
  last_sync_ = options_.now();
  // With durability tick the calls wait for the device themselves, so nothing is left for a thread.
  if (options_.background && options_.durability.mode != Durability::Mode::tick)
    thread_ = std::thread([this] { work(); });
}

JournalFlusher::~JournalFlusher() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  wakes_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void JournalFlusher::appended(LogPosition position) {
  {
    const std::lock_guard lock(mutex_);
    latest_ = position;
  }
  if (thread_.joinable()) {
    // Pairs with the store in work: a sleeping flusher is woken once. A wake lost between its look at the journal and
    // its sleep costs the length of that sleep, no more.
    if (sleeps_.load(std::memory_order_acquire) && sleeps_.exchange(false)) wakes_.notify_all();
    return;
  }
  // Failures are noted and tried again; the agent goes on.
  if (const Status done = commit(wants_sync(), false); !done) return;
}

bool JournalFlusher::wants_sync() const {
  switch (options_.durability.mode) {
    case Durability::Mode::tick:
      return true;
    case Durability::Mode::interval: {
      const std::lock_guard lock(mutex_);
      return options_.now() - last_sync_ >= options_.durability.interval;
    }
    case Durability::Mode::checkpoint:
      break;
  }
  return false;
}

Status JournalFlusher::flush() { return commit(true, true); }

Status JournalFlusher::commit(bool sync, bool now) {
  const std::lock_guard one_at_a_time(committing_);
  LogPosition position;
  {
    const std::lock_guard lock(mutex_);
    if (!now && last_error_ && options_.now() < next_try_) return fail(Errc::storage, *last_error_);
    position = latest_;
  }
  const std::uint64_t before = journal_.synced();
  Status done = journal_.commit(sync);
  if (done && sync && journal_.synced() > before) acknowledgements_.note(journal_.synced());
  const std::lock_guard lock(mutex_);
  if (done) {
    if (last_error_) log_warn("the journal is written again; nothing was lost meanwhile");
    last_error_.reset();
    pause_ = nanoseconds(0);
    if (!sync) return done;
    last_sync_ = options_.now();
    if (gap_ == 0 && position.record > acknowledged_.record) acknowledged_ = position;
    return done;
  }
  failures_.fetch_add(1, std::memory_order_relaxed);
  if (!last_error_)
    log_warn("the journal cannot be written, the agent goes on and tries again: " + done.error().text());
  last_error_ = done.error().text();
  pause_ = std::clamp(pause_ * 2, kFirstPause, kLongestPause);
  next_try_ = options_.now() + pause_;
  return done;
}

void JournalFlusher::checkpointed(LogPosition position) {
  const std::lock_guard one_at_a_time(committing_);
  // Records that wait are written all the same, because replays from older checkpoints need them.
  acknowledgements_.note(position.record);
  const std::lock_guard lock(mutex_);
  if (position.record >= gap_) gap_ = 0;
  if (position.record > acknowledged_.record) acknowledged_ = position;
}

LogPosition JournalFlusher::acknowledged() const {
  const std::lock_guard lock(mutex_);
  return acknowledged_;
}

void JournalFlusher::drop(std::uint64_t record) {
  const std::lock_guard one_at_a_time(committing_);
  journal_.forget(record);
  const std::lock_guard lock(mutex_);
  gap_ = record;
}

bool JournalFlusher::has_gap() const {
  const std::lock_guard lock(mutex_);
  return gap_ != 0;
}

std::optional<std::string> JournalFlusher::last_error() const {
  const std::lock_guard lock(mutex_);
  return last_error_;
}

void JournalFlusher::work() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (stops_) return;
      // Records that are not synced yet, or were never, want another look; with none it sleeps until it is woken.
      const bool idles = options_.durability.mode == Durability::Mode::checkpoint ? journal_.written() == latest_.record
                                                                                  : journal_.synced() == latest_.record;
      sleeps_.store(idles, std::memory_order_release);  // pairs with the load in appended
      wakes_.wait_for(lock, idles ? kLongestPause : kHandOver);
      if (stops_) return;
    }
    if (journal_.waiting_bytes() == 0) continue;
    if (const Status done = or_out_of_memory([this] { return commit(wants_sync(), false); }); !done) continue;
  }
}

}  // namespace weft::agent
