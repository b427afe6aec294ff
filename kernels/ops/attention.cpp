// SPDX-License-Identifier: Apache-2.0

#include "kernels/ops/attention.hpp"

#include "kernels/cpu_stream.hpp"

namespace weft::kernels::ops {

// By heads and tokens: a text alone is one row.
void Attention::compute(CpuStream& cpu) const {
  ParallelParts& parts = cpu.parts();
  const std::size_t units = attention_units(shape, y.rows);
  const double work = attention_work(shape, from, y.rows);
  parts.each_cut(units, work, [&](std::size_t unit) { attention_meet(shape, from, next_state, unit); });
  parts.units(units, work, [&](const Part& p) {
    attention_share(shape, from, y, statistics, next_state, {p.row, p.row + p.rows},
                    workspace + p.index * parts.workspace_stride());
  });
  attention_end(shape, from, next_state);
}

}  // namespace weft::kernels::ops
