// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/pipelines.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::gpu {

/// Operands of operations that become one dispatch, as gpu/shaders/operands.glsl reads them.
struct OperandRun {
  std::size_t first = 0, count = 0;  // of the entries given
  TableForm form;
  std::size_t place = 0;  // of its bytes in the table
  /// Without a table (form.is_pushed, or no shares): its push constants.
  std::array<std::uint64_t, Pipelines::kPushBytes / 8> pushed{};
};

/// Limits of a dispatch: entries that share a group, entries at most, and whether they may be push constants.
struct OperandLimits {
  std::uint32_t shares = 1;
  std::size_t most = 1;
  bool pushes = true;
};

/// Cuts entries that stand in the order of their operations into runs, each one dispatch, and
/// appends their bytes to `table`. Long runs whose words are equal or grow by a step (cells of a kind, one after the
/// other) are kept as their first entry and the steps, pushed where they fit: then nobody waits for an entry
/// before asking for what it names. One entry alone is pushed as it is. `entries`: words of 64 bits, `words` of them
/// each. Knows no Vulkan.
std::vector<OperandRun> tabulate(std::span<const std::uint64_t> entries, std::size_t words, const OperandLimits& limits,
                                 std::vector<std::byte>& table);

}  // namespace weft::gpu
