// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstdint>

/// Members and enumerators of what shaders declare too, made of the lists in gpu/shaders/*_operands.inc:
///   struct ScalePush { WEFT_SCALE_OPERANDS(WEFT_MEMBER) };
/// A structure of an odd count of words of 32 bits ends in four bytes that no shader reads.
#define WEFT_MEMBER(type, name) ::weft::gpu::shader_types::of_##type name{};
#define WEFT_ENUMERATOR(name, number) name = number,

namespace weft::gpu::shader_types {
using of_uint64_t = std::uint64_t;
using of_uint = std::uint32_t;
using of_float = float;
/// A number an axis, outermost first.
using of_Axes = std::array<std::uint32_t, 8>;
}  // namespace weft::gpu::shader_types
