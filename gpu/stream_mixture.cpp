// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/cut.hpp"
#include "gpu/internal/push.hpp"
#include "gpu/internal/stream.hpp"
#include "gpu/shaders/mixture_operands.inc"

namespace weft::gpu {
namespace {

struct MixturePush {
  WEFT_MIXTURE_OPERANDS(WEFT_MEMBER)
};
struct ChoosePush {
  WEFT_CHOOSE_OPERANDS(WEFT_MEMBER)
};

void record(Recorder& recorder, bool backward, bool clear, const ConstMatrixView& p, const ConstMatrixView& x,
            const ConstMatrixView& y, std::size_t cols) {
  static const Shader& kernel = shader("mixture");
  for_parts(y.rows, y.cols, [&](const Cut& cut) {
    const auto rows_of = [&](const ConstMatrixView& m) {
      return ConstMatrixView{m.row(cut.row), cut.rows, m.cols, m.stride};
    };
    const ConstMatrixView weights = rows_of(p), from = rows_of(x), to = rows_of(y);
    const MixturePush push{address(weights.data), address(from.data), address(to.data), word(cut.rows), word(cols),
                           word(p.cols),          word(p.stride),     word(x.stride),   word(y.stride)};
    recorder.dispatch(kernel, {backward, clear}, push, cut.groups(), {range(weights), range(from)}, {range(to)});
  });
}

void choose(Recorder& recorder, bool keep, const ConstMatrixView& x, std::size_t most, const MatrixView& y) {
  static const Shader& kernel = shader("choose");
  if (x.cols == 0) return;
  const ChoosePush push{address(x.data), address(y.data), word(x.rows), word(x.cols),
                        word(x.stride),  word(y.stride),  word(most)};
  recorder.dispatch(kernel, {keep}, push, {groups_of(x.rows, kLaneGroupRows), 1}, {range(x)}, {range(y)});
}

}  // namespace

void Stream::lower(const ops::WeightedSum& op) { record(*recorder_, false, false, op.p, op.x, op.y, op.y.cols); }

void Stream::lower(const ops::WeightedSumBackward& op) {
  for (std::size_t e = 0; e < op.p.cols; ++e)
    record_dots(op.dy, {op.x.data + e * op.dy.cols, op.x.rows, op.dy.cols, op.x.stride}, op.dp.data + e, op.dp.stride);
  record(*recorder_, false, true, op.p, op.p, op.dp, op.dy.cols);
  record(*recorder_, true, false, op.p, op.dy, op.dx, op.dy.cols);
}

void Stream::lower(const ops::ArgmaxOneHot& op) { choose(*recorder_, false, op.x, 0, op.y); }

void Stream::lower(const ops::TopKMask& op) {
  if (op.x.data != op.y.data) return choose(*recorder_, true, op.x, std::min(op.count, op.x.cols), op.y);
  // In place, an element's neighbours would change under it: choose from a copy.
  float* const copied =
      reinterpret_cast<float*>(static_cast<std::uintptr_t>(scratch(op.x.rows * op.x.cols * sizeof(float))));
  const MatrixView from{copied, op.x.rows, op.x.cols, op.x.cols};
  lower(ops::Copy{op.x, from});
  choose(*recorder_, true, from, std::min(op.count, op.x.cols), op.y);
}

}  // namespace weft::gpu
