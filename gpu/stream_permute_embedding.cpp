// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/cut.hpp"
#include "gpu/internal/push.hpp"
#include "gpu/internal/stream.hpp"
#include "gpu/shaders/move_operands.inc"

#include <algorithm>

namespace weft::gpu {
namespace {

struct PermutePush {
  WEFT_PERMUTE_OPERANDS(WEFT_MEMBER)
};
struct EmbeddingPush {
  WEFT_EMBEDDING_OPERANDS(WEFT_MEMBER)
};
constexpr std::size_t kMoveThreads = 64;  // of gpu/shaders/embedding.comp

}  // namespace

void Stream::lower(const ops::Permute& op) {
  static const Shader& kernel = shader("permute");
  const std::size_t high = std::max<std::size_t>((std::size_t{1} << 31) / std::max<std::size_t>(op.y.cols, 1), 1);
  for (std::size_t row = 0; row < op.y.rows && op.y.cols > 0; row += high) {
    const std::size_t rows = std::min(high, op.y.rows - row);
    const ConstMatrixView from{op.x.row(row), rows, op.x.cols, op.x.stride},
        to{op.y.row(row), rows, op.y.cols, op.y.stride};
    PermutePush push{address(from.data), address(to.data),  word(rows),
                     word(op.y.cols),    word(op.x.stride), word(op.y.stride)};
    for (std::size_t a = 0; a < op.order.rank; ++a)
      push.extents[a] = word(op.order.extent[a]), push.strides[a] = word(op.order.stride[a]);
    recorder_->dispatch(kernel, {word(op.order.rank)}, push, groups_for(rows * op.y.cols, 256), {range(from)},
                        {range(to)});
  }
}

void Stream::lower(const ops::Embedding& op) {
  const bool by_row = op.entries == kernels::TableEntries::rows;
  const std::size_t features = by_row ? op.w.in : op.w.out;
  if (op.x.rows * op.x.cols * features == 0) return;
  const ConstWeight w = dequantized(op.w);
  static const Shader& kernel = shader("embedding");
  const WeightRanges ranges(w);
  const auto record = [&](const Cut& p) {
    const ConstMatrixView from = part_of(op.x, p);
    const MatrixView to{op.y.row(p.row) + p.col * features, p.rows, p.cols * features, op.y.stride};
    const EmbeddingPush push{address(w.codes),
                             address(w.scales),
                             address(w.zero_points),
                             address(from.data),
                             address(to.data),
                             word(w.out),
                             word(w.in),
                             word(from.rows),
                             word(from.cols),
                             word(from.stride),
                             word(to.stride),
                             0,
                             static_cast<float>(by_row ? w.out : w.in)};
    recorder_->dispatch(
        kernel, {0, by_row, 0, 0, static_cast<std::uint32_t>(w.dtype), static_cast<std::uint32_t>(w.granularity)}, push,
        groups_for(to.rows * to.cols, kMoveThreads), {ranges.codes, ranges.scales, ranges.zero_points, range(from)},
        {range(to)});
  };
  for_parts(op.x.rows, op.x.cols, record, features);
}

void Stream::lower(const ops::EmbeddingBackward& op) {
  static const Shader& kernel = shader("embedding");
  const bool by_row = op.entries == kernels::TableEntries::rows;
  const EmbeddingPush push{address(op.dw.data),
                           0,
                           0,
                           address(op.x.data),
                           address(op.dy.data),
                           word(op.dw.out),
                           word(op.dw.in),
                           word(op.x.rows),
                           word(op.x.cols),
                           word(op.x.stride),
                           word(op.dy.stride),
                           word(std::min<std::size_t>(op.skipped, 0xffffffffu)),
                           static_cast<float>(by_row ? op.dw.out : op.dw.in)};
  recorder_->dispatch(kernel, {1, by_row, 0, 0, 1, 0}, push, groups_for(by_row ? op.dw.in : op.dw.out, kMoveThreads),
                      {range(op.x), range(op.dy)}, {range(ConstPanels(op.dw))});
}

}  // namespace weft::gpu
