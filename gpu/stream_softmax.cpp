// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/push.hpp"
#include "gpu/internal/stream.hpp"
#include "gpu/shaders/softmax_operands.inc"

namespace weft::gpu {
namespace {

struct SoftmaxPush {
  WEFT_SOFTMAX_OPERANDS(WEFT_MEMBER)
};

struct EntmaxPush {
  WEFT_ENTMAX_OPERANDS(WEFT_MEMBER)
};

enum Softmax : std::uint32_t { WEFT_SOFTMAX_NUMBERS(WEFT_ENUMERATOR) };

void record(Recorder& recorder, Softmax operation, float temperature, const ConstMatrixView& x,
            const ConstMatrixView& dy, const ConstMatrixView& base, const ConstMatrixView& y,
            const ConstMatrixView& beside) {
  static const Shader& kernel = shader("softmax");
  if (x.cols == 0) return;
  const SoftmaxPush push{address(x.data),      address(dy.data),  address(base.data), address(y.data),
                         address(beside.data), word(x.rows),      word(x.cols),       word(x.stride),
                         word(dy.stride),      word(base.stride), word(y.stride),     word(beside.stride),
                         temperature};
  recorder.dispatch(kernel, {operation}, push, {groups_of(x.rows, kLaneGroupRows), 1},
                    {range(x), range(dy), range(base)}, {range(y), range(beside)});
}

void record_entmax(Recorder& recorder, bool backward, float k, float temperature, const ConstMatrixView& x,
                   const ConstMatrixView& dy, const ConstMatrixView& y) {
  static const Shader& kernel = shader("entmax");
  if (x.cols == 0) return;
  const std::uint32_t kind = k == 1.0f ? 0 : k == 0.5f ? 1 : 2;  // as gpu/shaders/entmax.comp numbers them
  const EntmaxPush push{address(x.data), address(dy.data), address(y.data),
                        word(x.rows),    word(x.cols),     word(x.stride),
                        word(dy.stride), word(y.stride),   k,
                        temperature};
  recorder.dispatch(kernel, {kind, backward}, push, {groups_of(x.rows, kLaneGroupRows), 1}, {range(x), range(dy)},
                    {range(y)});
}

}  // namespace

void Stream::lower(const ops::Entmax& op) {
  record_entmax(*recorder_, false, op.alpha_minus_one, op.temperature, op.x, {}, op.y);
}
void Stream::lower(const ops::EntmaxBackward& op) {
  record_entmax(*recorder_, true, op.alpha_minus_one, op.temperature, op.y, op.dy, op.dx);
}
void Stream::lower(const ops::Softmax& op) { record(*recorder_, kSoftmax, op.temperature, op.x, {}, {}, op.y, {}); }
void Stream::lower(const ops::SoftmaxBackward& op) {
  record(*recorder_, kSoftmaxBackward, op.temperature, op.y, op.dy, {}, op.dx, {});
}
void Stream::lower(const ops::LogSoftmax& op) { record(*recorder_, kLogSoftmax, 1.0f, op.x, {}, op.base, op.y, {}); }
void Stream::lower(const ops::LogSoftmaxBackward& op) {
  record(*recorder_, kLogSoftmaxBackward, 1.0f, op.y, op.dy, op.base, op.dx, op.dbase);
}
void Stream::lower(const ops::CrossEntropy& op) {
  const ConstMatrixView by_row{reinterpret_cast<const float*>(op.labels), op.logits.rows, 1, 1},
      losses{op.loss, op.logits.rows, 1, 1};
  record(*recorder_, kCrossEntropy, 1.0f, op.logits, {}, by_row, op.dx, losses);
}

}  // namespace weft::gpu
