// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Gated feed-forward block: y = W_down norm(act(W_gate x + b_gate) (W_up x + b_up)) + b_down, the norm only where
/// asked for.
/// Its output grows with the square of its input and is not bounded: fw_dtp and dfa, which do not send true gradients,
/// want a norm after it or small steps (adamw).
/// @shape  x [rows, in], W_gate, W_up [hidden, in], W_down [out, hidden] -> y [rows, out]; biases only with `bias`
/// @exact  same bits on every ISA, thread count and batch: rule R1 (docs/numerics.md)
/// @source Shazeer 2020, "GLU variants improve Transformer", eq. 6, arXiv:2002.05202 (silu: FFN_SwiGLU, gelu:
/// FFN_GEGLU);
///         So et al. 2021, arXiv:2109.08668 (relu2). The down gradient is that of the gated product, all `hidden` of it
Result<std::unique_ptr<Layer>> make_swiglu(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
