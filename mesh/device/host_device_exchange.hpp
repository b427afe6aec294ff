// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/memory/byte_ranges.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::mesh {

/// Tracks, for a mesh of which a device runs some cells and the host the others, who touches which bytes of the host's
/// memory or of its device copy, and so the ranges to transfer after a step.
///
/// Halo exchange between host and device. Memory that the host touches is current on the host, all other memory on the
/// device, and memory that both touch on both after each step. Ports are written by both and never transferred.
class HostDeviceExchange {
 public:
  /// A step that is recorded: what it may write, and what therefore crosses.
  struct Step {
    ByteRanges host_writes, device_writes;
    ByteRanges in, out;         // to the device, to the host
    std::uint64_t made_at = 0;  // the count of changes that `in` and `out` know
    std::uint64_t kept_at = 0;  // the epoch in which the host's copy of what it overwrites was kept
  };
  /// Ranges to transfer at once, before a step may touch them for the first time.
  struct PendingTransfers {
    ByteRanges in, out;
  };

  /// A step touches these.
  PendingTransfers meet(const ByteRanges& by_host, const ByteRanges& by_device);
  /// Makes `in` and `out` anew where they are not what they should be.
  void refresh(Step& step) const;
  /// Ranges that the host touches.
  const ByteRanges& by_host() const noexcept { return by_host_; }

  /// Epoch of the kept ranges: the number of the last `forget`.
  std::uint64_t epoch() const noexcept { return epoch_; }
  /// Keeps what stands there, for `take_back`, unless it was kept since `forget`.
  void keep(const ByteRanges& ranges);
  /// The same for all that a step overwrites on the host.
  void keep(Step& step);
  /// The host's memory as it was at `forget`.
  void take_back() noexcept;
  /// From now on that is what stands there now.
  void forget() noexcept;

 private:
  ByteRanges by_host_, by_device_;
  std::uint64_t changes_ = 1;
  ByteRanges kept_;  // all of `kept_ranges_`
  std::vector<ByteRange> kept_ranges_;
  std::vector<std::byte> bytes_;  // of these ranges
  std::uint64_t epoch_ = 1;       // 0: none
};

}  // namespace weft::mesh
