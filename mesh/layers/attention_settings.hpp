// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include "kernels/attention.hpp"
#include "kernels/rope.hpp"

#include "core/shape.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace weft::mesh {

/// Norm of queries and keys, head by head.
enum class QkNorm { none, rms, layer };

/// Options of attention as its passes use them.
struct AttentionSettings {
  kernels::AttentionShape shape;
  kernels::RopeSettings rope;
  double rope_gain = 1;
  bool has_rope = false, has_bias = true, has_out_bias = true;
  QkNorm norm = QkNorm::none;
  bool has_out_norm = false;
  float epsilon = 1e-5f, out_epsilon = 1e-5f;
  std::size_t features = 0;  // of a token, those of its mask left out
  std::size_t query_width() const noexcept { return shape.heads * shape.head_dim; }
  std::size_t key_width() const noexcept { return shape.kv_heads * shape.head_dim; }
};

/// Parameters in order: four matrices, then those of biases and gains that exist.
inline constexpr std::size_t kQuery = 0, kKey = 1, kValue = 2, kOutput = 3, kProjections = 4;

/// The layer of settings that make_attention has read and checked.
std::unique_ptr<Layer> attention_layer(const Shape& in, std::size_t out, const AttentionSettings& settings,
                                       std::vector<ParameterSpec> parameters);

}  // namespace weft::mesh
