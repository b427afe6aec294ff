// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weft::models {

/// Rotary positions of a decoder.
struct DecoderRope {
  double theta = 10000;
  std::size_t dims = 0;          // first elements of a head that turn; 0: none do
  std::vector<double> divisors;  // of the frequencies, [dims / 2]; empty: all 1
  double gain = 1;               // of cosines and sines
  /// Scaling that divisors and gain were made of, as files name it. `type`: "linear", "yarn", "longrope"; else empty.
  struct Scaling {
    std::string type;
    double factor = 1, original = 0;                  // original: positions of the model before it was scaled
    double beta_fast = 32, beta_slow = 1;             // of yarn
    bool is_whole = true;                             // yarn's bounds are rounded to whole frequencies
    std::vector<double> long_factors, short_factors;  // of longrope
  } scaling{};
};

/// Matrices of blocks as BitNet b1.58 has them: ternary with one scale a matrix, their inputs int8 with one scale a
/// row.
enum class TernaryBlocks {
  none,
  packed,          // in files four codes a byte, and the scale
  packed_inverse,  // the same, and what the scale divides by
  quantized        // in files floats, which are quantized when they are read
};

/// A decoder-only transformer in numbers, whatever family it is of: an embedding, blocks of attention and a
/// feed-forward part with norms and residual links, a norm, and the head that gives logits.
struct Decoder {
  std::size_t vocabulary = 0, width = 0, blocks = 0, heads = 1, kv_heads = 1, head_dim = 0;
  std::size_t hidden = 0;   // of the feed-forward part
  std::size_t context = 0;  // positions that it was made for
  double epsilon = 1e-5;
  bool has_layer_norm = false;  // norms subtract means and have biases; else root mean square
  std::string gate = "silu";    // of the gated unit, or the activation between the two matrices without one
  bool is_gated = true;
  bool has_qkv_bias = false, has_out_bias = false, has_mlp_bias = false;
  bool has_qk_norm = false;      // of each head's queries and keys, before they turn
  bool has_post_norms = false;   // of what attention and the feed-forward part give, before it is added
  bool has_inner_norms = false;  // before the output matrices of attention and of the feed-forward part
  bool is_tied = false;          // the embedding's table is the head's matrix
  bool has_positions = false;    // a learned vector for each of `context` positions, added to the embedding
  bool is_fused_qkv = false, is_fused_gate = false;  // in the files: one matrix, rows one below the other
  TernaryBlocks ternary = TernaryBlocks::none;
  double embedding_scale = 1;
  double score_scale = 0;               // 0: 1 / sqrt(head_dim)
  double score_cap = 0, logit_cap = 0;  // 0: none
  DecoderRope rope;
  std::vector<std::size_t> windows;  // by block: tokens that are seen; 0: all. Empty: all 0
};

}  // namespace weft::models
