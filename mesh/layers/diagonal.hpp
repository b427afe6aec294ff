// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// A diagonal recurrence of complex units, one step a tick, and its real forms where `activation` bends it:
///   a = l h + g (B x),  l = exp(-exp(nu) + i exp(theta)),  g = sqrt(1 - |l|^2)
///   `activation_of` output: h' = a,                            y = activation([Re h', Im h'])
///   `activation_of` state:  [Re h', Im h'] = activation([Re a, Im a]),  y = [Re h', Im h']
/// The state h is one a session and starts at 0. exp(theta) counts as at most 2 pi, a full turn, and exp(nu) as at most
/// 80; beyond, derivatives are those of the bound. A slope that is itself exp(theta) would make ever larger steps.
///
/// `through_time` says how it learns what an output needs of earlier ticks.
///   forward: the hidden state has the derivatives of h by every parameter too, which go along with each tick:
///     e_B' = l e_B + g x,  e_nu' = l e_nu + dl/dnu h + dg/dnu B x,  e_theta' = l e_theta + dl/dtheta h
///   Of a state that is bent, each real and imaginary part times its slope; those by the imaginary part of B are no
///   longer i times those by the real one, and go along beside them.
///   An error then meets all of the past at once, however long ago, and travels through no state: the gradient is that
///   of backpropagation through all ticks as long as the parameters stay, in memory of the size of the parameters.
///   backward: errors travel from tick to tick, `horizon` links far, as they do through `gru`.
/// @shape  x [rows, in], B [units, in] complex, nu, theta [units] -> y [rows, 2 units]; state h [rows, 2 units], and
///         forward [rows, 6 units + 2 in units], of a bent state 4 in units; units of the last part in whole panels
///         of 16
/// @exact  same bits on every ISA, thread count and batch: each product and sum is rounded by itself, B x by rule R1;
///         gradients add sessions ascending
/// @source Orvieto et al. 2023, "Resurrecting Recurrent Neural Networks for Long Sequences", arXiv:2303.06349, eq. 5 to
///         7 (h and g); Zucchet et al. 2023, "Online learning of long-range dependencies", arXiv:2305.15947 (forward);
///         Elelimy et al. 2024, "Real-Time Recurrent Learning using Trace Units in Reinforcement Learning",
///         arXiv:2409.01449 (the real forms, linear and nonlinear)
Result<std::unique_ptr<Layer>> make_diagonal(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
