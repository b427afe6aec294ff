// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/hazards.hpp"

#include <cstddef>

namespace weft::gpu {
namespace {

// Ranges that are remembered before a barrier forgets them all: comparing must stay cheaper than the barrier.
constexpr std::size_t kRemembered = 64;

bool touches(const std::vector<Range>& some, std::initializer_list<Range> others) noexcept {
  for (const Range& a : some)
    for (const Range& b : others)
      if (a.begin < b.end && b.begin < a.end) return true;
  return false;
}

void append(std::vector<Range>& to, std::initializer_list<Range> from) {
  for (const Range& each : from)
    if (each.begin < each.end) to.push_back(each);
}

}  // namespace

bool Hazards::need_barrier_before(const Accesses& accesses) const noexcept {
  const auto& [reads, writes, flags] = accesses;
  return touches(writes_, reads) || touches(writes_, writes) || touches(writes_, flags) || touches(reads_, writes) ||
         touches(reads_, flags) || touches(flags_, reads) || touches(flags_, writes) ||
         reads_.size() + writes_.size() + flags_.size() > kRemembered;
}

void Hazards::remember(const Accesses& accesses) {
  append(reads_, accesses.reads);
  append(writes_, accesses.writes);
  append(flags_, accesses.flags);
}

void Hazards::clear() noexcept {
  reads_.clear();
  writes_.clear();
  flags_.clear();
}

}  // namespace weft::gpu
