// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::gpu {

/// Words of a module before its first instruction.
inline constexpr std::size_t kSpirvHeader = 5;

/// An instruction of a module: its place, its opcode and its words, the opcode's first.
struct SpirvInstruction {
  std::size_t at;
  std::uint32_t code;
  std::span<const std::uint32_t> words;
};

/// Calls take(SpirvInstruction) for each instruction of a module, in order.
template <class Take>
void for_each_instruction(std::span<const std::uint32_t> module, const Take& take) {
  for (std::size_t at = kSpirvHeader; at < module.size();) {
    const std::size_t length = std::max<std::size_t>(module[at] >> 16, 1);
    take(SpirvInstruction{at, module[at] & 0xffff, module.subspan(at, std::min(length, module.size() - at))});
    at += length;
  }
}

/// Float controls of binary32 that a module may require of a device (VK_KHR_shader_float_controls).
struct FloatControls {
  bool keep_special_values = false;  // signed zeros, infinities, NaNs
  bool flush_subnormals = false;
  bool round_to_even = false;
};

/// The module with those demands written into it.
std::vector<std::uint32_t> with_float_controls(std::span<const std::uint32_t> module, const FloatControls& controls);

}  // namespace weft::gpu
