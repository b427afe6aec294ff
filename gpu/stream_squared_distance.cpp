// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/push.hpp"
#include "gpu/internal/stream.hpp"
#include "gpu/shaders/squared_distance_operands.inc"

namespace weft::gpu {
namespace {

struct DistancePush {
  WEFT_DISTANCE_OPERANDS(WEFT_MEMBER)
};
constexpr std::size_t kDistanceTile = 16;

}  // namespace

void Stream::lower(const ops::SquaredDistances& op) {
  const ConstWeight c = dequantized(op.c);
  static const Shader& kernel = shader("squared_distance");
  const auto dtype = static_cast<std::uint32_t>(c.dtype), granularity = static_cast<std::uint32_t>(c.granularity);
  const WeightRanges ranges(c);
  const DistancePush push{
      address(c.codes), address(c.scales), address(c.zero_points), address(op.x.data), 0, address(op.y.data),
      word(c.out),      word(c.in),        word(op.x.rows),        word(op.x.stride),  0, word(op.y.stride)};
  recorder_->dispatch(kernel, {0, 0, 0, 0, dtype, granularity}, push,
                      {groups_of(op.x.rows, kDistanceTile), kernels::panel_count(c.out)},
                      {ranges.codes, ranges.scales, ranges.zero_points, range(op.x)}, {range(op.y)});
}

void Stream::lower(const ops::SquaredDistancesBackward& op) {
  if (op.x.rows == 0 || op.c.in == 0) return;
  const ConstWeight c = dequantized(op.c);
  static const Shader &inputs = shader("squared_distance_inputs"), &points = shader("squared_distance");
  const auto dtype = static_cast<std::uint32_t>(c.dtype), granularity = static_cast<std::uint32_t>(c.granularity);
  const WeightRanges ranges(c);
  DistancePush push{
      address(c.codes), address(c.scales), address(c.zero_points), address(op.x.data), address(op.dy.data), 0,
      word(c.out),      word(c.in),        word(op.x.rows),        word(op.x.stride),  word(op.dy.stride),  0};
  if (op.dc.data) {
    push.y = address(op.dc.data);
    recorder_->dispatch(
        points, {1, 0, 0, 0, dtype, granularity}, push, {groups_of(c.in, kDistanceTile), kernels::panel_count(c.out)},
        {ranges.codes, ranges.scales, ranges.zero_points, range(op.x), range(op.dy)}, {range(ConstPanels(op.dc))});
  }
  if (op.dx.data) {
    push.y = address(op.dx.data);
    push.y_stride = word(op.dx.stride);
    push.rows = word(op.x.rows * c.in);
    recorder_->dispatch(inputs, {0, 0, 0, 0, dtype, granularity}, push,
                        {groups_of(op.x.rows * c.in, kLaneGroupRows), 1},
                        {ranges.codes, ranges.scales, ranges.zero_points, range(op.x), range(op.dy)}, {range(op.dx)});
  }
}

}  // namespace weft::gpu
