// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu_stream.hpp"

#include <limits>

namespace weft::kernels {

template <class Op>
ops::Answer<Op> CpuStream::accept(const Op& op) {
  if constexpr (requires { op.compute(*this); }) {
    return op.compute(*this);
  } else if constexpr (requires { op.work(); }) {
    // A product of counts that were just stored: it takes longer than a small operation where nobody helps anyway.
    if (!parts_.exceeds_grain(std::numeric_limits<double>::infinity())) return op.compute();
    const ops::Work work = op.work();
    if (!parts_.exceeds_grain(work.cost)) return op.compute();
    const auto run = [&](const ops::Part& part) { part_of(op, part, parts_.workspace_stride()).compute(); };
    if (work.has_columns)
      parts_.elements(work.rows, work.cols, work.cost, run);
    else
      parts_.units(work.rows, work.cost, run);
  } else {
    return op.compute();
  }
}

CpuStream::CpuStream() noexcept : OpStream(op_table<CpuStream>()) {}

void CpuStream::split_units(std::size_t units, double work, Body body, void* context) {
  if (units < 2 || !parts_.exceeds_grain(work)) return body(context, *this, 0, units);
  parts_.units(units, work, [&](const ops::Part& part) {
    CpuStream own;
    own.workspace_shift_ = part.index * parts_.workspace_stride();
    body(context, own, part.row, part.rows);
  });
}

}  // namespace weft::kernels
