// SPDX-License-Identifier: Apache-2.0

#include "kernels/linear.hpp"

#include <algorithm>

namespace weft::kernels {

void pack_panels(const ConstMatrixView& rows, const Panels& panels) noexcept {
  const std::size_t in = panels.in;
  for (std::size_t first = 0; first < panels.out; first += kPanelWidth) {
    float* panel = panels.data + panel_index(in, first, 0);
    const std::size_t width = std::min(kPanelWidth, panels.out - first);
    for (std::size_t k = 0; k < in; ++k)
      for (std::size_t lane = 0; lane < kPanelWidth; ++lane)
        panel[k * kPanelWidth + lane] = lane < width ? rows.row(first + lane)[k] : 0.0f;
  }
}

void unpack_panels(const ConstPanels& panels, const MatrixView& rows) noexcept {
  for (std::size_t o = 0; o < panels.out; ++o) {
    const float* lane = panels.data + panel_index(panels.in, o, 0);
    for (std::size_t k = 0; k < panels.in; ++k) rows.row(o)[k] = lane[k * kPanelWidth];
  }
}

}  // namespace weft::kernels
