// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/dtype.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

/// Group of weights with one scale (and zero point): all of a matrix, one output's row, or 32 consecutive inputs of
/// one output's row (the last block of a row may be shorter). Scales of block32_f16 are binary16, others float32 or
/// float64.
enum class Granularity : int { tensor, channel, block32, block32_f16 };
inline constexpr Granularity kGranularities[] = {Granularity::tensor, Granularity::channel, Granularity::block32,
                                                 Granularity::block32_f16};
std::string_view name(Granularity granularity) noexcept;
std::optional<Granularity> parse_granularity(std::string_view text) noexcept;
/// True when a group is a block of inputs: block32 and block32_f16.
constexpr bool is_block(Granularity granularity) noexcept { return granularity >= Granularity::block32; }

/// Inputs of a scale block, and of an activation block (docs/numerics.md).
inline constexpr std::size_t kScaleBlock = 32;

/// True when codes of `dtype` stand for multiples of a scale: all but the IEEE formats and bfloat16.
bool has_scale(Dtype dtype) noexcept;
/// True when they are also counted from a zero point: the unsigned ones.
bool has_zero_point(Dtype dtype) noexcept;
/// True for integer codes of 8 bits or fewer (ternary and binary too), which run integer inner loops.
bool has_integer_kernel(Dtype dtype) noexcept;
/// True for integers of 32 and 64 bits, whose scales are float64: they cannot have binary16 scales.
bool has_double_scale(Dtype dtype) noexcept;
/// Fails with invalid_argument, naming both, for weights of `dtype` that have scales, yet none of this granularity.
Status check_granularity(Dtype dtype, Granularity granularity);
/// Channel for 8 bits and more, block32 for 4 bits and fewer, tensor for ternary and binary.
Granularity default_granularity(Dtype dtype) noexcept;

/// Storage of a layer's weights. Types without a scale have one encoding only: their granularity is `tensor`.
struct Encoding {
  Dtype dtype = Dtype::float32;
  Granularity granularity = Granularity::tensor;

  Encoding() = default;
  /// `granularity` none: the type's default.
  explicit Encoding(Dtype type, std::optional<Granularity> wanted = std::nullopt) noexcept;
  bool operator==(const Encoding&) const = default;
};
/// "int4/block32", or "float16" for a type without scales.
std::string to_string(const Encoding& encoding);

/// Inputs of a layer with integer codes of 8 bits or fewer: quantised to int8 with sums of integers, each block of 32
/// with a scale of its own (`int8`) or all of a row with one (`int8_row`), or float32 with dequantised weights. Other
/// types read float32 either way.
enum class Activations : int { int8, float32, int8_row };
/// "int8", "float", "int8_row".
std::string_view name(Activations activations) noexcept;
std::optional<Activations> parse_activations(std::string_view text) noexcept;

}  // namespace weft
