// SPDX-License-Identifier: Apache-2.0

#include "scheduler/deterministic.hpp"

#include "scheduler/internal/alone.hpp"

#include <algorithm>

namespace weft::scheduler {

DeterministicExecutor::DeterministicExecutor(std::uint64_t seed, ThreadHooks hooks, std::size_t team)
    : seed_(seed), hooks_(hooks), drawn_(seed), team_(seed, team) {}

void DeterministicExecutor::LoneTeam::operator()(std::size_t count, Body body, void* context) noexcept {
  if (count == 0) return;
  const bool is_drawn = seed_ != 0;
  const std::size_t first = is_drawn ? random_.next_below(static_cast<std::uint32_t>(count)) : 0;
  const bool falls = is_drawn && random_.next_below(2) != 0;
  for (std::size_t i = 0; i < count; ++i) body(context, (first + (falls ? count - i : i)) % count);
}

void DeterministicExecutor::begin(TickProgram& program, std::uint64_t n) {
  program_ = &program;
  n_ = n;
  drawn_ = DrawnOrder(seed_);  // the same run again takes the same order
  regions_.assign(program.region_count(), {});
  ready_.clear();
  ready_.reserve(regions_.size());
  const std::uint64_t block = program.block();
  limit_ = regions_.empty() ? 0 : block == 0 ? n : std::min(block, n);
}

std::uint64_t DeterministicExecutor::steps_done() const noexcept {
  std::uint64_t done = n_;
  for (const Region& region : regions_) done = std::min(done, region.progress);
  return done;
}

bool DeterministicExecutor::is_ready(std::size_t r) const noexcept {
  const Region& region = regions_[r];
  if (region.progress >= limit_) return false;
  if (!region.interior_done) return true;
  for (const std::uint32_t neighbour : program_->neighbours(r)) {
    if (regions_[neighbour].progress < region.progress) return false;
  }
  return true;
}

// The next region to work: in order, or drawn among all that may go on. regions_.size() when none may.
std::size_t DeterministicExecutor::pick() noexcept {
  Order* const order = this->order();
  if (!order) {
    // A region that has begun ends its step, then the lowest region that lags.
    std::size_t best = regions_.size();
    for (std::size_t r = 0; r < regions_.size(); ++r) {
      if (regions_[r].progress >= limit_) continue;
      if (regions_[r].interior_done) return r;
      if (best == regions_.size() || regions_[r].progress < regions_[best].progress) best = r;
    }
    return best;
  }
  ready_.clear();
  for (std::size_t r = 0; r < regions_.size(); ++r) {
    if (is_ready(r)) ready_.push_back(static_cast<std::uint32_t>(r));
  }
  if (ready_.empty()) return regions_.size();
  return ready_[order->pick(ready_.size())];
}

// All regions stand at limit_: moves it on unless the run ends here.
bool DeterministicExecutor::open_block() noexcept {
  if (limit_ >= n_ || regions_.empty() || program_->should_stop(limit_)) return false;
  limit_ += std::min(program_->block(), n_ - limit_);
  return true;
}

std::optional<DeterministicExecutor::Event> DeterministicExecutor::next() noexcept {
  if (!program_) return std::nullopt;
  std::size_t r = pick();
  if (r == regions_.size()) {
    if (!open_block()) {
      program_ = nullptr;
      return std::nullopt;
    }
    r = pick();
  }
  Region& region = regions_[r];
  const Event event{static_cast<std::uint32_t>(r), region.progress, region.interior_done};
  program_->use_order(order());
  if (region.interior_done) {
    program_->run_boundary(r, region.progress);
    ++region.progress;
  } else {
    program_->run_interior(r, region.progress);
  }
  program_->use_order(nullptr);
  region.interior_done = !region.interior_done;
  return event;
}

std::uint64_t DeterministicExecutor::run(TickProgram& program, std::uint64_t n) noexcept {
  const internal::HookScope scope(hooks_);
  if (program.region_count() == 1 && program.wants_team() && team_.size() > 1) {
    program.use_team(&team_);
    const std::uint64_t done = internal::run_alone(program, n);
    program.use_team(nullptr);
    return done;
  }
  if (!order()) return internal::run_alone(program, n);
  begin(program, n);
  while (next()) {
  }
  return regions_.empty() ? n : steps_done();
}

std::unique_ptr<Executor> make_deterministic_executor(std::uint64_t seed, ThreadHooks hooks, std::size_t team) {
  return std::make_unique<DeterministicExecutor>(seed, hooks, team);
}

}  // namespace weft::scheduler
