// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Passes its input on, one tick later: a delay line, or the carrier of a combine mode.
/// @shape x [rows, in] -> y [rows, in]
Result<std::unique_ptr<Layer>> make_identity(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
