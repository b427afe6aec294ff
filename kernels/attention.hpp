// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

#include <cstddef>

namespace weft::kernels {

/// Places of a mask's numbers in a row of a session: the distances from one head's, one query token's and one key's to
/// the next, in floats. 0: they share them. No distance of keys: there is no mask.
struct AttentionMask {
  std::size_t head = 0, token = 0, key = 0;
};

/// One self-attention: who sees whom. A token at position p sees the keys at positions p - reach + 1 .. p, where reach
/// is the smaller of context and window; without `causal` it sees the later ones of its call too, less than `window`
/// away.
struct AttentionShape {
  std::size_t tokens = 1;                             // of a call
  std::size_t heads = 1, kv_heads = 1, head_dim = 1;  // heads a multiple of kv_heads: head h reads h / (heads/kv_heads)
  std::size_t context = 0;                            // tokens that are remembered between calls; 0: none are
  std::size_t window = 0;                             // 0: no bound
  bool causal = false;                                // true where context > 0
  float scale = 1.0f;                                 // of the scores
  float score_cap = 0.0f;                             // c: scaled scores s become c tanh(s / c); 0: they stay
  AttentionMask mask{};                               // none where context > 0
  bool has_mask() const noexcept { return mask.key != 0; }
};

/// A mask's number from which on down a key is hidden from a query: its weight is 0, and no error reaches it.
inline constexpr float kHiddenScore = -1e30f;

/// Floats of a session's hidden state, 0 without context: a header of 16 with the position in two numbers of 24 bits
/// (low, high; what is no such number counts as 0), then for each kv head a ring of keys in panels
/// [slots/16][head_dim][16] and a ring of values [slots][head_dim up to 16s]; position p has slot p % slots, slots =
/// context up to 16s.
std::size_t attention_state_size(const AttentionShape& shape) noexcept;
/// Floats that forward leaves for backward beside its operands: the largest score [heads][tokens], then the sum of
/// exponentials [heads][tokens].
std::size_t attention_statistics_size(const AttentionShape& shape) noexcept;
/// Floats of a row from a mask's first number to its last one; 0 without a mask.
std::size_t attention_mask_size(const AttentionShape& shape) noexcept;
/// Floats that a call of either direction wants, however many rows it has.
std::size_t attention_workspace_size(const AttentionShape& shape) noexcept;

/// Each row is a session. With context, keys and values of earlier calls come from `state`.
struct AttentionOperands {
  ConstMatrixView q;       // [B, tokens * heads * head_dim], as [tokens][heads][head_dim]
  ConstMatrixView k, v;    // [B, tokens * kv_heads * head_dim]
  ConstMatrixView state;   // [B, attention_state_size()]; data == null without context
  ConstMatrixView mask{};  // [B, attention_mask_size()]; data == null without a mask
};

/// y[t][h] = sum over visible j of softmax(scale q[t][h] k[j][h'])[j] v[j][h']. With a cap c the scaled scores s are
/// c tanh(s (1 / c)), 1 / c rounded once. A mask's number is added to what is then the score; kHiddenScore or less
/// hides the key, whose k and v must be finite all the same. A query from which all keys are hidden gives y = 0. Scores
/// by R1 over head_dim; sums over keys by their absolute positions: exponentials in 64 lanes, position % 64; values in
/// chunks of 64 positions (docs/numerics.md, section 12). So T tokens in one call give the bits of T calls. Keys that a
/// token does not see take no part, whatever they hold.
/// @shape  y [B, tokens * heads * head_dim], statistics [B, attention_statistics_size()], next_state as state, other
///         memory; workspace 64-byte aligned
/// @thread any, inside FlushSubnormals
/// @exact  same bits on every ISA, for every B, however tokens are cut into calls
/// @source Vaswani et al. 2017, eq. 1, arXiv:1706.03762; Ainslie et al. 2023, arXiv:2305.13245 (grouped queries);
///         Beltagy et al. 2020, arXiv:2004.05150 (window); Bello et al. 2016, arXiv:1611.09940 (cap)
void attention(const AttentionShape& shape, const AttentionOperands& operands, const MatrixView& y,
               const MatrixView& statistics, const MatrixView& next_state, float* workspace) noexcept;

/// A part of `attention` for one of several threads. Units are the tokens of each head of each row, [B][heads][tokens]:
/// shares [first, last) cut them anywhere. First attention_meet for each unit at which two shares meet, then the shares
/// in any order and on any threads, each with a workspace of its own, then attention_end.
struct AttentionShare {
  std::size_t first, last;
};
std::size_t attention_units(const AttentionShape& shape, std::size_t rows) noexcept;
/// Cost of all units in multiply-adds, by the keys that the sessions hold now.
double attention_work(const AttentionShape& shape, const AttentionOperands& operands, std::size_t rows) noexcept;
void attention_meet(const AttentionShape& shape, const AttentionOperands& operands, const MatrixView& next_state,
                    std::size_t unit) noexcept;
void attention_share(const AttentionShape& shape, const AttentionOperands& operands, const MatrixView& y,
                     const MatrixView& statistics, const MatrixView& next_state, AttentionShare share,
                     float* workspace) noexcept;
void attention_end(const AttentionShape& shape, const AttentionOperands& operands,
                   const MatrixView& next_state) noexcept;

/// Errors that backward reads, and gradients that it writes.
struct AttentionGradients {
  ConstMatrixView dy;           // as y
  ConstMatrixView dnext_state;  // data == null: no error comes from the state
  MatrixView dq, dk, dv;        // written; as q, k, v
  MatrixView dstate;            // data == null: not wanted
  MatrixView dmask{};           // written; as mask, its other floats stay; data == null: not wanted
};
/// The reverse of `attention`; scores and exponentials are computed again from the statistics, with the same bits.
/// Sums over the tokens that saw a key run in ascending order, head after head of its group; so do those over queries
/// that share a number of the mask, whose gradient is that of the score it was added to.
/// @exact  same bits on every ISA and for every B
void attention_backward(const AttentionShape& shape, const AttentionOperands& operands, const ConstMatrixView& y,
                        const ConstMatrixView& statistics, const AttentionGradients& gradients,
                        float* workspace) noexcept;

}  // namespace weft::kernels
