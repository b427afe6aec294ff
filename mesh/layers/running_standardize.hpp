// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Standardisation by the mean and variance of the samples so far, each input by its own:
///   s' = d s + 1,  r = 1 / s',  e = x - m,  m' = m + r e,  v' = (1 - r) (v + r e^2)
///   y = (x - m') / sqrt(v' + epsilon)
/// d is `decay` where `kind` is `ema`: a sample n samples ago weighs d^n. It is 1 where `kind` is `welford`: all weigh
/// alike, and s counts them, up to 2^24. m and v are the weighted mean and variance (of n samples, divided by n) from
/// the first sample on. The value is by the moments after its own sample, so its size is below sqrt(s'), and the first
/// is 0. Nothing of it is learned.
///
/// m, v and s are hidden state: one a session, saved, hashed, 0 at the beginning. Each sample that is given to a
/// learner moves those of the learners' sessions once (`ForwardArgs::sample_rows`), with a target or without: also one
/// that is observed, however many ticks it is held, and not again where it is shown anew. Nothing else moves them:
/// ticks without a learner, passes (`Mesh::forward`, which begin without moments), evaluated copies, sessions that are
/// no learners. Those compute y by the moments that there are; before the first sample m is 0 and v counts as 1.
///
/// Backward takes the moments for constants: dx = dy / sqrt(v' + epsilon). Behind layers that learn, errors grow by up
/// to 1 / sqrt(epsilon), where inputs stay the same and at the first sample: 10 by default. Inputs of small units may
/// have less.
/// @shape  x [rows, ...] -> y as x; state [rows, 3 in]: m, v, s
/// @exact  same bits on every ISA, thread count and batch: s' is one fma; r, m', v' and y in the order of the formula,
///         each difference, product, quotient and root rounded by itself, v' as w - r w with w = v + (r e) e
/// @error  a square beyond float32 (|e| above 1.8e19) makes no finite y: the cell's fault, and the moments stay
/// @source Welford 1962, "Note on a method for calculating corrected sums of squares and products"; with weights West
///         1979, "Updating mean and variance estimates: an improved method", Communications of the ACM 22
Result<std::unique_ptr<Layer>> make_running_standardize(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
