// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/internal/integer_linear.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::kernels::detail {

/// Rows of a tile of the matrix unit (AMX), at most.
inline constexpr std::size_t kMatrixRows = 16;

/// Zeros of unpacked codes.
enum class TileZeros {
  none,   ///< codes are signed bytes
  one,    ///< codes are unsigned, and one zero is in the zero terms
  lanes,  ///< codes are unsigned, and each lane has its own zero
};

/// `count` blocks of `rows` <= kMatrixRows packed rows, from an even block on, against one unpacked panel, codes
/// [block][word][16 words]; added to totals [rows][16].
using MatrixTile = void (*)(const TileWeights& w, std::size_t rows, std::size_t count, const std::int8_t* codes,
                            const float* scales, const std::int32_t* zero_terms, float* totals) noexcept;

/// The tile for such zeros: by AMX where the active instruction set is amx, else by an emulation in plain
/// C++. Null without AVX-512 VNNI.
MatrixTile matrix_tile(TileZeros zeros) noexcept;

/// Tests set it to run the emulation where a CPU has AVX-512 VNNI but no AMX.
inline std::atomic<bool> emulates_matrix_unit{false};

}  // namespace weft::kernels::detail
