// SPDX-License-Identifier: Apache-2.0
// Definitions of the operations on eligibility traces, and of steps with noise.

#include "core/philox.hpp"

#include "tests/kernels/oracle.hpp"

namespace weft::kernels::testing_ops {

WEFT_ORACLE(TraceUpdate) {
  const T decay = op.signal[kTraceDecay];
  std::vector<T> moved(op.n);
  for (std::size_t e = 0; e < op.n; ++e) {
    T gradient = 0.0f;
    if (op.g) {
      gradient = op.g[e];
    } else if (op.x.data) {
      // Panels of 16 outputs: input after input, the outputs side by side.
      const std::size_t panel = e / (16 * op.x.cols), o = 16 * panel + e % 16, k = e / 16 % op.x.cols;
      gradient = fused(o < op.dy.cols ? T(op.dy.data[o]) : T(0.0f), T(op.x.data[k]), T(0.0f));
    } else {
      gradient = T(op.dy.data[e]) + T(0.0f);
    }
    moved[e] = fused(decay, T(op.z[e]), gradient);
    to(op.z + e, moved[e]);
  }
  to(op.sum, lanes<T>(op.n, [&](T s, std::size_t j) { return s + magnitude(moved[j]); }));
}

/// The rate, by a norm that is `off` at most.
static void expect_rate(const ops::BoundedRate& op, double norm, double, Expected<float>& to) {
  const double lr = op.lr, error = op.signal[kTraceError], size = std::fabs(error);
  const double bounded = lr * op.signal[kTraceBound] * (size < 1.0 ? 1.0 : size) * norm;
  to(op.factors, static_cast<float>(lr / (bounded < 1.0 ? 1.0 : bounded) * error));
}
static void expect_rate(const ops::BoundedRate& op, double norm, double off, Expected<Bounded>& to) {
  const auto number = [&](std::size_t i) { return Bounded(op.signal[i]).value; };
  const double lr = Bounded(op.lr).value, error = number(kTraceError), size = std::fabs(error);
  const double times = lr * number(kTraceBound) * (size < 1.0 ? 1.0 : size), bounded = times * norm;
  const double most = bounded < 1.0 ? 1.0 : bounded, rate = lr / most * error;
  // Whatever the norm is within its bounds, and four roundings in binary64.
  const double apart = std::fabs(rate) * (std::fabs(times) * off / most + 0x1p-50);
  to(op.factors, std::isfinite(rate) && std::isfinite(apart) ? rounded(rate, apart)
                                                             : Bounded(rate, std::numeric_limits<double>::infinity()));
}
WEFT_ORACLE(BoundedRate) {
  const float* next = op.sums;
  double norm = 0.0, off = 0.0;
  for (std::size_t layer = 0; layer < op.layers; ++layer) {
    T own = 0.0f;
    for (std::uint32_t i = 0; i < op.counts[layer]; ++i) own = own + T(*next++);
    if constexpr (std::is_same_v<T, float>)
      norm += double{own};
    else
      norm += own.value, off += own.error;
  }
  expect_rate(op, norm, off, to);
  to(op.factors + 1, T(1.0f));
  to(op.factors + 2, T(1.0f));
}

WEFT_ORACLE(EndTraces) {
  const bool ends = !(chosen(op.signal[kTraceEnds]) == 0.0f);
  for (std::size_t i = 0; i < op.n; ++i) to.bits(op.z + i, ends ? 0u : std::bit_cast<std::uint32_t>(op.z[i]));
}

WEFT_ORACLE(UtilityUpdate) {
  T top = *op.largest;
  for (std::size_t i = 0; i < op.n; ++i) {
    const T use = at_most(1e30f, at_least(-1e30f, -(T(op.g[i]) * T(op.w[i]))));
    const T now = fused(T(op.decay), T(op.u[i]), (T(1.0f) - T(op.decay)) * use);
    to(op.u + i, now);
    top = larger(now, top);
  }
  to(op.largest, top);
}

WEFT_ORACLE(Largest) {
  float top = 0.0f;
  for (std::size_t i = 0; i < op.n; ++i)
    if (chosen(op.x[i]) > top) top = op.x[i];
  to(op.y, T(top));
}

WEFT_ORACLE(PerturbedStep) {
  const bool is_matrix = op.in > 0;
  const std::size_t panels = (op.out + 15) / 16, n = is_matrix ? panels * 16 * op.in : op.out;
  const T rate = op.factors[0], top = *op.largest > 0.0f ? T(*op.largest) : T(1.0f);
  const T factor = op.squares ? at_most(1.0f, T(op.limit) / (root(T(*op.squares)) + T(1e-6f))) : T(1.0f);
  const auto number = static_cast<std::uint32_t>(*op.updates), rest = static_cast<std::uint32_t>(*op.updates >> 32);
  for (std::size_t e = 0; e < n; ++e) {
    // Word w of block b is of value 16 w + b of 64.
    const auto block = static_cast<std::uint32_t>(e / 64 * 16 + e % 16);
    const std::uint32_t word = philox4x32({block, number, rest, 1}, op.key)[e % 64 / 16];
    int sum = -510;
    for (int byte = 0; byte < 4; ++byte) sum += static_cast<int>(word >> 8 * byte & 0xff);
    const T noise = T(op.deviation / 147.80054f) * T(static_cast<float>(sum));
    const T moves = T(1.0f) - activated(Activation::sigmoid, T(op.u[e]) / top);
    const T gradient = factor * T(op.g[e]), weight = op.w[e];
    const T direction = op.protects ? (gradient + noise) * moves : fused(noise, moves, gradient);
    const bool is_padding = is_matrix && e / (16 * op.in) * 16 + e % 16 >= op.out;
    to(op.w + e, is_padding ? T(0.0f) : fused(-rate, direction, fused(-(rate * T(op.weight_decay)), weight, weight)));
  }
}

}  // namespace weft::kernels::testing_ops
