// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/loom/loom_entity.hpp"

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>

namespace weft::formats {

/// Weights in blocks of 32, the last one filled up: a float32 scale each, and 32 signed numbers of 4 bits, 16 bytes
/// with the first in a byte's low half. Weight i is number i times the scale of block i / 32.
struct LoomBlocks {
  static constexpr std::size_t kWeights = 32, kCodeBytes = 16;
  ByteSpan scales, codes;

  float scale(std::size_t block) const noexcept;
  /// -8 to 7.
  int number(std::size_t weight) const noexcept;
};
/// @error corrupt: another number of weights or bytes, words behind the last block that are not zero, a scale that is
///        not finite or negative; invalid_argument: a blob of another form
Result<LoomBlocks> loom_blocks(const LoomBlob& blob, std::size_t count);

/// A ternary matrix [rows, cols] with one scale: rows of words of 32 bits, 16 codes each, the first in the low bits;
/// 0, 1, 2 stand for -1, 0, 1.
struct LoomTernary {
  std::size_t rows = 0, cols = 0, row_words = 0;
  std::size_t offset = 0;  // among the layer's weights
  float scale = 1;
  ByteSpan words;

  unsigned code(std::size_t row, std::size_t col) const noexcept;
};
/// @error corrupt: extents that do not fit the bytes, a scale that is not finite; invalid_argument: as above
Result<LoomTernary> loom_ternary(const LoomBlob& blob);

}  // namespace weft::formats
