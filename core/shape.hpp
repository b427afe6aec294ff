// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace weft {

/// Extents of a tensor, outermost first. Empty means a scalar.
using Shape = std::vector<std::size_t>;

/// "[3, 64]".
std::string to_string(const Shape& shape);

/// Number of elements.
/// @error too_large when the product passes 2^40 elements; out_of_range when an extent is zero
Result<std::size_t> volume(const Shape& shape);

}  // namespace weft
