// SPDX-License-Identifier: Apache-2.0

#include "kernels/ops/rows.hpp"

#include "kernels/cpu_stream.hpp"
#include "kernels/finite.hpp"

#include <atomic>

namespace weft::kernels::ops {

void ColumnAccumulate::compute(CpuStream& cpu) const {
  cpu.parts().columns(a.cols, kMoved * product(a.rows, a.cols), [&](const Part& p) {
    column_accumulate({a.data + p.col, a.rows, p.cols, a.stride}, s + p.col);
  });
}

bool IsFinite::compute(CpuStream& cpu) const {
  std::atomic<bool> all{true};
  cpu.parts().elements(x.rows, x.cols, kMoved / 2 * product(x.rows, x.cols), [&](const Part& p) {
    if (!is_finite({x.data ? x.row(p.row) + p.col : nullptr, p.rows, p.cols, x.stride}))
      all.store(false, std::memory_order_relaxed);
  });
  return all.load(std::memory_order_relaxed);
}

}  // namespace weft::kernels::ops
