// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/activation.hpp"
#include "kernels/internal/linear_scratch.hpp"
#include "kernels/views.hpp"
#include "kernels/weight.hpp"

#include <cstddef>
#include <cstdint>

namespace weft::kernels::detail {

/// Reading of a weight's codes, the same for all eight types: a word's bits are flipped by `flip`, its codes are then
/// taken as unsigned numbers u (binary ones doubled), and each stands for u - zero.
///   int8 128, int4 8, int2 and ternary 2, binary 1; the unsigned types have their own zero points
struct CodeForm {
  int bits = 8;
  std::uint32_t flip = 0;
  std::int32_t zero = 0;         ///< where one zero serves all of the matrix
  bool lane_zero = false;        ///< each output, or each of its blocks, has its own
  bool has_zero_points = false;  ///< the zero, or zeros, belong to the weight, not to its type
  bool block_scale = false;      ///< scales, and zero points of its own, belong to blocks of 32
  bool row_scale = false;        ///< inputs have one scale a row: Activations::int8_row
  bool operator==(const CodeForm&) const = default;
};
CodeForm code_form(const ConstWeight& w) noexcept;

/// Quantised activations as the tiles want them. Rows are cut into parts of at most a tile's rows, R of them in each:
///   codes [part][block][R][block_bytes], scales and zero_terms [part][block][R]
/// zero_terms is -(zero * sum of the block's codes), or -sum where zero points differ by output.
struct PackedRows {
  std::size_t in, blocks, block_bytes;
  EvenParts parts;
  std::int8_t* codes;
  float* scales;
  std::int32_t* zero_terms;
  std::size_t first_row(std::size_t part) const noexcept { return parts.begin(part); }
  std::size_t rows_of(std::size_t part) const noexcept { return parts.begin(part + 1) - parts.begin(part); }
  std::int8_t* codes_of(std::size_t part) const noexcept { return codes + parts.begin(part) * blocks * block_bytes; }
  float* scales_of(std::size_t part) const noexcept { return scales + parts.begin(part) * blocks; }
  std::int32_t* zero_terms_of(std::size_t part) const noexcept { return zero_terms + parts.begin(part) * blocks; }
};

/// Unpacked weights of P panels: codes [block][word][kWords][P][16 words], scales (null: none) and zero points
/// [block][P][16].
struct TileWeights {
  std::uint32_t* codes;
  float* scales;
  std::int32_t* zero_points;
};

/// `count` blocks of a part's rows, from an even block on, against unpacked panels; added to totals [R][P][16].
using IntegerTile = void (*)(const TileWeights&, std::size_t count, const std::int8_t* codes, const float* scales,
                             const std::int32_t* zero_terms, float* totals) noexcept;
/// The active instruction set's tiles of 1, 2, .. rows by `panels`, for codes of 8 bits (`bytes`) or fewer.
const IntegerTile* integer_tiles(bool bytes, bool lane_zero, std::size_t panels) noexcept;

/// Weights of P panels as they are stored, codes of 8 or 4 bits and whole blocks: `panel_blocks` of a panel's from
/// `codes` on, words to be flipped by `flip`; scales (null: none) [scale_blocks][16] of each panel.
struct StoredWeights {
  /// Lines of memory that are read next, [first, last) of those of two panels one after the other, asked for in order,
  /// `step` of them for each chunk. From line `panel_lines` on they stand `jump` words further on.
  struct Ahead {
    const std::uint32_t* words = nullptr;
    std::size_t panel_lines = 0, jump = 0, first = 0, last = 0, step = 0;
  };
  const std::uint32_t* codes;
  const float* scales;
  std::size_t panel_blocks, scale_blocks;
  std::uint32_t flip;
  Ahead ahead{};
};
using StoredTile = void (*)(const StoredWeights&, std::size_t count, const std::int8_t* codes, const float* scales,
                            const std::int32_t* zero_terms, float* totals) noexcept;
/// The same for weights as they are stored; null where they must be unpacked first.
const StoredTile* stored_tiles(int bits, std::size_t panels) noexcept;

/// One instruction set's share of linear_integer for a width of codes. Taken together: their packing is their own.
struct IntegerKernels {
  std::size_t tile_rows;                        ///< rows of a part, at most
  bool has_full_parts;                          ///< all parts but the last have that many, else they are even
  std::size_t (*block_bytes)(const CodeForm&);  ///< of one row's packed codes of a block
  /// Quantises and packs the rows of parts [first, last).
  void (*pack)(const ConstMatrixView& x, const CodeForm&, const PackedRows& to, std::size_t first,
               std::size_t last) noexcept;
  /// Packed parts [first, last) against all of `w`; z and y are those of the whole batch.
  void (*run)(const ConstWeight& w, const float* bias, const PackedRows& x, std::size_t first, std::size_t last,
              Activation activation, const MatrixView& z, const MatrixView& y) noexcept;
};
/// The kernels of the active instruction set for `rows` rows and codes of 8, 4, 2 and 1 bits
/// (linear_integer_of_<bits>.cpp).
const IntegerKernels& integer_kernels_of_8(const CodeForm& form, std::size_t rows) noexcept;
const IntegerKernels& integer_kernels_of_4(const CodeForm& form, std::size_t rows) noexcept;
const IntegerKernels& integer_kernels_of_2(const CodeForm& form, std::size_t rows) noexcept;
const IntegerKernels& integer_kernels_of_1(const CodeForm& form, std::size_t rows) noexcept;
/// The reference for all of them: codes in order, each dequantized by itself.
const IntegerKernels& scalar_integer_kernels() noexcept;

}  // namespace weft::kernels::detail
