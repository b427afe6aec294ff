// SPDX-License-Identifier: Apache-2.0

#include "kernels/ops/window.hpp"

#include "kernels/cpu_stream.hpp"

namespace weft::kernels::ops {

void ConvolveOuter::compute(CpuStream& cpu) const {
  ParallelParts& parts = cpu.parts();
  parts.units(dw.in, convolve_cost(window, dw.out, x.rows), [&](const Part& p) {
    convolve_outer(window, dy, x, dw, p.row, p.rows, workspace + p.index * parts.workspace_stride());
  });
}

}  // namespace weft::kernels::ops
