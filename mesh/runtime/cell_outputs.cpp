// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/cell_outputs.hpp"

#include <algorithm>
#include <cmath>

namespace weft::mesh {

using kernels::MatrixView;

void CellOutputs::keep(const RegionPart& part, std::uint64_t tick, bool faulty_rows_only) noexcept {
  const auto is_faulty = [&](std::size_t b) {
    for (NodeId id = part.first; id < part.first + part.layers; ++id)
      for (const MatrixView rows : {state_.output(id, tick + 1), state_.hidden(id, tick + 1)})
        if (rows.data && !std::all_of(rows.row(b), rows.row(b) + rows.cols, [](float v) { return std::isfinite(v); }))
          return true;
    return false;
  };
  for (std::size_t b = 0; b < state_.sessions(); ++b) {
    if (faulty_rows_only && !is_faulty(b)) continue;
    for (NodeId id = part.first; id < part.first + part.layers; ++id) {
      // Also what backward pairs with the output: nothing of a dropped firing stays, finite or not.
      for (const auto ring : kFiringRings) {
        const MatrixView from = (state_.*ring)(id, tick), to = (state_.*ring)(id, tick + 1);
        if (from.data) std::copy_n(from.row(b), from.cols, to.row(b));
      }
    }
  }
}

void CellOutputs::zero(const RegionPart& part, std::uint64_t tick) noexcept {
  for (NodeId id = part.first; id < part.first + part.layers; ++id) {
    for (const MatrixView rows : {state_.output(id, tick + 1), state_.hidden(id, tick + 1)})
      for (std::size_t b = 0; b < rows.rows && rows.data; ++b) std::fill_n(rows.row(b), rows.cols, 0.0f);
    for (std::size_t b = 0; b < state_.sessions(); ++b) state_.copy_streams(id, b, tick, tick + 1);
  }
}

}  // namespace weft::mesh
