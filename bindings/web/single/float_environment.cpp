// SPDX-License-Identifier: Apache-2.0
// WebAssembly always rounds to nearest even and has no mode that flushes subnormal numbers: arithmetic.hpp does that
// in fused multiply-adds.

#include "kernels/float_environment.hpp"

namespace weft::kernels {

FlushSubnormals::FlushSubnormals() noexcept : saved_(0) {}
FlushSubnormals::~FlushSubnormals() = default;

// Nothing tells of subnormal numbers, so nothing proves that there were none.
std::optional<bool> take_flushed_results() noexcept { return true; }

bool flushes_subnormals() noexcept {
  volatile float smallest_normal = 0x1p-126f, half = 0.5f;
  return smallest_normal * half == 0.0f;
}

}  // namespace weft::kernels
