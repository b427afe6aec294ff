// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/gumbel.hpp"
#include "kernels/views.hpp"

#include <array>
#include <cstdint>

namespace weft::kernels {

/// mask = 0 where the column's Philox word is below `threshold` (a chance of threshold / 2^32), `scale` elsewhere; the
/// counter goes up by one. A function of key, stream, counter and column alone, in the words that gumbel_noise draws.
/// @shape  mask [rows, cols], cols <= 2^36; state, next_state [rows, kNoiseState]; next_state may be state
/// @exact  integers and comparisons (docs/numerics.md, section 11)
/// @source Srivastava et al. 2014, "Dropout", JMLR 15; Salmon et al. 2011, "Parallel random numbers", SC'11
void dropout_mask(std::array<std::uint32_t, 2> key, const ConstMatrixView& state, const MatrixView& next_state,
                  std::uint32_t threshold, float scale, const MatrixView& mask) noexcept;

}  // namespace weft::kernels
