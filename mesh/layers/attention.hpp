// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Multi-head self-attention:
///   q = rope(norm(W_q x + b_q)),  k = rope(norm(W_k x + b_k)),  v = W_v x + b_v, of each head
///   y = W_o norm(concat over heads of softmax(cap(scale q k^T)) v) + b_o, the norm and cap only where asked for
/// Query head h reads key and value head h / (heads / kv_heads): fewer kv_heads are grouped queries, one is
/// multi-query. A tick takes one token or a sequence of them. With `context` each session remembers its last keys and
/// values: a sequence in one tick gives the bits that its tokens give one by one, and a token sees the last `context`
/// ones (and no more than `window`), itself among them. Without, every tick stands alone. Kept for backward: q, k, v,
/// the heads' results, and of each softmax its largest score and its sum, so memory grows with the tokens and not with
/// their square; backward computes the probabilities again.
/// `mask` adds numbers of each sample to the scores, after scale and cap. They are the last columns of the input, so
/// the layer has two sources, [values, mask]: `keys`, one number a token, of it as a key (a key_padding_mask);
/// `scores`, one for each pair of tokens, [token that looks, token that is seen] (an attn_mask); `heads`, the same for
/// each head, head after head. 0 leaves a score as it is; -1e30 and less hides the key. A token from which all keys are
/// hidden gets 0 of every head. Errors go back to the numbers as to any source.
/// @shape  x [d] or [tokens, d], with a mask [tokens, d + 1 or tokens or heads tokens], W_q [heads head_dim, d], W_k,
/// W_v [kv_heads head_dim, d], W_o [out, heads head_dim]
///         -> y [out] or [tokens, out]; state [rows, kernels::attention_state_size()] with `context`
/// @error  shape_mismatch: an input of three axes; heads that kv_heads does not divide; d that heads does not divide
///         where head_dim is not given; an odd head_dim with rope; a window past the context; a mask with a context,
///         whose keys of earlier ticks it would not reach; an input no wider than its mask
/// @exact  same bits on every ISA, thread count and batch, however tokens are cut into ticks (docs/numerics.md,
///         section 12)
/// @source Vaswani et al. 2017, arXiv:1706.03762; Shazeer 2019, arXiv:1911.02150 (one kv head); Ainslie et al. 2023,
///         arXiv:2305.13245 (groups); Su et al. 2021, arXiv:2104.09864 (rope); Henry et al. 2020, arXiv:2010.04245,
///         and Dehghani et al. 2023, arXiv:2302.05442 (norms of q and k); Beltagy et al. 2020, arXiv:2004.05150
///         (window)
Result<std::unique_ptr<Layer>> make_attention(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
