// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace weft::scheduler {

/// Ways to run the steps of a program, all to the same bits.
enum class ExecutorKind : int {
  automatic,      ///< resident or graph, whichever takes less time for a step
  resident,       ///< regions stay on their workers and await each other's progress
  graph,          ///< a oneTBB flow graph: steps of regions, taken by whoever is free
  deterministic,  ///< one thread, in an order that is a function of a seed
};
inline constexpr std::array<std::string_view, 4> kExecutorNames{"auto", "resident", "graph", "deterministic"};

constexpr std::string_view name(ExecutorKind kind) noexcept { return kExecutorNames[static_cast<std::size_t>(kind)]; }
constexpr std::optional<ExecutorKind> parse_executor(std::string_view text) noexcept {
  for (std::size_t i = 0; i < kExecutorNames.size(); ++i)
    if (kExecutorNames[i] == text) return static_cast<ExecutorKind>(i);
  return std::nullopt;
}

}  // namespace weft::scheduler
