// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/bytes.hpp"
#include "core/encoding.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace weft::models {

/// Type of a tensor: blocks of 32 as Loom packs them (formats/loom/loom_blocks.hpp), each its float32 scale and then
/// 16 bytes of codes.
inline constexpr std::string_view kLoomBlocks = "loom_q4_0";

/// One row of a matrix as codes of a type of Weft's, a byte each in the low bits, with the scales and zero points of
/// its groups.
struct CodeRow {
  std::span<std::uint8_t> codes;
  std::span<float> scales;
  std::span<std::uint8_t> zero_points;  // empty where the type has none
};

/// A type of GGUF, or kLoomBlocks, whose blocks hold the codes and scales of one of Weft's types, so that neither way
/// is anything rounded.
///   block32_f16: q8_0, q5_0 int8; q4_0 uint4; tq1_0, tq2_0 int2; q1_0 binary; q2_0 uint2
///   block32: mxfp4 fp4; kLoomBlocks int4
/// Those of block32_f16 can have block32 too, as scales of binary16 are floats. Blocks longer than 32 repeat their
/// scale. A block of zeros has the scale 2^-126 (of binary16: 2^-24); a negative scale becomes positive, its codes the
/// others.
struct Carrier {
  std::string_view type;  // as Tensor::type has it
  Encoding encoding;
  /// @error unsupported: a code or scale that Weft's type does not have: -128 and -8, 2^127 and 2^-127 of mxfp4;
  /// not_finite
  Status (*read)(ByteSpan row, const CodeRow& to);
};
/// Null where a type has none.
const Carrier* find_carrier(std::string_view type) noexcept;

/// Encoding of matrices that BitNet b1.58 has packed: ternary, one scale a matrix.
Encoding packed_ternary_encoding() noexcept;

/// The way back: blocks of GGUF for codes of an encoding.
struct BlockWriter {
  Encoding encoding;
  std::string_view type;
  /// One row in whole blocks. False where they cannot hold it: a scale that is no binary16 number (mxfp4: no power of
  /// two), scales that differ within a block, a zero point of no block.
  bool (*write)(const CodeRow& row, std::span<std::byte> bytes);
};
/// By blocks of either scale: int8 q8_0; int4, uint4 q4_0; int2, ternary tq2_0; binary q1_0; uint2 q2_0; fp4 mxfp4.
/// Null where an encoding has none.
const BlockWriter* find_block_writer(const Encoding& encoding) noexcept;

/// Adds rows of codes to the bytes of a matrix in file order (kernels/weight_layout.hpp): packed, the first in the low
/// bits. `bytes` are 0 before the first.
void pack_codes(std::span<const std::uint8_t> codes, int bits, std::size_t first, std::span<std::byte> bytes) noexcept;
/// The way back.
void unpack_codes(std::span<const std::byte> bytes, int bits, std::size_t first,
                  std::span<std::uint8_t> codes) noexcept;

}  // namespace weft::models
