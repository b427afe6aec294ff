// SPDX-License-Identifier: Apache-2.0
// Operations that have no shader yet. Each must be refused loudly: never a silent fallback. To add one, move its
// function to the family's file, and turn its row in gpu/ops.def to true: what stands here does not compile then. None
// is missing now.

#include "gpu/internal/stream.hpp"

namespace weft::gpu {}  // namespace weft::gpu
