// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/push.hpp"
#include "gpu/internal/stream.hpp"
#include "gpu/shaders/noise_operands.inc"

namespace weft::gpu {
namespace {

struct NoisePush {
  WEFT_NOISE_OPERANDS(WEFT_MEMBER)
};

void record(Recorder& recorder, bool mask, const ConstMatrixView& x, std::array<std::uint32_t, 2> key,
            const ConstMatrixView& state, const MatrixView& next_state, const MatrixView& y, std::uint32_t threshold,
            float scale) {
  static const Shader& kernel = shader("noise");
  const NoisePush push{address(x.data),
                       address(state.data),
                       address(next_state.data),
                       address(y.data),
                       word(y.rows),
                       word(y.cols),
                       word(x.stride),
                       word(state.stride),
                       word(next_state.stride),
                       word(y.stride),
                       key[0],
                       key[1],
                       threshold,
                       scale};
  recorder.dispatch(kernel, {mask}, push, {groups_of(y.rows, kLaneGroupRows), 1}, {range(x), range(state)},
                    {range(next_state), range(y)});
}

}  // namespace

void Stream::lower(const ops::GumbelNoise& op) {
  record(*recorder_, false, op.x, op.key, op.state, op.next_state, op.y, 0, 0.0f);
}

void Stream::lower(const ops::DropoutMask& op) {
  record(*recorder_, true, {}, op.key, op.state, op.next_state, op.mask, op.threshold, op.scale);
}

}  // namespace weft::gpu
