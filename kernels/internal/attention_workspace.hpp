// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/internal/attention_keys.hpp"

#include <cstddef>

namespace weft::kernels::detail {

/// Rows of the tallest tile of any instruction set.
inline constexpr std::size_t kMostTileRows = 14;

/// A call's workspace, cut up. Backward's parts come after forward's, then those of a mask.
struct AttentionWorkspace {
  AttentionWorkspace(const AttentionShape& shape, float* memory) noexcept : memory_(memory) {
    const std::size_t keys = most_keys(shape), width = round_up(shape.head_dim, kPanelWidth),
                      chunks = round_up(shape.head_dim, kChunk);
    key_panels = take(keys * shape.head_dim);
    value_rows = take(keys * width);
    scores = take(keys * kMostTileRows);
    queries = take(chunks * kMostTileRows);
    carry = take(width * kMostTileRows);
    total = take(width * kMostTileRows);
    key_rows = take(keys * width);
    value_panels = take(keys * shape.head_dim);
    slopes = take(keys * kMostTileRows);
    errors = take(chunks * kMostTileRows);
    query_rows = take(width * kMostTileRows);
    error_rows = take(width * kMostTileRows);
    dk = take(keys * width);
    dv = take(keys * width);
    mask = take(shape.has_mask() ? keys : 0);
    bends = take(shape.has_mask() ? keys : 0);
  }
  std::size_t size() const noexcept { return used_; }

  float *key_panels, *value_rows, *scores, *queries, *carry, *total;
  float *key_rows, *value_panels, *slopes, *errors, *query_rows, *error_rows, *dk, *dv;
  float *mask, *bends;  // of one query: its mask's numbers; slopes of the cap

 private:
  float* take(std::size_t floats) noexcept {
    float* const at = memory_ ? memory_ + used_ : nullptr;
    used_ += round_up(floats, kPanelWidth);
    return at;
  }
  float* memory_;
  std::size_t used_ = 0;
};

}  // namespace weft::kernels::detail
