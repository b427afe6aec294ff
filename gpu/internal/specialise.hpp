// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace weft::gpu {

/// The module with its specialisation constants set, and without code that they leave out: branches never taken,
/// functions never called. Mesa's driver inlines every call before it looks at constants, so that a shader of many
/// operations costs it all of them (docs/gpu.md). Arithmetic that stays is the same, instruction by instruction.
/// `values`: 32 bits of each constant by its SpecId; a constant without a value keeps its default.
std::vector<std::uint32_t> specialised(std::span<const std::uint32_t> module,
                                       const std::map<std::uint32_t, std::uint32_t>& values);

}  // namespace weft::gpu
