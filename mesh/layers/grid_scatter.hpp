// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace weft::mesh {

/// Puts the parts of a row at places of a grid, zeros elsewhere: part i of `features` values goes to cells[i], an index
/// into the grid. No two parts share a cell. Inside `parallel` only.
/// @shape  x [rows, parts * features] -> y [rows, z, y, x, features]
/// @exact  moves values
std::unique_ptr<Layer> make_grid_scatter(const Shape& grid, std::size_t features, std::vector<std::size_t> cells);

}  // namespace weft::mesh
