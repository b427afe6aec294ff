// SPDX-License-Identifier: Apache-2.0

#include "kernels/ops/linear.hpp"

#include "kernels/binary.hpp"
#include "kernels/cpu_stream.hpp"
#include "kernels/internal/integer_batch.hpp"
#include "kernels/linear.hpp"
#include "kernels/linear_dequantized.hpp"
#include "kernels/linear_integer.hpp"
#include "kernels/unary.hpp"

#include <algorithm>

namespace weft::kernels::ops {
namespace {

/// Rows and columns of a part; without data nothing.
template <class View>
View part_of(const View& all, const Part& p) noexcept {
  return {all.data ? all.row(p.row) + p.col : nullptr, p.rows, p.cols, all.stride};
}
template <class View>
View rows_of(const View& all, const Part& p) noexcept {
  return {all.data ? all.row(p.row) : nullptr, p.rows, all.cols, all.stride};
}
/// The outputs of a part, whole panels.
ConstWeight outputs_of(const ConstWeight& w, const Part& p) noexcept {
  return panel_range(w, p.col / kPanelWidth, panel_count(p.cols));
}

void linear_as_stored(const ConstWeight& w, const float* bias, const ConstMatrixView& x, Activation activation,
                      const MatrixView& z, const MatrixView& y, const ConstPanels& ahead) noexcept {
  if (w.dtype == Dtype::float32)
    linear(w.panels(), bias, x, activation, z, y, ahead);
  else if (sums_integers(w))
    linear_integer(w, bias, x, activation, z, y);
  else
    linear_dequantized(w, bias, x, activation, z, y);
}

// Rows from which on threads pack them together: where weights are cut, each thread would else pack all of them, on 16
// threads and 512 rows half of its time.
constexpr std::size_t kSharedRows = 16;
// Values of gates that are multiplied before more are computed: 64 KiB, which stay in a second-level cache.
constexpr std::size_t kNearFloats = 1 << 14;
// Rows for each thread from which on they are cut all the same, as each thread unpacks what it reads.
constexpr std::size_t kManyPackedRows = 1024;

void pack(const detail::IntegerBatch& batch, std::size_t rows, double work, ParallelParts& parts) {
  if (rows < kSharedRows) return batch.pack(0, batch.parts());
  parts.units(batch.parts(), work, [&](const Part& p) { batch.pack(p.row, p.row + p.rows); });
}

bool cuts_weights(std::size_t rows, const ParallelParts& parts) noexcept {
  return rows < kManyPackedRows * parts.threads();
}

/// True when rows packed for one of the weights serve the other too.
bool packs_alike(const ConstWeight& a, const ConstWeight& b) noexcept {
  return sums_integers(a) && sums_integers(b) && a.in == b.in && detail::code_form(a) == detail::code_form(b);
}

}  // namespace

void Linear::compute(CpuStream& cpu) const {
  const ConstPanels ahead = cpu.take_expected();
  const double work = product(w.out, w.in, x.rows);
  ParallelParts& parts = cpu.parts();
  if (!parts.exceeds_grain(work)) return linear_as_stored(w, bias, x, activation, z, y, ahead);
  if (sums_integers(w) && x.rows >= kSharedRows && cuts_weights(x.rows, parts)) {
    const detail::IntegerBatch batch(w, x);
    pack(batch, x.rows, work, parts);
    return parts.panels(x.rows, w.out, work, [&](const Part& p) {
      batch.compute(outputs_of(w, p), bias ? bias + p.col : nullptr, activation, part_of(z, p), part_of(y, p));
    });
  }
  parts.outputs(x.rows, w.out, work, [&](const Part& p) {
    linear_as_stored(outputs_of(w, p), bias ? bias + p.col : nullptr, rows_of(x, p), activation, part_of(z, p),
                     part_of(y, p), ahead);
  });
}

// Each part's product is made while its operands are in cache.
void GatedLinear::compute(CpuStream& cpu) const {
  const ConstPanels ahead = cpu.take_expected();
  const std::size_t out = w.gate.out;
  const double work = 2 * product(out, w.gate.in, x.rows);
  ParallelParts& parts = cpu.parts();
  if (packs_alike(w.gate, w.up) && x.rows > 0 && !(parts.exceeds_grain(work) && !cuts_weights(x.rows, parts))) {
    const detail::IntegerBatch batch(w.gate, x);
    pack(batch, x.rows, work, parts);
    const auto run = [&](const Part& p) {
      const auto block = [&](GatedBlock which) { return part_of(gated_block(y, which), p); };
      batch.compute(outputs_of(w.gate, p), w.gate_bias ? w.gate_bias + p.col : nullptr, activation,
                    block(GatedBlock::before), block(GatedBlock::gate));
      batch.compute(outputs_of(w.up, p), w.up_bias ? w.up_bias + p.col : nullptr, Activation::linear, {},
                    block(GatedBlock::up));
      binary(BinaryOp::mul, block(GatedBlock::gate), block(GatedBlock::up), block(GatedBlock::product));
    };
    const std::size_t cols = std::max<std::size_t>(kNearFloats / x.rows / kPanelWidth, 1) * kPanelWidth;
    return parts.panels(x.rows, out, work, [&](const Part& p) {
      for (std::size_t o = 0; o < p.cols; o += cols)
        run({p.index, p.row, p.rows, p.col + o, std::min(cols, p.cols - o)});
    });
  }
  parts.outputs(x.rows, out, work, [&](const Part& p) {
    const ConstWeight gate = outputs_of(w.gate, p), up = outputs_of(w.up, p);
    const ConstMatrixView from = rows_of(x, p);
    const auto block = [&](GatedBlock which) { return part_of(gated_block(y, which), p); };
    linear_as_stored(gate, w.gate_bias ? w.gate_bias + p.col : nullptr, from, activation, block(GatedBlock::before),
                     block(GatedBlock::gate), up.dtype == Dtype::float32 ? up.panels() : ConstPanels{});
    linear_as_stored(up, w.up_bias ? w.up_bias + p.col : nullptr, from, Activation::linear, {}, block(GatedBlock::up),
                     ahead);
    binary(BinaryOp::mul, block(GatedBlock::gate), block(GatedBlock::up), block(GatedBlock::product));
  });
}

void GatedBackward::compute(CpuStream& cpu) const {
  cpu.parts().elements(dy.rows, dy.cols, 3 * kMoved * product(dy.rows, dy.cols), [&](const Part& p) {
    const auto block = [&](GatedBlock which) { return part_of(gated_block(values, which), p); };
    const MatrixView to_gate = part_of(dgate, p);
    binary(BinaryOp::mul, part_of(dy, p), block(GatedBlock::gate), part_of(dup, p));
    binary(BinaryOp::mul, part_of(dy, p), block(GatedBlock::up), to_gate);
    unary_backward(activation, block(GatedBlock::before), block(GatedBlock::gate), to_gate, to_gate);
  });
}

void LinearTransposed::compute(CpuStream& cpu) const {
  ParallelParts& parts = cpu.parts();
  const double work = product(w.out, w.in, dy.rows);
  if (w.dtype != Dtype::float32)
    return parts.units(dy.rows, work,
                       [&](const Part& p) { linear_transposed_dequantized(w, rows_of(dy, p), rows_of(dx, p)); });
  if (!parts.exceeds_grain(work)) return linear_transposed(w.panels(), dy, dx);
  if (parts.has_many(dy.rows))
    return parts.units(dy.rows, work,
                       [&](const Part& p) { linear_transposed(w.panels(), rows_of(dy, p), rows_of(dx, p)); });
  parts.columns(w.in, work, [&](const Part& p) { linear_transposed_range(w.panels(), dy, dx, p.col, p.cols); });
}

void OuterAccumulate::compute(CpuStream& cpu) const {
  cpu.parts().units(panel_count(dw.out), product(dw.out, dw.in, dy.rows), [&](const Part& p) {
    const std::size_t o = p.row * kPanelWidth, out = std::min(dw.out, o + p.rows * kPanelWidth) - o;
    outer_accumulate(part_of(dy, {0, 0, dy.rows, o, out}), x, {dw.data + o * dw.in, out, dw.in});
  });
}

void ColumnL1Norms::compute() const {
  if (w.dtype == Dtype::float32)
    column_l1_norms(w.panels(), s);
  else
    column_l1_norms_dequantized(w, s);
}

}  // namespace weft::kernels::ops
