// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/stream.hpp"

namespace weft::gpu {
namespace {

struct DistancePush {
  std::uint64_t c, scales, zeros, x, dy, y;
  std::uint32_t points, features, rows, x_stride, dy_stride, y_stride;
};
constexpr std::size_t kTile = 16;

}  // namespace

void Stream::squared_distances(const ConstWeight& stored, const ConstRows& x, const Rows& y) {
  const ConstWeight c = decoded(stored);
  static const Shader& kernel = shader("distance");
  const auto dtype = static_cast<std::uint32_t>(c.dtype), granularity = static_cast<std::uint32_t>(c.granularity);
  const WeightRanges ranges(c);
  const DistancePush push{address(c.codes), address(c.scales), address(c.zeros), address(x.data), 0, address(y.data),
                          word(c.out),      word(c.in),        word(x.rows),     word(x.stride),  0, word(y.stride)};
  recorder_->dispatch(kernel, {0, 0, 0, 0, dtype, granularity}, push,
                      {groups_of(x.rows, kTile), kernels::panel_count(c.out)},
                      {ranges.codes, ranges.scales, ranges.zeros, range(x)}, {range(y)});
}

void Stream::squared_distances_backward(const ConstWeight& stored, const ConstRows& x, const ConstRows& dy,
                                        const Rows& dx, const Panels& dc) {
  if (x.rows == 0 || stored.in == 0) return;
  const ConstWeight c = decoded(stored);
  static const Shader &inputs = shader("distance_inputs"), &points = shader("distance");
  const auto dtype = static_cast<std::uint32_t>(c.dtype), granularity = static_cast<std::uint32_t>(c.granularity);
  const WeightRanges ranges(c);
  DistancePush push{address(c.codes), address(c.scales), address(c.zeros), address(x.data), address(dy.data), 0,
                    word(c.out),      word(c.in),        word(x.rows),     word(x.stride),  word(dy.stride),  0};
  if (dc.data) {
    push.y = address(dc.data);
    recorder_->dispatch(points, {1, 0, 0, 0, dtype, granularity}, push,
                        {groups_of(c.in, kTile), kernels::panel_count(c.out)},
                        {ranges.codes, ranges.scales, ranges.zeros, range(x), range(dy)}, {range(ConstPanels(dc))});
  }
  if (dx.data) {
    push.y = address(dx.data);
    push.y_stride = word(dx.stride);
    push.rows = word(x.rows * c.in);
    recorder_->dispatch(inputs, {0, 0, 0, 0, dtype, granularity}, push, {groups_of(x.rows * c.in, kLaneGroupRows), 1},
                        {ranges.codes, ranges.scales, ranges.zeros, range(x), range(dy)}, {range(dx)});
  }
}

}  // namespace weft::gpu
