// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/spirv.hpp"

namespace weft::gpu {
namespace {

// Numbers of the SPIR-V specification, 1.5.
constexpr std::uint32_t kCapability = 17, kEntryPoint = 15, kExecutionMode = 16;
constexpr std::uint32_t kDenormFlushToZero = 4465, kSignedZeroInfNanPreserve = 4466, kRoundingModeRte = 4467;
constexpr std::uint32_t kModeFlush = 4460, kModePreserve = 4461, kModeRte = 4462;

}  // namespace

std::vector<std::uint32_t> with_float_controls(std::span<const std::uint32_t> module, const FloatControls& controls) {
  std::size_t after_capabilities = kSpirvHeader, after_entry = kSpirvHeader;
  std::uint32_t main = 0;
  for_each_instruction(module, [&](const SpirvInstruction& i) {
    if (i.code == kCapability) after_capabilities = i.at + i.words.size();
    if (i.code == kEntryPoint) after_entry = i.at + i.words.size(), main = i.words[2];
  });
  std::vector<std::uint32_t> capabilities, modes;
  const auto demand = [&](bool wanted, std::uint32_t capability, std::uint32_t mode) {
    if (!wanted) return;
    capabilities.insert(capabilities.end(), {2u << 16 | kCapability, capability});
    modes.insert(modes.end(), {4u << 16 | kExecutionMode, main, mode, 32});
  };
  demand(controls.flush_subnormals, kDenormFlushToZero, kModeFlush);
  demand(controls.keep_special_values, kSignedZeroInfNanPreserve, kModePreserve);
  demand(controls.round_to_even, kRoundingModeRte, kModeRte);
  std::vector<std::uint32_t> to(module.begin(), module.end());
  // The later place first, so that the earlier one stays where it is.
  to.insert(to.begin() + static_cast<std::ptrdiff_t>(after_entry), modes.begin(), modes.end());
  to.insert(to.begin() + static_cast<std::ptrdiff_t>(after_capabilities), capabilities.begin(), capabilities.end());
  return to;
}

}  // namespace weft::gpu
