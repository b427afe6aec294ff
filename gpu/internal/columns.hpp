// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/recorder.hpp"

namespace weft::gpu {

/// Mode of gpu/shaders/columns.comp: column sums, or the gradients of a norm's gain and bias.
enum class Columns : std::uint32_t { sums, rms_norm, layer_norm };
/// dbias[j] + dy[b][j], and of norms dgain[j] = fma(dy[b][j], normal, dgain[j]), for b ascending. Null: not wanted, or
/// not needed by what is asked.
void record_columns(Recorder& recorder, Columns what, const kernels::ConstMatrixView& x,
                    const kernels::ConstMatrixView& dy, const float* mean, const float* scale, float* dgain,
                    float* dbias);

}  // namespace weft::gpu
