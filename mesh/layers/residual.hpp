// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Sum of its sources: the branch and the skip. The sources are always combined by `add`.
/// @shape sources of equal width n, at least two -> y [rows, n]
/// @source He et al. 2016, "Deep residual learning", eq. 1, arXiv:1512.03385
Result<std::unique_ptr<Layer>> make_residual(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
