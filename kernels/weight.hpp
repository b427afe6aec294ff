// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

#include "core/encoding.hpp"

#include <cstddef>
#include <cstdint>

namespace weft::kernels {

/// Layout of codes in memory. Both forms keep 16 outputs side by side, as float32 panels do, so that one vector
/// holds one input's weights of 16 outputs:
///   elements  [ceil(out/16)][in][16] codes of 8 to 64 bits: floating point of any width, integers of 16 bits and more
///   words     [ceil(out/16)][ceil(in/n)][16] 32-bit words; a word holds n = 32 / bits codes of one output, for n
///             consecutive inputs, the first in the low bits: fp4, ternary, binary and integers of 8 bits and fewer
/// Lanes past `out` and codes past `in` are 0 bits. Signed integers, ternary included, are two's complement of their
/// width; binary is 1 for +1 and 0 for -1.
enum class CodeLayout : int { elements, words };
CodeLayout code_layout(Dtype dtype) noexcept;
/// Codes of one 32-bit word.
inline constexpr std::size_t codes_per_word(int bits) noexcept { return 32 / static_cast<std::size_t>(bits); }

/// Bytes of the arrays of a weight [out, in], lane padding counted.
struct WeightBytes {
  std::size_t codes = 0, scales = 0, zero_points = 0;
  std::size_t total() const noexcept { return codes + scales + zero_points; }
};
WeightBytes weight_bytes(const Encoding& encoding, std::size_t out, std::size_t in) noexcept;

/// Scales of a weight [out, in]: tensor 1, channel ceil(out/16) * 16, blocks ceil(out/16) * ceil(in/32) * 16.
std::size_t scale_count(const Encoding& encoding, std::size_t out, std::size_t in) noexcept;
/// Index of the scale of element (o, k): tensor 0, channel o, blocks (o/16 * ceil(in/32) + k/32) * 16 + o%16.
std::size_t scale_index(Granularity granularity, std::size_t in, std::size_t o, std::size_t k) noexcept;
/// Bytes of one scale: 8 (float64) for integers of 32 and 64 bits, else 2 (binary16) for block32_f16, else 4 (float32).
std::size_t scale_bytes(const Encoding& encoding) noexcept;

/// A weight matrix [out, in] as stored. The value of a code q is
///   float types without scale   its number
///   fp8, fp4                    scale * number(q), rounded once
///   integers to 16 bits         scale * float(q - zero), rounded once (ternary: q in -1 0 1; binary: -1 or +1)
///   integers of 32, 64 bits     float(scale * double(q - zero)), the difference taken exactly
/// `scales` (float, double, or of block32_f16 binary16, which stands for the same float; never 0, floats and doubles
/// never subnormal, for lanes below `out`) and `zero_points` (unsigned integers as
/// wide as the codes, at least 8 bits) have one element a scale group; null where the type has none. All 64-byte
/// aligned.
struct ConstWeight {
  const void* codes = nullptr;
  const void* scales = nullptr;
  const void* zero_points = nullptr;
  /// Of fp8_e4m3: 1 there says that the codes hold no NaN's (holds_nan_code()), so kernels need not look for it; null
  /// or 0 leaves it open. A place and not a value: codes change under a view.
  const std::uint8_t* nan_free = nullptr;
  std::size_t out = 0, in = 0;
  Dtype dtype = Dtype::float32;
  Granularity granularity = Granularity::tensor;
  Activations activations = Activations::int8;

  ConstWeight() = default;
  ConstWeight(const ConstPanels& panels) noexcept : codes(panels.data), out(panels.out), in(panels.in) {}
  Encoding encoding() const noexcept { return Encoding(dtype, granularity); }
  /// True when scales are binary16.
  bool has_half_scales() const noexcept { return granularity == Granularity::block32_f16 && !has_double_scale(dtype); }
  /// Scale `i` as a float; never of integers of 32 and 64 bits. Exact also where subnormals count as zeros.
  float scale(std::size_t i) const noexcept;
  /// As float32 panels. Only for dtype float32.
  ConstPanels panels() const noexcept { return {static_cast<const float*>(codes), out, in}; }
};
struct Weight {
  void* codes = nullptr;
  void* scales = nullptr;
  void* zero_points = nullptr;
  std::size_t out = 0, in = 0;
  Dtype dtype = Dtype::float32;
  Granularity granularity = Granularity::tensor;
  operator ConstWeight() const noexcept;
};

/// Outputs [16 first, 16 (first + panels)) of a weight, cut at its end.
ConstWeight panel_range(const ConstWeight& weight, std::size_t first, std::size_t panels) noexcept;

/// True when any code of an fp8_e4m3 weight is a NaN, 0x7f or 0xff; padding lanes count too.
bool holds_nan_code(const ConstWeight& weight) noexcept;

}  // namespace weft::kernels
