// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/options.hpp"

#include "mesh/memory/memory_estimate.hpp"

#include <cstddef>
#include <cstdint>

namespace weft::learning {

/// Memory of a learning rule on a mesh over `graph`, before anything of it is allocated: the history of states that
/// errors are paired with, messages under way, gradients with the optimizer's moments, labels and targets of samples
/// with those that wait for them, fixed feedback weights. Scores that nobody clears are not counted.
/// @error too_large: by the places where errors meet layers alone it takes more than `free` bytes
Result<mesh::MemoryEstimate> estimate_memory(const mesh::Graph& graph, const LearningOptions& options,
                                             std::size_t sessions, std::uint64_t free);

}  // namespace weft::learning
