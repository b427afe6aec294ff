// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace weft::kernels {

/// While one exists, this thread's arithmetic is the contract's (docs/numerics.md): round to nearest even, subnormal
/// inputs and results are signed zero, no trap. The thread's own setting comes back when it dies; they nest.
/// Kernels expect one to live around them and don't set it themselves: a worker thread makes one when it starts.
/// @thread affects the constructing thread alone; destroy it there
class FlushSubnormals {
 public:
  FlushSubnormals() noexcept;
  ~FlushSubnormals();
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  std::uint64_t saved_;
};

/// True when this thread's arithmetic follows the contract now, tested by computing.
bool flushes_subnormals() noexcept;

}  // namespace weft::kernels
