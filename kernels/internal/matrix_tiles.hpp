// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/internal/integer_linear.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::kernels::detail {

/// Rows of a tile of the matrix unit (AMX), at most.
inline constexpr std::size_t kMatrixRows = 16;

/// A panel's blocks as the matrix unit reads them: signed codes [block][word][16 words], a byte each; scales (null:
/// none) [block][16].
struct MatrixWeights {
  const std::uint32_t* codes;
  const float* scales;
};

/// `count` blocks of `rows` <= kMatrixRows packed rows, from an even block on, against one panel; added to totals
/// [rows][16].
using MatrixTile = void (*)(const MatrixWeights& w, std::size_t rows, std::size_t count, const std::int8_t* codes,
                            const float* scales, float* totals) noexcept;

/// A thread's matrix unit. Between begin(rows) and end() tiles take that many rows; begin may follow begin.
struct MatrixUnit {
  void (*begin)(std::size_t rows) noexcept;
  MatrixTile tile;
  void (*end)() noexcept;
};

/// AMX where the active instruction set is amx, else an emulation in plain C++. Null without AVX-512 VNNI.
MatrixUnit matrix_unit() noexcept;

/// True when AMX, where the active instruction set is amx, gives the emulation's bits: tried once, before its first
/// use, as few machines that build this have it.
bool is_matrix_unit_exact() noexcept;

/// Tests set it to run the emulation where a CPU has AVX-512 VNNI but no AMX.
inline std::atomic<bool> emulates_matrix_unit{false};

}  // namespace weft::kernels::detail
