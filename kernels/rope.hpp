// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::kernels {

/// Pairs of a head's elements that are rotated together: half: i and i + n/2; interleaved: 2i and 2i + 1.
enum class RopePairs : int { half, interleaved };

/// Reduction of a position's angle, for contexts longer than those trained on.
///   linear  every frequency / factor
///   ntk     theta * factor^(n / (n - 2)) in theta's place
///   llama3  wavelengths above original_context / low are divided by factor, those below original_context / high stay,
///           those between are mixed
enum class RopeScaling : int { none, linear, ntk, llama3 };

struct RopeSettings {
  std::size_t head_dim = 2;  // even; above 2 for ntk
  RopePairs pairs = RopePairs::half;
  double theta = 10000;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1, low_frequency_factor = 1, high_frequency_factor = 4, original_context = 8192;
  std::size_t dims = 0;               // even: the first elements of a head that turn; 0: all
  std::vector<double> divisors = {};  // of the frequencies, after the scaling, [dims / 2]; empty: none
};

/// Rotations as the op takes them.
struct Rope {
  std::size_t head_dim = 0;
  RopePairs pairs = RopePairs::half;
  const std::uint64_t* turns = nullptr;  // [dims / 2]: of a turn per position, in units of 2^-64
  const float* table = nullptr;          // [table_positions][2][dims]: rope_row of positions from 0 on
  std::size_t table_positions = 0;
  std::size_t turned = 0;  // first elements of a head that turn, with pairs among themselves; 0: all
  double gain = 1;         // of cosines and sines
  std::size_t dims() const noexcept { return turned == 0 ? head_dim : turned; }
};

/// theta^(-2i/n), scaled, as parts of a turn per position in units of 2^-64. Positions multiply them modulo 2^64, so
/// the angle between two positions depends on their distance alone, however far out both are.
/// @exact  binary64 sums, products, divisions and powers of two: no libm whose last bit may differ
/// @source Su et al. 2021, eq. 15, arXiv:2104.09864; Chen et al. 2023, arXiv:2306.15595 (linear); bloc97 2023,
/// "NTK-aware
///         scaled RoPE"; Dubey et al. 2024, arXiv:2407.21783, and its code (llama3)
std::vector<std::uint64_t> rope_turns(const RopeSettings& settings);

/// A position's cosines [dims], then its sines [dims], times the gain, each where its element stands, the sine negative
/// at the first of a pair. Made in binary64 and rounded once.
void rope_row(const Rope& rope, std::uint64_t position, float* row) noexcept;

/// y[i] = fma(x[i], cos[i], x[partner] sin[i]) for every head of every token; the transposed rotation with -sin.
/// Elements from dims() on are copied.
/// Token t of a row stands at position p + t with p in state[0..1] (attention.hpp), or 0 where state has no data.
/// @shape  x, y [B, tokens * heads * head_dim] as [tokens][heads][head_dim]; y may be x; workspace 2 dims floats
/// @thread any, inside FlushSubnormals
/// @exact  one product and one fma an element
void rope(const Rope& rope, std::size_t tokens, const ConstMatrixView& x, const ConstMatrixView& state, bool transposed,
          const MatrixView& y, float* workspace) noexcept;

}  // namespace weft::kernels
