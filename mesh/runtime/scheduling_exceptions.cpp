// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/scheduling_exceptions.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace weft::mesh {

const SchedulingExceptions::Found& SchedulingExceptions::now() const {
  constexpr std::uint64_t kLongest = std::uint64_t{1} << 32;  // of a period that is worked out
  if (!registry_) return found_;                              // a copy beside the mesh, which has no cells
  const std::uint64_t changes = registry_->changes();
  if (changes == found_.seen) return found_;
  Found all;
  all.fire_always = true;
  std::set<std::uint64_t> periods;
  StateHasher who;
  for (const auto& cell : cells_) {
    if (cell->is_reset_pending()) all.first_command = 0;
    if (!cell->deferred().empty())
      all.first_command = std::min(all.first_command, cell->deferred().front()->not_before);
    all.fire_always &= cell->is_enabled() && cell->period() == 1;
    if (cell->is_enabled() && cell->period() == 1 && !cell->is_marked()) continue;
    if (cell->is_enabled() && cell->is_marked()) all.marked.push_back(cell->period());
    if (cell->is_enabled() && cell->period() != 1) periods.insert(cell->period());
    for (const std::uint64_t word : {std::uint64_t{cell->id()}, cell->is_enabled() ? cell->period() : 0,
                                     std::uint64_t{registry_->status(cell->id()) == actors::ActorStatus::isolated}})
      who.add(word);
  }
  all.periods.assign(periods.begin(), periods.end());
  for (const std::uint64_t period : periods)
    all.period = std::max(all.period, period) > kLongest ? UINT64_MAX : std::lcm(all.period, period);
  all.who = who.digest();
  all.seen = changes;
  return found_ = std::move(all);
}

std::uint64_t SchedulingExceptions::steady_ticks(std::uint64_t tick) const {
  const Found& found = now();
  if (found.first_command <= tick) return 0;
  std::uint64_t quiet = found.first_command == UINT64_MAX ? UINT64_MAX : found.first_command - tick;
  for (const std::uint64_t period : found.marked) quiet = std::min(quiet, (period - tick % period) % period);
  return quiet;
}

void SchedulingExceptions::add_firing(std::uint64_t tick, std::uint64_t ticks, StateHasher& hasher) const {
  const Found& found = now();
  hasher.add(found.who);
  for (const std::uint64_t period : found.periods)
    for (std::uint64_t t = tick; t < tick + ticks; ++t) hasher.add(std::uint64_t{t % period == 0});
}

}  // namespace weft::mesh
