// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/range.hpp"

#include <cstdint>
#include <initializer_list>
#include <map>

namespace weft::gpu {

/// Puts operations, in their order, on levels: each on the first that comes after all whose effects it must see or must
/// not disturb. What stands on one level may run in any order.
///
/// Memory is kept as segments whose bytes were last touched on the same levels; neighbours that agree become one, so
/// that a tick of many equal cells is a handful of segments however many cells there are.
class DependencyLevels {
 public:
  using Ranges = std::initializer_list<Range>;
  /// The level, from 1, of the next operation. `flags` are or-ed atomically: they commute with each other only.
  /// `word`: one more range that it reads.
  std::uint32_t place(Ranges reads, Ranges writes, Ranges flags, const Range& word = {});
  /// One more flag of an operation that stands on `level`; false, and nothing changes, where it must come later.
  bool flag(std::uint32_t level, const Range& word);
  /// More that an operation on `level` reads and writes; false, and nothing changes, where it must come later for it.
  bool join(std::uint32_t level, Ranges reads, Ranges writes);
  /// Level of the last write to a range; 0: none.
  std::uint32_t written(const Range& range);
  std::uint32_t count() const noexcept { return count_; }
  std::size_t segments() const noexcept { return segments_.size(); }

 private:
  /// Levels of the last write, and of the last reads and flags after it; 0 for none.
  struct LastUse {
    std::uint32_t write = 0, read = 0, flag = 0;
    bool operator==(const LastUse&) const = default;
  };
  struct Segment {
    std::uint64_t end = 0;
    LastUse last;
  };
  using Segments = std::map<std::uint64_t, Segment>;

  enum class Access { read, write, flag };

  /// The first segment that ends after `begin`.
  Segments::iterator first_after(std::uint64_t begin);
  std::uint32_t latest(Access access, std::uint64_t begin, std::uint64_t end);
  void touch(Access access, std::uint32_t level, std::uint64_t begin, std::uint64_t end);
  void merge(Segments::iterator from, std::uint64_t end);

  Segments segments_;
  std::uint32_t count_ = 0;
};

}  // namespace weft::gpu
