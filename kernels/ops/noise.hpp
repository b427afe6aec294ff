// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/dropout.hpp"
#include "kernels/gumbel.hpp"
#include "kernels/ops/operands.hpp"

#include <array>
#include <cstdint>

namespace weft::kernels::ops {

/// y = x + standard Gumbel noise, a function of key, column and the row's state [rows, kNoiseState] alone; next_state
/// stands one draw further. May run in place.
struct GumbelNoise {
  ConstMatrixView x;
  std::array<std::uint32_t, 2> key;
  ConstMatrixView state;
  MatrixView next_state, y;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.y.rows, op.y.cols), states = matrix(all.rows, kNoiseState);
    visit.read(op.x, all);
    visit.read(op.state, states);
    visit.write(op.next_state, states);
    visit.write(op.y, all);
  }
  void compute() const noexcept { kernels::gumbel_noise(x, key, state, next_state, y); }
};

/// mask = 0 with a chance of threshold / 2^32, else scale; state as gumbel_noise's (kernels/dropout.hpp).
struct DropoutMask {
  std::array<std::uint32_t, 2> key;
  ConstMatrixView state;
  MatrixView next_state;
  std::uint32_t threshold;
  float scale;
  MatrixView mask;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.mask.rows, op.mask.cols), states = matrix(all.rows, kNoiseState);
    visit.read(op.state, states);
    visit.write(op.next_state, states);
    visit.write(op.mask, all);
  }
  void compute() const noexcept { kernels::dropout_mask(key, state, next_state, threshold, scale, mask); }
};

}  // namespace weft::kernels::ops
