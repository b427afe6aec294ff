// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::kernels {

/// w = fma(-lr, t, w) with t = fma(weight_decay, w, g).
/// @shape  w, g [n]
/// @exact  same bits on every ISA, as all of this file
void sgd(std::size_t n, float* w, const float* g, float lr, float weight_decay) noexcept;

/// With t = fma(weight_decay, w, g):  v = fma(momentum, v, (1 - dampening) t);
///   w = fma(-lr, v, w), or with nesterov w = fma(-lr, fma(momentum, v, t), w).
/// @source Sutskever et al. 2013, "On the importance of initialization and momentum", section 2
void momentum(std::size_t n, float* w, float* v, const float* g, float lr, float momentum, float dampening,
              bool nesterov, float weight_decay) noexcept;

/// *step = *step + 1;  corrections = {1 - beta1^*step, 1 - beta2^*step}, powers by `math::power` in binary64, 1 - that
/// rounded to binary32: no libm.
void adamw_step(std::uint64_t* step, float beta1, float beta2, float* corrections) noexcept;

/// m = fma(beta1, m, (1 - beta1) g);  v = fma(beta2, v, (1 - beta2) g^2);
/// w = fma(-lr, (m / c1) / (sqrt(v / c2) + epsilon), fma(-lr weight_decay, w, w)),  {c1, c2} = corrections.
/// @source Loshchilov and Hutter 2019, algorithm 2, arXiv:1711.05101
void adamw(std::size_t n, float* w, float* m, float* v, const float* g, float lr, float beta1, float beta2,
           float epsilon, float weight_decay, const float* corrections) noexcept;

}  // namespace weft::kernels
