// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/columns.hpp"
#include "gpu/internal/push.hpp"
#include "gpu/internal/stream.hpp"
#include "gpu/shaders/norm_operands.inc"

namespace weft::gpu {
namespace {

struct NormPush {
  WEFT_NORM_OPERANDS(WEFT_MEMBER)
};

constexpr std::size_t kRowLanes = 64;  // that sum a row
constexpr std::size_t kFewRows = 16;   // that do not fill a device

Range per_row(const float* values, const ConstMatrixView& x) { return range(values, x.rows * sizeof(float)); }
Range per_column(const float* values, const ConstMatrixView& x) { return range(values, x.cols * sizeof(float)); }

void forward(Recorder& recorder, bool layer, const ConstMatrixView& x, const float* gain, const float* bias,
             float epsilon, const MatrixView& y, float* mean, float* scale) {
  static const Shader& kernel = shader("norm");
  const NormPush push{address(x.data),
                      address(gain),
                      address(bias),
                      0,
                      address(y.data),
                      address(mean),
                      address(scale),
                      word(x.rows),
                      word(x.cols),
                      word(x.stride),
                      0,
                      word(y.stride),
                      static_cast<float>(x.cols),
                      epsilon};
  // Loads of a lane that are under way together, of a few rows: of many, other rows hide its waiting.
  const std::uint32_t at_once = x.rows > kFewRows || x.cols <= 8 * kRowLanes ? 8 : x.cols <= 16 * kRowLanes ? 16 : 32;
  recorder.dispatch(kernel, {layer, 0, at_once}, push, {groups_of(x.rows, kLaneGroupRows), 1},
                    {range(x), per_column(gain, x), per_column(bias, x)},
                    {range(y), per_row(mean, x), per_row(scale, x)});
}

void backward(Recorder& recorder, bool layer, const ConstMatrixView& x, const float* gain, const float* mean,
              const float* scale, const ConstMatrixView& dy, const MatrixView& dx, float* dgain, float* dbias) {
  static const Shader& kernel = shader("norm");
  if (x.rows == 0) return;
  // First what reads dy down its columns: dx may be dy.
  if (dgain || dbias)
    record_columns(recorder, layer ? Columns::layer_norm : Columns::rms_norm, x, dy, mean, scale, dgain, dbias);
  const NormPush push{address(x.data),
                      address(gain),
                      0,
                      address(dy.data),
                      address(dx.data),
                      address(mean),
                      address(scale),
                      word(x.rows),
                      word(x.cols),
                      word(x.stride),
                      word(dy.stride),
                      word(dx.stride),
                      static_cast<float>(x.cols),
                      0.0f};
  recorder.dispatch(kernel, {layer, 1, 8}, push, {groups_of(x.rows, kLaneGroupRows), 1},
                    {range(x), range(dy), per_column(gain, x), per_row(mean, x), per_row(scale, x)}, {range(dx)});
}

}  // namespace

void Stream::lower(const ops::RmsNorm& op) {
  const ConstMatrixView x = sources_.source_of(*recorder_, op.x);
  forward(*recorder_, false, x, op.gain, nullptr, op.epsilon, op.y, nullptr, op.inverse_rms);
  if (recorder_->captures() && op.gain && op.x.rows != 0) sources_.note_norm(*recorder_, x, op.y, op.gain, op.epsilon);
}
void Stream::lower(const ops::RmsNormBackward& op) {
  backward(*recorder_, false, op.x, op.gain, nullptr, op.inverse_rms, op.dy, op.dx, op.dgain, nullptr);
}
void Stream::lower(const ops::LayerNorm& op) {
  forward(*recorder_, true, op.x, op.gain, op.bias, op.epsilon, op.y, op.mean, op.inverse_deviation);
}
void Stream::lower(const ops::LayerNormBackward& op) {
  backward(*recorder_, true, op.x, op.gain, op.mean, op.inverse_deviation, op.dy, op.dx, op.dgain, op.dbias);
}

}  // namespace weft::gpu
