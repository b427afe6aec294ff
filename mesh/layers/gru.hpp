// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Gated recurrent unit, one step a tick, blocks in the order r, z, n:
///   r = sigmoid(W_ir x + b_ir + W_hr h + b_hr),  z likewise
///   n = tanh(W_in x + b_in + r (W_hn h + b_hn))
///   h' = n + z (h - n),  y = h'
/// The state h is one a session and starts at 0. Of an input [tokens, in] a tick takes all tokens, one step each.
///
/// `through_time` says how it learns what an output needs of earlier ticks: backward, by errors that travel from tick
/// to tick; snap1 and eprop, by derivatives that go along with the state (mesh/layers/recurrent_traces.hpp), so that an
/// error meets all of the past at once, in memory that does not grow with it. Those two are approximations: of what
/// units do to each other through W_hh nothing, and with eprop nothing of a unit's own part in it either.
/// @shape  x [rows, in], W_ih [3 out, in], W_hh [3 out, out], b_ih, b_hh [3 out] -> y [rows, out]; state h
///         [rows, out], with snap1 or eprop [rows, out + 3 out (in + out + 2)]
/// @exact  same bits on every ISA, thread count and batch; each sum and product is rounded
/// @error  unsupported: snap1 or eprop of an input [tokens, in], or of a state that does not persist
/// @source Cho et al. 2014, arXiv:1406.1078; the reset gate after the product and the order of blocks of PyTorch 1.13's
///         torch.nn.GRU
Result<std::unique_ptr<Layer>> make_gru(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
