// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/parts.hpp"
#include "gpu/internal/stream.hpp"

#include "kernels/unary.hpp"

#include <algorithm>
#include <initializer_list>

namespace weft::gpu {
namespace {

struct ElementwisePush {
  std::uint64_t a, b, c, y;
  std::uint32_t rows, cols, a_stride, b_stride, y_stride;
  float alpha;
};
struct UnaryPush {
  std::uint64_t x, dy, y;
  std::uint32_t rows, cols, x_stride, dy_stride, y_stride;
};

struct GatedBackwardPush {
  std::uint64_t v, gate, up, dy, dgate, dup;
  std::uint32_t rows, cols, v_stride, dy_stride, dgate_stride, dup_stride;
};

struct RoutePush {
  std::uint64_t source, x, left, d;
  std::uint32_t rows, cols, source_stride, x_stride, left_stride, d_stride;
};

// Row numbers that gpu/shaders/elementwise.comp has. The first five are BinaryOp's.
enum Elementwise : std::uint32_t {
  kScale = 5,
  kAxpy,
  kCopy,
  kFill,
  kScaleRows,
  kGapDisplacement,
  kSquareRoot,
  kSquareRootBackward,
  kLogFloored,
  kLogFlooredBackward
};
static_assert(static_cast<int>(BinaryOp::add) == 0 && static_cast<int>(BinaryOp::min) == 4);
// The numbers of gpu/shaders/activations.glsl.
static_assert(static_cast<int>(Activation::linear) == 0 && static_cast<int>(Activation::gelu) == 5 &&
              static_cast<int>(Activation::softplus) == 9 && static_cast<int>(Activation::mish) == 11 &&
              kernels::kActivationCount == 12);

std::uint32_t stride(const ConstRows& m) noexcept { return word(m.stride); }

/// Rows that stand without gaps are one long row: nothing to divide by.
bool are_dense(std::initializer_list<ConstRows> all) noexcept {
  return std::all_of(all.begin(), all.end(), [](const ConstRows& m) { return !m.data || m.stride == m.cols; });
}
/// Whether shaders may take four elements at once: a row of whole quads, all aligned.
bool are_quads(std::initializer_list<ConstRows> all) noexcept {
  return std::all_of(all.begin(), all.end(), [](const ConstRows& m) {
    return !m.data || (m.rows == 1 && m.cols % 4 == 0 && address(m.data) % 16 == 0);
  });
}
Groups groups_of_part(const Cut& p, bool quads) noexcept { return quads ? groups_for(p.cols / 4, 256) : p.groups(); }
ConstRows as_row(const ConstRows& m) noexcept { return {m.data, 1, m.rows * m.cols, m.rows * m.cols}; }

void record(Recorder& recorder, std::uint32_t operation, float alpha, ConstRows a, ConstRows b, ConstRows y) {
  static const Shader& kernel = shader("elementwise");
  if (are_dense({a, b, y})) a = as_row(a), b = as_row(b), y = as_row(y);
  for_parts(y.rows, y.cols, [&](const Cut& p) {
    const ConstRows pa = part_of(a, p), pb = part_of(b, p), py = part_of(y, p);
    const ElementwisePush push{address(pa.data), address(pb.data), 0,         address(py.data), word(p.rows),
                               word(p.cols),     stride(a),        stride(b), stride(y),        alpha};
    const bool quads = are_quads({pa, pb, py});
    recorder.dispatch(kernel, {operation, quads}, push, groups_of_part(p, quads), {range(pa), range(pb)}, {range(py)});
  });
}

void record_unary(Recorder& recorder, Activation activation, bool backward, ConstRows x, ConstRows dy, ConstRows y) {
  static const Shader& kernel = shader("unary");
  if (are_dense({x, dy, y})) x = as_row(x), dy = as_row(dy), y = as_row(y);
  for_parts(y.rows, y.cols, [&](const Cut& p) {
    const ConstRows px = part_of(x, p), pdy = part_of(dy, p), py = part_of(y, p);
    const UnaryPush push{address(px.data), address(pdy.data), address(py.data), word(p.rows),
                         word(p.cols),     stride(x),         stride(dy),       stride(y)};
    const bool quads = are_quads({px, pdy, py});
    recorder.dispatch(kernel, {static_cast<std::uint32_t>(activation), backward, quads}, push, groups_of_part(p, quads),
                      {range(px), range(pdy)}, {range(py)});
  });
}

/// With a vector c beside the matrices: c[row] or c[column].
void record_beside(Recorder& recorder, std::uint32_t operation, const float* c, bool by_row, const ConstRows& a,
                   const ConstRows& b, const Rows& y) {
  static const Shader& kernel = shader("elementwise");
  for_parts(y.rows, y.cols, [&](const Cut& p) {
    const ConstRows pa = part_of(a, p), pb = part_of(b, p), py = part_of(y, p);
    const float* pc = c + (by_row ? p.row : p.col);
    const ElementwisePush push{address(pa.data), address(pb.data), address(pc), address(py.data), word(p.rows),
                               word(p.cols),     stride(a),        stride(b),   stride(y),        0.0f};
    recorder.dispatch(kernel, {operation}, push, p.groups(),
                      {range(pa), range(pb), range(pc, (by_row ? p.rows : p.cols) * sizeof(float))}, {range(py)});
  });
}

}  // namespace

void Stream::unary(Activation activation, const ConstRows& x, const Rows& y) {
  record_unary(*recorder_, activation, false, x, {}, y);
}

void Stream::unary_backward(Activation activation, const ConstRows& z, const ConstRows& y, const ConstRows& dy,
                            const Rows& dx) {
  record_unary(*recorder_, activation, true, kernels::needs_preactivation(activation) ? z : y, dy, dx);
}

void Stream::gated_backward(Activation activation, const ConstRows& values, const ConstRows& dy, const Rows& dgate,
                            const Rows& dup) {
  static const Shader& kernel = shader("gated_backward");
  const ConstRows gate = gated_block(values, GatedBlock::gate), up = gated_block(values, GatedBlock::up),
                  v = kernels::needs_preactivation(activation) ? gated_block(values, GatedBlock::before) : gate;
  for_parts(dy.rows, dy.cols, [&](const Cut& p) {
    const ConstRows pv = part_of(v, p), pg = part_of(gate, p), pu = part_of(up, p), pdy = part_of(dy, p),
                    to_gate = part_of(dgate, p), to_up = part_of(dup, p);
    const GatedBackwardPush push{address(pv.data),      address(pg.data),    address(pu.data), address(pdy.data),
                                 address(to_gate.data), address(to_up.data), word(p.rows),     word(p.cols),
                                 stride(values),        stride(dy),          stride(dgate),    stride(dup)};
    const bool quads = are_quads({pv, pg, pu, pdy, to_gate, to_up});
    recorder_->dispatch(kernel, {static_cast<std::uint32_t>(activation), quads}, push, groups_of_part(p, quads),
                        {range(pv), range(pg), range(pu), range(pdy)}, {range(to_gate), range(to_up)});
  });
}

void Stream::binary(BinaryOp op, const ConstRows& a, const ConstRows& b, const Rows& y) {
  record(*recorder_, static_cast<std::uint32_t>(op), 0.0f, a, b, y);
}

void Stream::scale(float alpha, const ConstRows& x, const Rows& y) { record(*recorder_, kScale, alpha, x, {}, y); }
void Stream::axpy(float alpha, const ConstRows& x, const Rows& y) { record(*recorder_, kAxpy, alpha, x, y, y); }
void Stream::copy(const ConstRows& x, const Rows& y) {
  if (x.data != y.data) record(*recorder_, kCopy, 0.0f, x, {}, y);
}
void Stream::fill(float value, const Rows& y) { record(*recorder_, kFill, value, {}, {}, y); }
void Stream::square_root(const ConstRows& x, const Rows& y) { record(*recorder_, kSquareRoot, 0.0f, x, {}, y); }
void Stream::square_root_backward(const ConstRows& y, const ConstRows& dy, const Rows& dx) {
  record(*recorder_, kSquareRootBackward, 0.0f, y, dy, dx);
}
void Stream::log_floored(const ConstRows& x, const Rows& y) { record(*recorder_, kLogFloored, 0.0f, x, {}, y); }
void Stream::log_floored_backward(const ConstRows& x, const ConstRows& dy, const Rows& dx) {
  record(*recorder_, kLogFlooredBackward, 0.0f, x, dy, dx);
}
void Stream::scale_rows(const float* s, const ConstRows& x, const Rows& y) {
  record_beside(*recorder_, kScaleRows, s, true, x, {}, y);
}
void Stream::route_equal(const ConstRows& source, const ConstRows& x, const Rows& left, const Rows& d) {
  static const Shader& kernel = shader("route_equal");
  for_parts(x.rows, x.cols, [&](const Cut& p) {
    const ConstRows from = part_of(source, p), largest = part_of(x, p), rest = part_of(left, p), to = part_of(d, p);
    const RoutePush push{address(from.data), address(largest.data), address(rest.data), address(to.data), word(p.rows),
                         word(p.cols),       stride(source),        stride(x),          stride(left),     stride(d)};
    recorder_->dispatch(kernel, {}, push, p.groups(), {range(from), range(largest)}, {range(rest), range(to)});
  });
}
void Stream::gap_displacement(const ConstRows& weighted, const float* sums, const ConstRows& x, const Rows& d) {
  record_beside(*recorder_, kGapDisplacement, sums, false, weighted, x, d);
}

}  // namespace weft::gpu
