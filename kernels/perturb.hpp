// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::kernels {

/// Utilities of weights take a gradient in: u = fma(decay, u, (1 - decay) c), c = -(g w) kept within +-1e30.
/// @return  the largest u, at least 0
/// @shape   u, w, g [n], which do not overlap
/// @exact   same bits on every ISA
/// @source  Elsayed and Mahmood 2024, arXiv:2404.00781, algorithm 1, utilities of first order
float utility_update(float* u, const float* w, const float* g, float decay, std::size_t n) noexcept;

/// Standard deviation of the sum of the four bytes of a word, sqrt(4 (256^2 - 1) / 12), and its mean.
inline constexpr float kByteDeviation = 147.80054f;
inline constexpr int kByteMean = 510;
/// Utilities take no more than this of a single gradient, on either side of 0.
inline constexpr float kLargestUse = 1e30f;

/// One perturbed update of a parameter.
struct PerturbedStep {
  std::size_t out = 0, in = 0;  // of a matrix, whose arrays are panels; in 0: a vector of `out` values
  float* w = nullptr;
  const float *u = nullptr, *g = nullptr;
  const float* squares = nullptr;  // of a norm of gradients that is limited to `limit`; null: none is
  float limit = 0.0f;
  float rate = 0.0f, weight_decay = 0.0f;
  float deviation = 0.0f;  // of the noise
  float largest = 0.0f;    // of all utilities; not above 0: 1 takes its place
  bool protects = true;    // gradients of useful weights shrink too
  std::array<std::uint32_t, 2> key{};
  std::uint64_t update = 0;  // number of the noise
};

/// With t = 1 - sigmoid(u / largest) and the noise n, a number of mean 0 and variance 1:
///   protects:  w = fma(-rate, (g + deviation n) t, fma(-(rate weight_decay), w, w))
///   else:      w = fma(-rate, fma(deviation n, t, g), fma(-(rate weight_decay), w, w))
/// n = (the sum of the four bytes of a Philox word - 510) / sqrt(21845), a word for each stored value, by key, `update`
/// and its place. Values that pad a panel are 0 after it.
/// @exact   same bits on every ISA
/// @source  Elsayed and Mahmood 2024, arXiv:2404.00781, algorithm 1; the noise's form is ours
void perturbed_step(const PerturbedStep& step) noexcept;

}  // namespace weft::kernels
