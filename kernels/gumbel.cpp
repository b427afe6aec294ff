// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/gumbel.cpp"
#include "kernels/gumbel.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/lanes-inl.hpp"
#include "kernels/math.hpp"
#include "kernels/noise-inl.hpp"
#if !WEFT_ISA_IS_SCALAR
#include "kernels/formulas/vector-inl.hpp"
#endif

#include <algorithm>
#include <limits>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

#if WEFT_ISA_IS_SCALAR

void noisy_row(const float* x, std::size_t n, std::array<std::uint32_t, 2> key, const Position& at, float* y) noexcept {
  for_each_word(n, key, at, [&](std::size_t j, std::uint32_t word) {
    const float u = (static_cast<float>(word >> 9) + 0.5f) * 0x1p-23f;
    y[j] = x[j] - math::log(-math::log(u));
  });
}

bool has_nan(const float* x, std::size_t n) noexcept {
  return std::any_of(x, x + n, [](float v) { return v != v; });
}
float maximum(const float* x, std::size_t n) noexcept { return row_maximum(x, n); }
void fill_row(float value, float* y, std::size_t n) noexcept { std::fill_n(y, n, value); }

#else

HWY_INLINE void noisy_row(const float* x, std::size_t n, std::array<std::uint32_t, 2> key, const Position& at,
                          float* y) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  alignas(64) float noise[kChunkColumns];
  for (std::size_t first = 0; first < n; first += kChunkColumns) {
    ForEachWordOfChunk(first / kChunkColumns, key, at, [&](std::size_t place, WordVec words) HWY_ATTR {
      const FloatVec whole = hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<9>(words)));
      const FloatVec u = hn::Mul(hn::Add(whole, hn::Set(d, 0.5f)), hn::Set(d, 0x1p-23f));
      hn::Store(formulas::exact_log(hn::Neg(formulas::exact_log(u))), d, noise + place);
    });
    const float *in = x + first, *shift = noise;
    float* out = y + first;
    ForEachVector(std::min(n - first, kChunkColumns),
                  [&](auto load, auto store) HWY_ATTR { store(hn::Sub(load(in), load(shift)), out); });
  }
}

HWY_INLINE bool has_nan(const float* x, std::size_t n) {
  bool found = false;
  ForEachVector(n, [&](auto load, auto) HWY_ATTR { found = found || !hn::AllFalse(FloatTag(), hn::IsNaN(load(x))); });
  return found;
}
HWY_INLINE float maximum(const float* x, std::size_t n) { return RowMaximum(x, n); }
HWY_INLINE void fill_row(float value, float* y, std::size_t n) {
  const FloatVec v = hn::Set(FloatTag(), value);
  ForEachVector(n, [&](auto, auto store) HWY_ATTR { store(v, y); });
}

#endif

void gumbel_noise(const ConstMatrixView& x, std::array<std::uint32_t, 2> key, const ConstMatrixView& state,
                  const MatrixView& next_state, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < x.rows; ++b)
    noisy_row(x.row(b), x.cols, key, Position(state.row(b), b, next_state.row(b)), y.row(b));
}

void argmax_one_hot(const ConstMatrixView& x, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float* in = x.row(b);
    if (has_nan(in, x.cols)) {
      fill_row(std::numeric_limits<float>::quiet_NaN(), y.row(b), x.cols);
      continue;
    }
    const auto first = static_cast<std::size_t>(std::find(in, in + x.cols, maximum(in, x.cols)) - in);
    fill_row(0.0f, y.row(b), x.cols);
    y.row(b)[first] = 1.0f;
  }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kGumbelNoise = WEFT_DISPATCH(gumbel_noise);
constexpr auto kArgmaxOneHot = WEFT_DISPATCH(argmax_one_hot);
}  // namespace

void gumbel_noise(const ConstMatrixView& x, std::array<std::uint32_t, 2> key, const ConstMatrixView& state,
                  const MatrixView& next_state, const MatrixView& y) noexcept {
  kGumbelNoise.get()(x, key, state, next_state, y);
}
void argmax_one_hot(const ConstMatrixView& x, const MatrixView& y) noexcept { kArgmaxOneHot.get()(x, y); }

}  // namespace weft::kernels
#endif
