// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Long short-term memory, one step a tick, gates in the order i, f, g, o:
///   [i f g o] = W_ih x + b_ih + W_hh h + b_hh, then sigmoid of i, f, o and tanh of g
///   c' = f c + i g,  h' = o tanh(c'),  y = h'
/// The state [h c] is one a session and starts at 0. Of an input [tokens, in] a tick takes all tokens, a step each.
///
/// `through_time` says how it learns what an output needs of earlier ticks: backward, by errors that travel from tick
/// to tick; snap1 and eprop, by derivatives that go along with the state (mesh/layers/recurrent_traces.hpp), so that an
/// error meets all of the past at once, in memory that does not grow with it. Those two are approximations: of what
/// units do to each other through W_hh nothing, and with eprop nothing of a unit's own part in it either.
/// @shape  x [rows, in], W_ih [4 out, in], W_hh [4 out, out], b_ih, b_hh [4 out] -> y [rows, out]; state
///         [rows, 2 out], with snap1 [rows, 2 out + 8 out (in + out + 2)], with eprop 3 in the place of 8
/// @exact  same bits on every ISA, thread count and batch; each sum and product is rounded
/// @error  unsupported: snap1 or eprop of an input [tokens, in], or of a state that does not persist
/// @source Hochreiter and Schmidhuber 1997, "Long short-term memory"; Gers et al. 2000 (the forget gate); equations,
///         gate order and parameters of PyTorch 1.13's torch.nn.LSTM
Result<std::unique_ptr<Layer>> make_lstm(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
