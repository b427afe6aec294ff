// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

namespace weft::kernels::detail {

/// Memory that is its holder's own until the lease ends, 64-byte aligned, contents left over: unlike linear_scratch it
/// stays whole while this thread runs other kernels, as it may inside ParallelFor. Leases of a thread end in the
/// reverse of the order in which they began. Buffers only grow, so a steady state allocates nothing. Without memory the
/// program ends.
/// @thread begins and ends on one thread; others may use the memory meanwhile
class ScratchLease {
 public:
  explicit ScratchLease(std::size_t bytes) noexcept;
  ~ScratchLease();
  ScratchLease(const ScratchLease&) = delete;
  ScratchLease& operator=(const ScratchLease&) = delete;
  std::byte* data() const noexcept { return data_; }

 private:
  std::byte* data_;
};

}  // namespace weft::kernels::detail
