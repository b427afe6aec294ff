// SPDX-License-Identifier: Apache-2.0

#include "mesh/memory/byte_ranges.hpp"

#include <algorithm>
#include <utility>

namespace weft::mesh {
namespace {

// The first range of `a` that ends after `place`.
ByteRanges::const_iterator first_after(const ByteRanges& a, std::uintptr_t place) {
  return std::upper_bound(a.begin(), a.end(), place,
                          [](std::uintptr_t at, const ByteRange& range) { return at < range.end; });
}

}  // namespace

ByteRanges set_of(std::vector<ByteRange> ranges) {
  std::erase_if(ranges, [](const ByteRange& range) { return range.begin >= range.end; });
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  ByteRanges set;
  for (const ByteRange& range : ranges) {
    if (!set.empty() && range.begin <= set.back().end)
      set.back().end = std::max(set.back().end, range.end);
    else
      set.push_back(range);
  }
  return set;
}

ByteRanges united(const ByteRanges& a, const ByteRanges& b) {
  ByteRanges both = a;
  both.insert(both.end(), b.begin(), b.end());
  return set_of(std::move(both));
}

ByteRanges common(const ByteRanges& a, const ByteRanges& b) {
  ByteRanges set;
  for (const ByteRange& range : a)
    for (auto at = first_after(b, range.begin); at != b.end() && at->begin < range.end; ++at)
      set.push_back({std::max(range.begin, at->begin), std::min(range.end, at->end)});
  return set;
}

ByteRanges without(const ByteRanges& a, const ByteRanges& b) {
  ByteRanges set;
  for (const ByteRange& range : a) {
    std::uintptr_t done = range.begin;
    for (auto at = first_after(b, range.begin); at != b.end() && at->begin < range.end; ++at) {
      if (at->begin > done) set.push_back({done, at->begin});
      done = at->end;
    }
    if (done < range.end) set.push_back({done, range.end});
  }
  return set;
}

ByteRanges bridged(const ByteRanges& a, std::size_t gap, const ByteRanges& spared) {
  ByteRanges set;
  for (const ByteRange& range : a) {
    if (!set.empty() && range.begin - set.back().end <= gap) {
      const auto between = first_after(spared, set.back().end);
      if (between == spared.end() || between->begin >= range.begin) {
        set.back().end = range.end;
        continue;
      }
    }
    set.push_back(range);
  }
  return set;
}

std::size_t size_of(const ByteRanges& a) noexcept {
  std::size_t bytes = 0;
  for (const ByteRange& range : a) bytes += range.end - range.begin;
  return bytes;
}

}  // namespace weft::mesh
