// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/isa.hpp"

namespace weft::kernels {

/// The instruction set whose code runs where a kernel has none of its own for `isa`: avx512 for avx512_vnni and amx,
/// else `isa` itself.
inline Isa general_isa(Isa isa) noexcept { return isa == Isa::avx512_vnni || isa == Isa::amx ? Isa::avx512 : isa; }

}  // namespace weft::kernels
