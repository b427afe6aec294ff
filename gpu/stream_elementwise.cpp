// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/cut.hpp"
#include "gpu/internal/push.hpp"
#include "gpu/internal/stream.hpp"
#include "gpu/shaders/elementwise_operands.inc"

#include "kernels/unary.hpp"

#include <algorithm>
#include <initializer_list>

namespace weft::gpu {
namespace {

struct ElementwisePush {
  WEFT_ELEMENTWISE_OPERANDS(WEFT_MEMBER)
};
struct UnaryPush {
  WEFT_UNARY_OPERANDS(WEFT_MEMBER)
};

struct GatedBackwardPush {
  WEFT_GATED_BACKWARD_OPERANDS(WEFT_MEMBER)
};

struct RoutePush {
  WEFT_ROUTE_OPERANDS(WEFT_MEMBER)
};

enum Elementwise : std::uint32_t { WEFT_ELEMENTWISE_NUMBERS(WEFT_ENUMERATOR) };
static_assert(static_cast<int>(kernels::Function::exp) == 0 && kApplyCos - kApplyExp + 1 == kernels::kFunctionCount);
static_assert(static_cast<int>(BinaryOp::add) == 0 && static_cast<int>(BinaryOp::min) == 4);

std::uint32_t stride(const ConstMatrixView& m) noexcept { return word(m.stride); }

/// Rows that stand without gaps are one long row: nothing to divide by.
bool are_dense(std::initializer_list<ConstMatrixView> all) noexcept {
  return std::all_of(all.begin(), all.end(), [](const ConstMatrixView& m) { return !m.data || m.stride == m.cols; });
}
/// True when shaders may take four elements at once: rows of whole quads, all aligned.
bool are_quads(std::initializer_list<ConstMatrixView> all) noexcept {
  return std::all_of(all.begin(), all.end(), [](const ConstMatrixView& m) {
    return !m.data || (m.rows == 1 && m.cols % 4 == 0 && address(m.data) % 16 == 0);
  });
}
Groups groups_of_part(const Cut& p, bool quads) noexcept { return quads ? groups_for(p.cols / 4, 256) : p.groups(); }
ConstMatrixView as_row(const ConstMatrixView& m) noexcept { return {m.data, 1, m.rows * m.cols, m.rows * m.cols}; }

void record(Recorder& recorder, std::uint32_t operation, float alpha, ConstMatrixView a, ConstMatrixView b,
            ConstMatrixView y) {
  static const Shader& kernel = shader("elementwise");
  if (are_dense({a, b, y})) a = as_row(a), b = as_row(b), y = as_row(y);
  for_parts(y.rows, y.cols, [&](const Cut& p) {
    const ConstMatrixView pa = part_of(a, p), pb = part_of(b, p), py = part_of(y, p);
    const ElementwisePush push{address(pa.data), address(pb.data), 0,         address(py.data), word(p.rows),
                               word(p.cols),     stride(a),        stride(b), stride(y),        alpha};
    const bool quads = are_quads({pa, pb, py});
    recorder.dispatch(kernel, {operation, quads}, push, groups_of_part(p, quads), {range(pa), range(pb)}, {range(py)});
  });
}

void record_unary(Recorder& recorder, Activation activation, bool backward, ConstMatrixView x, ConstMatrixView dy,
                  ConstMatrixView y) {
  static const Shader& kernel = shader("unary");
  if (are_dense({x, dy, y})) x = as_row(x), dy = as_row(dy), y = as_row(y);
  for_parts(y.rows, y.cols, [&](const Cut& p) {
    const ConstMatrixView px = part_of(x, p), pdy = part_of(dy, p), py = part_of(y, p);
    const UnaryPush push{address(px.data), address(pdy.data), address(py.data), word(p.rows),
                         word(p.cols),     stride(x),         stride(dy),       stride(y)};
    const bool quads = are_quads({px, pdy, py});
    recorder.dispatch(kernel, {static_cast<std::uint32_t>(activation), backward, quads}, push, groups_of_part(p, quads),
                      {range(px), range(pdy)}, {range(py)});
  });
}

/// With a vector c beside the matrices: c[row] or c[column].
void record_beside(Recorder& recorder, std::uint32_t operation, const float* c, bool by_row, const ConstMatrixView& a,
                   const ConstMatrixView& b, const MatrixView& y) {
  static const Shader& kernel = shader("elementwise");
  for_parts(y.rows, y.cols, [&](const Cut& p) {
    const ConstMatrixView pa = part_of(a, p), pb = part_of(b, p), py = part_of(y, p);
    const float* pc = c + (by_row ? p.row : p.col);
    const ElementwisePush push{address(pa.data), address(pb.data), address(pc), address(py.data), word(p.rows),
                               word(p.cols),     stride(a),        stride(b),   stride(y),        0.0f};
    recorder.dispatch(kernel, {operation}, push, p.groups(),
                      {range(pa), range(pb), range(pc, (by_row ? p.rows : p.cols) * sizeof(float))}, {range(py)});
  });
}

}  // namespace

void Stream::lower(const ops::Unary& op) { record_unary(*recorder_, op.activation, false, op.x, {}, op.y); }

void Stream::lower(const ops::UnaryBackward& op) {
  record_unary(*recorder_, op.activation, true, kernels::needs_preactivation(op.activation) ? op.z : op.y, op.dy,
               op.dx);
}

void Stream::lower(const ops::GatedBackward& op) {
  static const Shader& kernel = shader("gated_backward");
  const ConstMatrixView gate = gated_block(op.values, GatedBlock::gate), up = gated_block(op.values, GatedBlock::up),
                        v = kernels::needs_preactivation(op.activation) ? gated_block(op.values, GatedBlock::before)
                                                                        : gate;
  for_parts(op.dy.rows, op.dy.cols, [&](const Cut& p) {
    const ConstMatrixView pv = part_of(v, p), pg = part_of(gate, p), pu = part_of(up, p), pdy = part_of(op.dy, p),
                          to_gate = part_of(op.dgate, p), to_up = part_of(op.dup, p);
    const GatedBackwardPush push{address(pv.data),      address(pg.data),    address(pu.data), address(pdy.data),
                                 address(to_gate.data), address(to_up.data), word(p.rows),     word(p.cols),
                                 stride(op.values),     stride(op.dy),       stride(op.dgate), stride(op.dup)};
    const bool quads = are_quads({pv, pg, pu, pdy, to_gate, to_up});
    recorder_->dispatch(kernel, {static_cast<std::uint32_t>(op.activation), quads}, push, groups_of_part(p, quads),
                        {range(pv), range(pg), range(pu), range(pdy)}, {range(to_gate), range(to_up)});
  });
}

void Stream::lower(const ops::Binary& op) {
  if (add_in_last_linear(op)) return;
  record(*recorder_, static_cast<std::uint32_t>(op.op), 0.0f, op.a, op.b, op.y);
}

void Stream::lower(const ops::Scale& op) { record(*recorder_, kScale, op.alpha, op.x, {}, op.y); }
void Stream::lower(const ops::Axpy& op) { record(*recorder_, kAxpy, op.alpha, op.x, op.y, op.y); }
void Stream::lower(const ops::Copy& op) {
  if (op.x.data == op.y.data) return;
  const ConstMatrixView x = sources_.source_of(*recorder_, op.x);
  const std::size_t before = recorder_->captured();
  record(*recorder_, kCopy, 0.0f, x, {}, op.y);
  if (recorder_->captured() == before + 1) sources_.note_copy(*recorder_, x, op.y);
}
void Stream::lower(const ops::Fill& op) { record(*recorder_, kFill, op.value, {}, {}, op.y); }
void Stream::lower(const ops::SquareRoot& op) { record(*recorder_, kSquareRoot, 0.0f, op.x, {}, op.y); }
void Stream::lower(const ops::SquareRootBackward& op) {
  record(*recorder_, kSquareRootBackward, 0.0f, op.y, op.dy, op.dx);
}
void Stream::lower(const ops::MathFunction& op) {
  record(*recorder_, kApplyExp + static_cast<std::uint32_t>(op.function), 0.0f, op.x, {}, op.y);
}
void Stream::lower(const ops::ClampedLog& op) { record(*recorder_, kClampedLog, 0.0f, op.x, {}, op.y); }
void Stream::lower(const ops::ClampedLogBackward& op) {
  record(*recorder_, kClampedLogBackward, 0.0f, op.x, op.dy, op.dx);
}
void Stream::lower(const ops::ScaleRows& op) { record_beside(*recorder_, kScaleRows, op.s, true, op.x, {}, op.y); }
void Stream::lower(const ops::MaxBackward& op) {
  static const Shader& kernel = shader("max_backward");
  for_parts(op.x.rows, op.x.cols, [&](const Cut& p) {
    const ConstMatrixView from = part_of(op.source, p), largest = part_of(op.x, p), rest = part_of(op.left, p),
                          to = part_of(op.d, p);
    const RoutePush push{address(from.data), address(largest.data), address(rest.data), address(to.data), word(p.rows),
                         word(p.cols),       stride(op.source),     stride(op.x),       stride(op.left),  stride(op.d)};
    recorder_->dispatch(kernel, {}, push, p.groups(), {range(from), range(largest)}, {range(rest), range(to)});
  });
}
void Stream::lower(const ops::GapResidual& op) {
  record_beside(*recorder_, kGapResidual, op.sums, false, op.weighted, op.x, op.d);
}

}  // namespace weft::gpu
