// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::kernels {

struct OuterProduct;

/// Eligibility traces take a gradient in: z = fma(decay, z, g).
/// @return  the sum of the absolute values of z, by rule R2
/// @shape   z, g [n], which do not overlap
/// @exact   same bits on every ISA
float trace_update(float* z, const float* g, float decay, std::size_t n) noexcept;

/// The same of a matrix whose gradients are an outer product, fma(dy[o], x[k], 0), which stay in registers; of a bias
/// dy[o] + 0.
/// @shape   z panels [out, in], those that pad the last one 0; of a bias [out]
/// @exact   the bits of `fill` by 0, `outer_accumulate` or `column_accumulate`, and `trace_update`
float trace_update(float* z, const OuterProduct& product, float decay) noexcept;

/// Places of the numbers of a signal of traces: the temporal-difference error, the decay, the bound kappa, and whether
/// the episode ends (0: no).
inline constexpr std::size_t kTraceError = 0, kTraceDecay = 1, kTraceBound = 2, kTraceEnds = 3, kTraceSignal = 4;

/// Rate of a bounded step:  rate = lr / max(1, lr bound max(|error|, 1) norm) error,  where norm is the sum over layers
/// of the sums over their traces. A layer's own are added in binary32, in their order, the layers' in binary64 in
/// theirs; the rate is rounded once. factors = {rate, 1, 1}, as `optimizer_step` takes them.
/// @shape   signal [kTraceSignal], counts [layers]: sums of each layer; sums [the sum of counts], factors [3]
/// @exact   same bits everywhere
/// @source  Elsayed, Vasan and Mahmood 2024, "Streaming deep reinforcement learning finally works", arXiv:2410.14606
void bounded_rate(const float* signal, const float* sums, const std::uint32_t* counts, std::size_t layers, float lr,
                  float* factors) noexcept;

}  // namespace weft::kernels
