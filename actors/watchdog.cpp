// SPDX-License-Identifier: Apache-2.0

#include "actors/watchdog.hpp"

#include "core/out_of_memory.hpp"

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace weft::actors {
namespace {

using std::chrono::nanoseconds;

constexpr std::string_view kNames[] = {"report", "abort"};
constexpr int kLooksPerLimit = 8;
constexpr nanoseconds kShortestPeriod = std::chrono::microseconds(200), kLongestPeriod = std::chrono::seconds(1);
constexpr std::uint64_t kFadeAt = 4096;  // samples; then old ones count half

nanoseconds period_of(nanoseconds limit) {
  return limit > nanoseconds(0) ? std::clamp(limit / kLooksPerLimit, kShortestPeriod, kLongestPeriod) : kLongestPeriod;
}

}  // namespace

std::string_view name(OnHang answer) noexcept { return kNames[static_cast<std::size_t>(answer)]; }

std::optional<OnHang> parse_on_hang(std::string_view text) noexcept {
  for (std::uint32_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == text) return static_cast<OnHang>(i);
  return std::nullopt;
}

HangDetector::HangDetector(const ActivityTable& activity, nanoseconds limit, nanoseconds longest_gap)
    : activity_(activity), limit_(limit), longest_gap_(longest_gap), watched_(activity.size()) {}

void HangDetector::look(nanoseconds now, const std::function<void(const Hang&)>& report) {
  const nanoseconds passed = last_ ? std::clamp(now - *last_, nanoseconds(0), longest_gap_) : nanoseconds(0);
  last_ = now;
  for (std::size_t worker = 0; worker < watched_.size(); ++worker) {
    Watched& watched = watched_[worker];
    const ActivityTable::Place place = activity_.at(worker);
    const auto hang = [&](bool is_over) {
      return Hang{worker, watched.place.actor, watched.place.tick, watched.stood, is_over};
    };
    if (place.mark != watched.place.mark || place.is_idle()) {
      if (watched.is_told) report(hang(true));
      watched = {place, nanoseconds(0), false};
      continue;
    }
    watched.stood += passed;
    watched.place.tick = place.tick;  // at the first look it may have been on its way
    if (watched.is_told || watched.stood < limit_) continue;
    watched.is_told = true;
    report(hang(false));
  }
}

std::vector<Hang> HangDetector::hanging() const {
  std::vector<Hang> all;
  for (std::size_t worker = 0; worker < watched_.size(); ++worker) {
    const Watched& watched = watched_[worker];
    if (watched.is_told) all.push_back({worker, watched.place.actor, watched.place.tick, watched.stood, false});
  }
  return all;
}

Watchdog::Watchdog(const ActivityTable& activity, std::size_t actors, WatchdogOptions options)
    : activity_(activity),
      options_(std::move(options)),
      period_(period_of(options_.limit)),
      counts_(actors),
      detector_(activity, options_.limit, 2 * period_) {
  // Signals are for the threads of its creator.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { watch(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard hold(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::watch() {
  const bool watches = options_.limit > nanoseconds(0);
  std::uint64_t random = 0x9E3779B97F4A7C15u;
  Clock::time_point next_look = Clock::now();
  std::unique_lock hold(mutex_);
  while (!stops_) {
    Clock::time_point now = Clock::now();
    if (samples_until_ && *samples_until_ <= now) samples_until_.reset();
    if (!watches && !samples_until_) {
      changed_.wait(hold, [&] { return stops_ || samples_until_; });
      continue;
    }
    Clock::time_point wake = watches ? next_look : Clock::time_point::max();
    if (samples_until_) {
      // Every millisecond on average, but in no rhythm: a tick may have one of its own.
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      wake = std::min(wake, now + std::chrono::microseconds(500 + (random >> 32) % 1001));
    }
    const bool sampled = samples_until_.has_value();
    changed_.wait_until(hold, wake, [&] { return stops_ || samples_until_.has_value() != sampled; });
    if (stops_) break;
    now = Clock::now();
    if (samples_until_) sample();
    if (!watches || now < next_look) continue;
    next_look = now + period_;
    hold.unlock();  // who is told may ask for shares
    (void)or_out_of_memory([&]() -> Status {
      look(now);
      return {};
    });
    hold.lock();
    (void)or_out_of_memory([&]() -> Status {
      hanging_ = detector_.hanging();
      return {};
    });
  }
}

void Watchdog::look(Clock::time_point now) {
  detector_.look(now.time_since_epoch(), [&](const Hang& hang) {
    if (!hang.is_over) hangs_.fetch_add(1, std::memory_order_relaxed);
    if (options_.told) options_.told(hang);
    if (!hang.is_over && options_.on_hang == OnHang::abort) std::abort();
  });
}

void Watchdog::sample() {
  for (std::size_t worker = 0; worker < activity_.size(); ++worker) {
    const ActivityTable::Place place = activity_.at(worker);
    if (!place.is_idle() && place.actor < counts_.size()) ++counts_[place.actor];
  }
  if (++samples_ < kFadeAt) return;
  samples_ /= 2;
  for (std::uint32_t& count : counts_) count /= 2;
}

std::vector<Hang> Watchdog::hanging() const {
  const std::lock_guard hold(mutex_);
  return hanging_;
}

void Watchdog::sample_for(nanoseconds time) {
  {
    const std::lock_guard hold(mutex_);
    const Clock::time_point until = Clock::now() + time;
    // Samples of an hour ago say nothing about now.
    if (!samples_until_) std::fill(counts_.begin(), counts_.end(), 0u), samples_ = 0;
    samples_until_ = std::max(samples_until_.value_or(until), until);
  }
  changed_.notify_all();
}

std::vector<Watchdog::Share> Watchdog::busiest(std::size_t most) const {
  const std::lock_guard hold(mutex_);
  std::vector<ActorId> order(counts_.size());
  std::iota(order.begin(), order.end(), ActorId{0});
  most = std::min(most, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(most), order.end(),
                    [&](ActorId a, ActorId b) { return counts_[a] != counts_[b] ? counts_[a] > counts_[b] : a < b; });
  std::vector<Share> shares;
  const double all = static_cast<double>(samples_) * static_cast<double>(activity_.size());
  for (std::size_t i = 0; i < most && counts_[order[i]] > 0; ++i)
    shares.push_back({order[i], static_cast<double>(counts_[order[i]]) / all});
  return shares;
}

}  // namespace weft::actors
