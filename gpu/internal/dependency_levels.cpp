// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/dependency_levels.hpp"

#include <algorithm>
#include <iterator>

namespace weft::gpu {
namespace {

// A matrix with gaps and more rows than this counts whole: a level more, never a hazard less.
constexpr std::uint64_t kMostRows = 1024;

template <class Body>
void for_rows(DependencyLevels::Ranges ranges, const Body& body) {
  for (const Range& range : ranges) {
    if (range.begin >= range.end) continue;
    if (range.stride == 0 || (range.end - range.begin) / range.stride >= kMostRows) {
      body(range.begin, range.end);
    } else {
      for (std::uint64_t at = range.begin; at < range.end; at += range.stride) body(at, at + range.row_bytes);
    }
  }
}

}  // namespace

DependencyLevels::Segments::iterator DependencyLevels::first_after(std::uint64_t begin) {
  const auto next = segments_.upper_bound(begin);
  if (next == segments_.begin()) return next;
  const auto before = std::prev(next);
  return before->second.end > begin ? before : next;
}

std::uint32_t DependencyLevels::latest(Access access, std::uint64_t begin, std::uint64_t end) {
  std::uint32_t latest = 0;
  for (auto at = first_after(begin); at != segments_.end() && at->first < end; ++at) {
    const LastUse& use = at->second.last;
    latest = std::max(latest, use.write);
    if (access != Access::read) latest = std::max(latest, use.read);
    if (access != Access::flag) latest = std::max(latest, use.flag);
  }
  return latest;
}

void DependencyLevels::touch(Access access, std::uint32_t level, std::uint64_t begin, std::uint64_t end) {
  const auto after = [&](LastUse use) {
    if (access == Access::write) return LastUse{level, 0, 0};
    std::uint32_t& last = access == Access::read ? use.read : use.flag;
    last = std::max(last, level);
    return use;
  };
  auto at = first_after(begin);
  if (at != segments_.end() && at->first <= begin && at->second.end >= end && after(at->second.last) == at->second.last)
    return;
  if (at != segments_.end() && at->first < begin) {
    const Segment rest = at->second;
    at->second.end = begin;
    at = segments_.emplace_hint(std::next(at), begin, rest);
  }
  for (std::uint64_t done = begin; done < end;) {
    if (at == segments_.end() || at->first > done) {
      const std::uint64_t gap = at == segments_.end() ? end : std::min(end, at->first);
      at = segments_.emplace_hint(at, done, Segment{gap, after({})});
    } else {
      if (at->second.end > end) {
        segments_.emplace_hint(std::next(at), end, at->second);
        at->second.end = end;
      }
      at->second.last = after(at->second.last);
    }
    done = at->second.end;
    ++at;
  }
  merge(first_after(begin), end);
}

void DependencyLevels::merge(Segments::iterator from, std::uint64_t end) {
  if (from != segments_.begin()) --from;
  for (auto next = std::next(from); next != segments_.end() && from->first < end;) {
    if (from->second.end == next->first && from->second.last == next->second.last) {
      from->second.end = next->second.end;
      next = segments_.erase(next);
    } else {
      from = next++;
    }
  }
}

std::uint32_t DependencyLevels::place(Ranges reads, Ranges writes, Ranges flags, const Range& word) {
  std::uint32_t last = 0;
  const auto see = [&](Access access, Ranges ranges) {
    for_rows(ranges,
             [&](std::uint64_t begin, std::uint64_t end) { last = std::max(last, latest(access, begin, end)); });
  };
  see(Access::read, reads);
  see(Access::read, {word});
  see(Access::write, writes);
  see(Access::flag, flags);
  const std::uint32_t level = last + 1;
  const auto mark = [&](Access access, Ranges ranges) {
    for_rows(ranges, [&](std::uint64_t begin, std::uint64_t end) { touch(access, level, begin, end); });
  };
  mark(Access::read, reads);
  mark(Access::read, {word});
  mark(Access::flag, flags);
  mark(Access::write, writes);
  count_ = std::max(count_, level);
  return level;
}

bool DependencyLevels::join(std::uint32_t level, Ranges reads, Ranges writes) {
  std::uint32_t last = 0;
  for_rows(reads,
           [&](std::uint64_t begin, std::uint64_t end) { last = std::max(last, latest(Access::read, begin, end)); });
  for_rows(writes,
           [&](std::uint64_t begin, std::uint64_t end) { last = std::max(last, latest(Access::write, begin, end)); });
  if (last >= level) return false;
  for_rows(reads, [&](std::uint64_t begin, std::uint64_t end) { touch(Access::read, level, begin, end); });
  for_rows(writes, [&](std::uint64_t begin, std::uint64_t end) { touch(Access::write, level, begin, end); });
  return true;
}

std::uint32_t DependencyLevels::written(const Range& range) {
  std::uint32_t last = 0;
  for_rows({range},
           [&](std::uint64_t begin, std::uint64_t end) { last = std::max(last, latest(Access::read, begin, end)); });
  return last;
}

bool DependencyLevels::flag(std::uint32_t level, const Range& word) {
  if (latest(Access::flag, word.begin, word.end) >= level) return false;
  touch(Access::flag, level, word.begin, word.end);
  return true;
}

}  // namespace weft::gpu
