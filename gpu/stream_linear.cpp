// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/stream.hpp"

#include <algorithm>
#include <bit>

namespace weft::gpu {
namespace {

// Push constants, as the shaders declare them.
struct LinearPush {
  std::uint64_t w, bias, x, z, y;
  std::uint32_t outputs, inputs, rows, x_stride, z_stride, y_stride;
};
struct TransposedPush {
  std::uint64_t w, dy, dx;
  std::uint32_t outputs, inputs, rows, dy_stride, dx_stride;
};
struct OuterPush {
  std::uint64_t dy, x, dw;
  std::uint32_t outputs, inputs, rows, dy_stride, x_stride;
};

// Rows from which a tile of 64 rows is better than reading the weights once a row.
constexpr std::size_t kTileRows = 5;
constexpr std::size_t kTile = 64;
// linear_row.comp has 32 places for chunks of a panel.
constexpr std::size_t kPlaces = 32;

}  // namespace

void Stream::linear(const ConstWeight& w, const float* bias, const ConstRows& x, Activation activation, const Rows& z,
                    const Rows& y) {
  if (!accepts(Op::linear, w) || x.rows == 0 || w.out == 0) return;
  const LinearPush push{address(w.codes), address(bias), address(x.data), address(z.data), address(y.data), word(w.out),
                        word(w.in),       word(x.rows),  word(x.stride),  word(z.stride),  word(y.stride)};
  const auto kind = static_cast<std::uint32_t>(activation);
  const auto reads = {range(w.panels()), range(bias, w.out * sizeof(float)), range(x)};
  const auto writes = {range(z), range(y)};
  if (x.rows < kTileRows) {
    static const Shader& kernel = shader("linear_row");
    const std::size_t slots =
        std::min(kPlaces, std::bit_ceil(std::max<std::size_t>(groups_of(w.in, kernels::kChunk), 1)));
    const std::size_t panels = kernels::panel_count(w.out);
    recorder_->dispatch(kernel, {kind, word(slots)}, push, {groups_of(panels, kPlaces / slots), x.rows}, reads, writes);
  } else {
    static const Shader& kernel = shader("linear_tile");
    recorder_->dispatch(kernel, {kind}, push, {groups_of(w.out, kTile), groups_of(x.rows, kTile)}, reads, writes);
  }
}

void Stream::linear_transposed(const ConstWeight& w, const ConstRows& dy, const Rows& dx) {
  if (!accepts(Op::linear_transposed, w) || dy.rows == 0 || w.in == 0) return;
  static const Shader& kernel = shader("linear_transposed");
  const TransposedPush push{address(w.codes), address(dy.data), address(dx.data), word(w.out),
                            word(w.in),       word(dy.rows),    word(dy.stride),  word(dx.stride)};
  // One row is bound by memory: threads for few inputs each. Many rows use a weight several times.
  const std::size_t inputs = dy.rows == 1 ? 1 : 4, rows = dy.rows == 1 ? 1 : 4;
  recorder_->dispatch(kernel, {0, word(inputs), word(rows), 0}, push,
                      {groups_of(w.in, 4 * inputs), groups_of(dy.rows, rows)}, {range(w.panels()), range(dy)},
                      {range(dx)});
}

void Stream::absolute_column_sums(const ConstWeight& w, float* s) {
  if (!accepts(Op::absolute_column_sums, w) || w.in == 0) return;
  static const Shader& kernel = shader("linear_transposed");
  const TransposedPush push{address(w.codes), 0, address(s), word(w.out), word(w.in), 1, 0, 0};
  recorder_->dispatch(kernel, {0, 1, 1, 1}, push, {groups_of(w.in, 4), 1}, {range(w.panels())},
                      {range(s, w.in * sizeof(float))});
}

void Stream::outer_accumulate(const ConstRows& dy, const ConstRows& x, const Panels& dw) {
  if (dy.rows == 0 || dw.out == 0 || dw.in == 0) return;
  static const Shader& kernel = shader("outer_accumulate");
  const OuterPush push{address(dy.data), address(x.data), address(dw.data), word(dw.out),
                       word(dw.in),      word(dy.rows),   word(dy.stride),  word(x.stride)};
  constexpr std::size_t kInputs = 128;  // of a group
  recorder_->dispatch(kernel, {}, push, {groups_of(dw.in, kInputs), kernels::panel_count(dw.out)},
                      {range(dy), range(x)}, {range(ConstPanels(dw))});
}

}  // namespace weft::gpu
