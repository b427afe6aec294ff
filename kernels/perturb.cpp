// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/perturb.cpp"
#include "kernels/perturb.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/formulas/scalar.hpp"
#include "kernels/internal/values-inl.hpp"
#include "kernels/noise-inl.hpp"
#include "kernels/weight_layout.hpp"
#if !WEFT_ISA_IS_SCALAR
#include "kernels/formulas/vector-inl.hpp"
#endif

#include <algorithm>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

using namespace formulas;

#if !WEFT_ISA_IS_SCALAR
using Real = FloatVec;
#endif

float utility_update(float* u, const float* w, const float* g, float decay, std::size_t n) noexcept {
  WEFT_ISA_RAN();
  const Real kept = repeated(decay), taken = repeated(1.0f - decay);
  Real largest = repeated(0.0f);
  for_each_value(n, [&](auto load, auto store) HWY_ATTR {
    const Real use = at_most(kLargestUse, at_least(-kLargestUse, negated(mul(load(g), load(w)))));
    const Real now = fused(kept, load(u), mul(taken, use));
    store(now, u);
#if WEFT_ISA_IS_SCALAR
    largest = std::max(largest, now);
#else
    largest = hn::Max(largest, now);
#endif
  });
#if WEFT_ISA_IS_SCALAR
  return largest;
#else
  return hn::GetLane(hn::MaxOfLanes(FloatTag(), largest));
#endif
}

#if WEFT_ISA_IS_SCALAR

void noise_of_chunk(std::size_t chunk, std::array<std::uint32_t, 2> key, const Position& at, float scale,
                    float* noise) {
  for_each_word_of_chunk(chunk, key, at, [&](std::size_t place, std::uint32_t word) {
    const auto sum = static_cast<int>((word & 0xffu) + (word >> 8 & 0xffu) + (word >> 16 & 0xffu) + (word >> 24));
    noise[place] = scale * static_cast<float>(sum - kByteMean);
  });
}

#else

HWY_INLINE void noise_of_chunk(std::size_t chunk, std::array<std::uint32_t, 2> key, const Position& at, float scale,
                               float* noise) {
  const FloatTag d;
  const WordTag du;
  const hn::RebindToSigned<FloatTag> di;
  ForEachWordOfChunk(chunk, key, at, [&](std::size_t place, WordVec word) HWY_ATTR {
    const WordVec pairs = hn::Set(du, 0x00ff00ffu);
    const WordVec twice = hn::Add(hn::And(word, pairs), hn::And(hn::ShiftRight<8>(word), pairs));
    const WordVec sum = hn::Add(hn::And(twice, hn::Set(du, 0xffffu)), hn::ShiftRight<16>(twice));
    const auto centred = hn::Sub(hn::BitCast(di, sum), hn::Set(di, kByteMean));
    hn::Store(hn::Mul(hn::Set(d, scale), hn::ConvertTo(d, centred)), d, noise + place);
  });
}

#endif

void perturbed_step(const PerturbedStep& step) noexcept {
  WEFT_ISA_RAN();
  const std::size_t n = step.in > 0 ? panels_size(step.out, step.in) : step.out;
  const Position at(step.update, 1);
  const float scale = step.deviation / kByteDeviation;
  const Real rate = repeated(step.rate), decay = mul(rate, repeated(step.weight_decay));
  const Real largest = repeated(step.largest > 0.0f ? step.largest : 1.0f);
  const Real factor = step.squares ? clip_factor(repeated(*step.squares), repeated(step.limit)) : repeated(1.0f);
  alignas(64) float noise[kChunkColumns];
  for (std::size_t first = 0; first < n; first += kChunkColumns) {
    noise_of_chunk(first / kChunkColumns, step.key, at, scale, noise);
    float* const w = step.w + first;
    const float *const u = step.u + first, *const g = step.g + first, *const added = noise;
    for_each_value(std::min(n - first, kChunkColumns), [&](auto load, auto store) HWY_ATTR {
      const Real moves = sub(1.0f, exact_sigmoid(divide(load(u), largest)));
      const Real gradient = mul(factor, load(g)), weight = load(w);
      const Real direction =
          step.protects ? mul(add(gradient, load(added)), moves) : fused(load(added), moves, gradient);
      store(fused(negated(rate), direction, fused(negated(decay), weight, weight)), w);
    });
  }
  if (const std::size_t lanes = step.out % kPanelWidth; step.in > 0 && lanes > 0)
    for (std::size_t k = 0; k < step.in; ++k) {
      float* const padded = step.w + panel_index(step.in, step.out, k);
      std::fill(padded, padded + (kPanelWidth - lanes), 0.0f);
    }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kUtilityUpdate = WEFT_DISPATCH(utility_update);
constexpr auto kPerturbedStep = WEFT_DISPATCH(perturbed_step);
}  // namespace

float utility_update(float* u, const float* w, const float* g, float decay, std::size_t n) noexcept {
  return kUtilityUpdate.get()(u, w, g, decay, n);
}
void perturbed_step(const PerturbedStep& step) noexcept { kPerturbedStep.get()(step); }

}  // namespace weft::kernels
#endif
