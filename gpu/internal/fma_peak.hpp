// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/context.hpp"
#include "gpu/internal/heap.hpp"
#include "gpu/internal/pipelines.hpp"

#include <memory>

namespace weft::gpu {

/// As Device::fma_peak.
Result<double> fma_peak(const std::shared_ptr<Context>& context, Heap& heap, Pipelines& pipelines);

}  // namespace weft::gpu
