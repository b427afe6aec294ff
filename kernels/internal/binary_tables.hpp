// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/internal/scale_array.hpp"

#include <cstddef>
#include <cstdint>

namespace weft::kernels::detail {

/// A row's sums with binary weights by tables in place of products. Four bits of a word choose among the 16 sums of
/// subsets of four codes of x, so eight look-ups serve a block of 32 inputs: one `vpermb` finds those of 16 outputs by
/// the low or the high halves of their words' bytes. A sum is kept as two bytes, 32 c + r, in tables of 64 bytes each.
struct BinaryTables {
  /// Bytes of the tables of a block.
  static constexpr std::size_t kBlockBytes = 256;
  /// Panels side by side.
  static constexpr std::size_t kPanels = 4;

  /// Tables of `count` blocks, from codes packed for a width of 1 (order_block).
  void (*build)(const std::int8_t* codes, std::size_t count, std::uint8_t* tables) noexcept;
  /// Adds `count` blocks of kPanels panels, from an even one on, to totals [kPanels][16]. Words of a panel, and its
  /// scales (null: none of blocks), stand `stride` after those of the panel before it. Words `ahead` further on are
  /// prefetched into the second-level cache (0: none).
  void (*add)(const std::uint32_t* codes, const ScaleArray& scales, std::size_t stride, const std::uint8_t* tables,
              const float* x_scales, const std::int32_t* zero_terms, std::size_t count, std::size_t ahead,
              float* totals) noexcept;
};
/// Those of the active instruction set; null where it has none, or this CPU no `vpermb` (AVX-512 VBMI).
const BinaryTables* binary_tables() noexcept;

}  // namespace weft::kernels::detail
