// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Elman's recurrent layer, one step a tick: h' = activation(W_ih x + b_ih + W_hh h + b_hh), y = h'.
/// The state is one a session and starts at 0. Of an input [tokens, in] a tick takes all tokens, one step each.
/// @shape  x [rows, in], W_ih [out, in], W_hh [out, out], b_ih, b_hh [out] -> y [rows, out]; state h [rows, out]
/// @exact  same bits on every ISA, thread count and batch; the two sums are rounded, then added
/// @source Elman 1990, "Finding structure in time"; equation and parameters of PyTorch 1.13's torch.nn.RNN
Result<std::unique_ptr<Layer>> make_rnn(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
