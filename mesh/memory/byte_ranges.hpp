// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::mesh {

/// Memory from one address up to another.
struct ByteRange {
  std::uintptr_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};
inline ByteRange byte_range(const void* data, std::size_t bytes) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  return {begin, begin + bytes};
}

/// A set of bytes: ranges in order, none empty, none touching the next.
using ByteRanges = std::vector<ByteRange>;

/// The set of any ranges.
ByteRanges set_of(std::vector<ByteRange> ranges);
ByteRanges united(const ByteRanges& a, const ByteRanges& b);
ByteRanges common(const ByteRanges& a, const ByteRanges& b);
ByteRanges without(const ByteRanges& a, const ByteRanges& b);
/// `a`, and what lies in gaps of at most `gap` bytes between its ranges where none of it is in `spared`.
ByteRanges bridged(const ByteRanges& a, std::size_t gap, const ByteRanges& spared);
std::size_t size_of(const ByteRanges& a) noexcept;

}  // namespace weft::mesh
