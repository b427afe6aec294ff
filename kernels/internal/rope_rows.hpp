// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/rope.hpp"

#include <cstdint>

namespace weft::kernels::detail {

/// rope_row of a position, from this thread's last ones where it is among them: the layers of a model turn the same
/// tokens by the same angles, queries and keys alike. Valid until the next call. Keeps a row for each of 256 positions,
/// positions modulo 256, of the last two rotations; allocates when it meets a rotation for the first time.
/// `workspace`: 2 dims floats, which it may fill.
const float* known_rope_row(const Rope& rope, std::uint64_t position, float* workspace) noexcept;

}  // namespace weft::kernels::detail
