// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/context.hpp"
#include "gpu/internal/heap.hpp"
#include "gpu/internal/pipelines.hpp"

#include <memory>
#include <string>

namespace weft::gpu {

/// Computes on the device and on the CPU, and compares bits: with each kind of shaders until one is exact, which
/// becomes the context's variant.
/// @error  unsupported: none is, and what differed
Result<SelfTest> prove(const std::shared_ptr<Context>& context, Heap& heap, const std::string& cache_folder);

/// True when the elements of a subgroup's matrices stand where gpu/shaders/linear_integer_matrix.comp computes them;
/// else it looks them up. Of a device with matrix units.
Result<bool> matrices_are_regular(const std::shared_ptr<Context>& context, Heap& heap, Pipelines& pipelines);

}  // namespace weft::gpu
