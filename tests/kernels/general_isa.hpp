// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/isa.hpp"

namespace weft::kernels {

/// The instruction set whose code runs where a kernel has none of its own for `isa`: avx512 for avx512_vnni and amx,
/// neon for neon_dotprod, else `isa` itself.
inline Isa general_isa(Isa isa) noexcept {
  if (isa == Isa::avx512_vnni || isa == Isa::amx) return Isa::avx512;
  return isa == Isa::neon_dotprod ? Isa::neon : isa;
}

}  // namespace weft::kernels
