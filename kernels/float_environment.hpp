// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>

namespace weft::kernels {

/// While one exists, this thread's arithmetic is the contract's (docs/numerics.md): round to nearest even, subnormal
/// inputs and results are signed zero, no trap. The thread's own setting comes back when it dies; they nest. RISC-V
/// cannot flush: there it sets the rounding alone.
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
#if defined(__aarch64__)
  std::uint64_t status_;  // the caller's flags of exceptions
#endif
};

/// True when this thread's arithmetic follows the contract now, tested by computing.
bool flushes_subnormals() noexcept;

/// AArch64 flushes a few results that the contract keeps (docs/numerics.md, the tininess corner). False: no thread of
/// this process has flushed any result since the last call, so all of its results are the contract's. True: some were,
/// and one in a great many of those may differ. Counts what ran inside a FlushSubnormals that has ended. On RISC-V
/// always true: subnormal numbers stay, and no flag tells of exact ones. Elsewhere: no value, as nothing differs.
/// @thread any
std::optional<bool> take_flushed_results() noexcept;

}  // namespace weft::kernels
