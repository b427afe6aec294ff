// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"
#include "kernels/weight.hpp"

#include <cstddef>

namespace weft::kernels {

/// The two matrices of a gated linear unit, stored alike: one shape [out, in], dtype, granularity and activations.
/// Biases [out], both there or both null.
struct GatedWeights {
  ConstWeight gate, up;
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
};

/// Blocks that OpStream::gated_linear leaves side by side in each row: the gate before and after its activation, the
/// other branch, and the product of the two. Backward needs the first three.
enum class GatedBlock : int { before, gate, up, product };
inline constexpr std::size_t kGatedBlocks = 4;

/// One block [rows, out] of rows of kGatedBlocks * out.
template <class View>
View gated_block(const View& rows, GatedBlock block) noexcept {
  const std::size_t out = rows.cols / kGatedBlocks;
  return {rows.data + static_cast<std::size_t>(block) * out, rows.rows, out, rows.stride};
}

}  // namespace weft::kernels
