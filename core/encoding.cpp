// SPDX-License-Identifier: Apache-2.0

#include "core/encoding.hpp"

namespace weft {

std::string_view name(Granularity granularity) noexcept {
  switch (granularity) {
    case Granularity::tensor:
      return "tensor";
    case Granularity::channel:
      return "channel";
    case Granularity::block32:
      return "block32";
    case Granularity::block32_f16:
      return "block32_f16";
  }
  return "?";
}

std::optional<Granularity> parse_granularity(std::string_view text) noexcept {
  for (Granularity g : kGranularities)
    if (name(g) == text) return g;
  return std::nullopt;
}

bool has_scale(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::float64:
    case Dtype::float32:
    case Dtype::float16:
    case Dtype::bfloat16:
      return false;
    default:
      return true;
  }
}

bool has_zero_point(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::uint64:
    case Dtype::uint32:
    case Dtype::uint16:
    case Dtype::uint8:
    case Dtype::uint4:
    case Dtype::uint2:
      return true;
    default:
      return false;
  }
}

bool has_integer_kernel(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::int8:
    case Dtype::int4:
    case Dtype::int2:
    case Dtype::uint8:
    case Dtype::uint4:
    case Dtype::uint2:
    case Dtype::ternary:
    case Dtype::binary:
      return true;
    default:
      return false;
  }
}

bool has_double_scale(Dtype dtype) noexcept {
  return dtype == Dtype::int64 || dtype == Dtype::int32 || dtype == Dtype::uint64 || dtype == Dtype::uint32;
}

Status check_granularity(Dtype dtype, Granularity granularity) {
  if (granularity != Granularity::block32_f16 || !has_double_scale(dtype)) return {};
  return fail(Errc::invalid_argument, std::string(name(dtype)) + " weights have float64 scales, which granularity " +
                                          std::string(name(granularity)) + " cannot hold: use block32");
}

Granularity default_granularity(Dtype dtype) noexcept {
  if (!has_scale(dtype) || dtype == Dtype::ternary || dtype == Dtype::binary) return Granularity::tensor;
  return bits(dtype) >= 8 ? Granularity::channel : Granularity::block32;
}

Encoding::Encoding(Dtype type, std::optional<Granularity> wanted) noexcept
    : dtype(type), granularity(wanted && has_scale(type) ? *wanted : default_granularity(type)) {}

std::string to_string(const Encoding& encoding) {
  std::string text(name(encoding.dtype));
  if (has_scale(encoding.dtype)) text.append("/").append(name(encoding.granularity));
  return text;
}

std::string_view name(Activations activations) noexcept {
  switch (activations) {
    case Activations::int8:
      return "int8";
    case Activations::float32:
      return "float";
    case Activations::int8_row:
      return "int8_row";
  }
  return "?";
}

std::optional<Activations> parse_activations(std::string_view text) noexcept {
  for (Activations a : {Activations::int8, Activations::float32, Activations::int8_row})
    if (name(a) == text) return a;
  return std::nullopt;
}

}  // namespace weft
