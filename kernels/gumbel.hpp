// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::kernels {

/// Floats of the hidden state that says where a row's noise stands: a counter of 48 bits and a stream's number of 48
/// bits, in integers of 24 bits, the low ones first. A stream number of 0 is a row that never drew: it takes its own
/// index + 1, and keeps it. What is no such integer counts as 0.
inline constexpr std::size_t kNoiseState = 4;

/// y = x + g with standard Gumbel noise g = -log(-log u), one Philox number an element; the counter goes up by one.
/// The noise is a function of key, stream, counter and column alone; -2.812 < g < 16.64. y may be x, next_state state.
/// @shape  x, y [rows, cols], cols <= 2^36; state, next_state [rows, kNoiseState]
/// @exact  integers, two logs, one subtraction (docs/numerics.md, section 11)
/// @source Gumbel 1954, "Statistical theory of extreme values"; Salmon et al. 2011, "Parallel random numbers", SC'11
void gumbel_noise(const ConstMatrixView& x, std::array<std::uint32_t, 2> key, const ConstMatrixView& state,
                  const MatrixView& next_state, const MatrixView& y) noexcept;

/// y = 1 at the first of a row's largest elements, 0 elsewhere; y may be x. A row that holds a NaN becomes NaN.
/// @shape  x, y [rows, cols], cols >= 1
/// @exact  comparisons
void argmax_one_hot(const ConstMatrixView& x, const MatrixView& y) noexcept;

}  // namespace weft::kernels
