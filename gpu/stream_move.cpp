// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/parts.hpp"
#include "gpu/internal/stream.hpp"

#include <algorithm>

namespace weft::gpu {
namespace {

struct PermutePush {
  std::uint64_t x, y;
  std::uint32_t rows, cols, x_stride, y_stride;
  std::uint32_t extents[AxisOrder::kMaxRank], strides[AxisOrder::kMaxRank];
};
struct EmbeddingPush {
  std::uint64_t w, scales, zeros, x, y;
  std::uint32_t outputs, inputs, rows, tokens, x_stride, y_stride, skipped;
  float columns;
};
constexpr std::size_t kThreads = 64;  // of gpu/shaders/embedding.comp

}  // namespace

void Stream::permute(const ConstRows& x, const AxisOrder& order, const Rows& y) {
  static const Shader& kernel = shader("permute");
  const std::size_t high = std::max<std::size_t>((std::size_t{1} << 31) / std::max<std::size_t>(y.cols, 1), 1);
  for (std::size_t row = 0; row < y.rows && y.cols > 0; row += high) {
    const std::size_t rows = std::min(high, y.rows - row);
    const ConstRows from{x.row(row), rows, x.cols, x.stride}, to{y.row(row), rows, y.cols, y.stride};
    PermutePush push{address(from.data), address(to.data), word(rows), word(y.cols),
                     word(x.stride),     word(y.stride),   {},         {}};
    for (std::size_t a = 0; a < order.rank; ++a)
      push.extents[a] = word(order.extent[a]), push.strides[a] = word(order.stride[a]);
    recorder_->dispatch(kernel, {word(order.rank)}, push, groups_for(rows * y.cols, 256), {range(from)}, {range(to)});
  }
}

void Stream::embedding(const ConstWeight& stored, const ConstRows& x, const Rows& y) {
  if (x.rows * x.cols * stored.out == 0) return;
  const ConstWeight w = decoded(stored);
  static const Shader& kernel = shader("embedding");
  const WeightRanges ranges(w);
  const auto record = [&](const Cut& p) {
    const ConstRows from = part_of(x, p);
    const Rows to{y.row(p.row) + p.col * w.out, p.rows, p.cols * w.out, y.stride};
    const EmbeddingPush push{address(w.codes),        address(w.scales), address(w.zeros), address(from.data),
                             address(to.data),        word(w.out),       word(w.in),       word(from.rows),
                             word(from.cols),         word(from.stride), word(to.stride),  0,
                             static_cast<float>(w.in)};
    recorder_->dispatch(
        kernel, {0, 0, 0, 0, static_cast<std::uint32_t>(w.dtype), static_cast<std::uint32_t>(w.granularity)}, push,
        groups_for(to.rows * to.cols, kThreads), {ranges.codes, ranges.scales, ranges.zeros, range(from)}, {range(to)});
  };
  for_parts(x.rows, x.cols, record, w.out);
}

void Stream::embedding_backward(const ConstRows& x, const ConstRows& dy, std::size_t skipped, const Panels& dw) {
  static const Shader& kernel = shader("embedding");
  const EmbeddingPush push{address(dw.data),
                           0,
                           0,
                           address(x.data),
                           address(dy.data),
                           word(dw.out),
                           word(dw.in),
                           word(x.rows),
                           word(x.cols),
                           word(x.stride),
                           word(dy.stride),
                           word(std::min<std::size_t>(skipped, 0xffffffffu)),
                           static_cast<float>(dw.in)};
  recorder_->dispatch(kernel, {1, 0, 0, 0, 1, 0}, push, groups_for(dw.out, kThreads), {range(x), range(dy)},
                      {range(ConstPanels(dw))});
}

}  // namespace weft::gpu
