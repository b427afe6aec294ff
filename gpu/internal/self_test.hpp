// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/context.hpp"
#include "gpu/internal/heap.hpp"

#include <memory>
#include <string>

namespace weft::gpu {

/// Computes on the device and on the CPU, and compares bits: with each kind of shaders until one is exact, which
/// becomes the context's variant.
/// @error  unsupported: none is, and what differed
Result<SelfTest> prove(const std::shared_ptr<Context>& context, Heap& heap, const std::string& cache_folder);

}  // namespace weft::gpu
