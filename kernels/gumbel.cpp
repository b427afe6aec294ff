// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/gumbel.cpp"
#include "kernels/gumbel.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/lanes-inl.hpp"
#include "kernels/math.hpp"
#if !WEFT_ISA_IS_SCALAR
#include "kernels/math-inl.hpp"
#endif

#include "core/philox.hpp"

#include <algorithm>
#include <limits>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

// A chunk of 64 columns takes 16 Philox blocks, word w of block i being column 16 w + i: blocks are lanes.
constexpr std::size_t kChunkColumns = 64, kBlocks = 16;

std::uint64_t digits(float low, float high) noexcept {
  const auto digit = [](float v) -> std::uint64_t {
    return v >= 0.0f && v < 0x1p24f ? static_cast<std::uint32_t>(v) : 0u;
  };
  return digit(low) | digit(high) << 24;
}

// Where a row's noise stands; writes where it stands next.
struct Position {
  Position(const float* state, std::size_t row, float* next) noexcept
      : counter(digits(state[0], state[1])), stream(digits(state[2], state[3])) {
    if (stream == 0) stream = row + 1;
    const std::uint64_t parts[2] = {counter + 1, stream};
    for (std::size_t i = 0; i < 2; ++i) {
      next[2 * i] = static_cast<float>(parts[i] & 0xffffffu);
      next[2 * i + 1] = static_cast<float>(parts[i] >> 24 & 0xffffffu);
    }
  }
  // Words 1 to 3 of a Philox counter; word 0 is the block's number in the row.
  std::uint32_t word(int i) const noexcept {
    return static_cast<std::uint32_t>(i == 1 ? counter : i == 2 ? counter >> 32 | (stream >> 32) << 16 : stream);
  }
  std::uint64_t counter, stream;
};

#if WEFT_ISA_IS_SCALAR

void noisy_row(const float* x, std::size_t n, std::array<std::uint32_t, 2> key, const Position& at, float* y) noexcept {
  for (std::size_t first = 0; first < n; first += kChunkColumns)
    for (std::size_t i = 0; i < kBlocks; ++i) {
      const auto block = static_cast<std::uint32_t>(first / kChunkColumns * kBlocks + i);
      const auto words = philox4x32({block, at.word(1), at.word(2), at.word(3)}, key);
      for (std::size_t w = 0; w < 4; ++w) {
        const std::size_t j = first + w * kBlocks + i;
        if (j >= n) continue;
        const float u = (static_cast<float>(words[w] >> 9) + 0.5f) * 0x1p-23f;
        y[j] = x[j] - math::log(-math::log(u));
      }
    }
}

bool has_nan(const float* x, std::size_t n) noexcept {
  return std::any_of(x, x + n, [](float v) { return v != v; });
}
float maximum(const float* x, std::size_t n) noexcept { return row_maximum(x, n); }
void fill_row(float value, float* y, std::size_t n) noexcept { std::fill_n(y, n, value); }

#else

using WordTag = hn::RebindToUnsigned<FloatTag>;
using WordVec = hn::Vec<WordTag>;

// The upper and lower words of the products a m.
HWY_INLINE void Product(WordVec a, std::uint32_t m, WordVec& high, WordVec& low) {
  const WordTag d;
  const hn::Repartition<std::uint64_t, WordTag> wide;
  const WordVec by = hn::Set(d, m);
  const auto even = hn::MulEven(a, by);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), by);
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
  low = hn::Mul(a, by);
}

// philox4x32 of core/philox.cpp, a counter a lane.
HWY_INLINE void Philox(WordVec (&c)[4], std::array<std::uint32_t, 2> k) {
  const WordTag d;
  for (int round = 0; round < 10; ++round) {
    WordVec high0, low0, high1, low1;
    Product(c[0], 0xD2511F53u, high0, low0);
    Product(c[2], 0xCD9E8D57u, high1, low1);
    c[0] = hn::Xor(hn::Xor(high1, c[1]), hn::Set(d, k[0]));
    c[1] = low1;
    c[2] = hn::Xor(hn::Xor(high0, c[3]), hn::Set(d, k[1]));
    c[3] = low0;
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
}

HWY_INLINE void noisy_row(const float* x, std::size_t n, std::array<std::uint32_t, 2> key, const Position& at,
                          float* y) {
  const FloatTag d;
  const WordTag du;
  const hn::RebindToSigned<FloatTag> di;
  alignas(64) float noise[kChunkColumns];
  for (std::size_t first = 0; first < n; first += kChunkColumns) {
    for (std::size_t i = 0; i < kBlocks; i += kVectorLanes) {
      const auto block = static_cast<std::uint32_t>(first / kChunkColumns * kBlocks + i);
      WordVec words[4] = {hn::Add(hn::Iota(du, 0), hn::Set(du, block)), hn::Set(du, at.word(1)),
                          hn::Set(du, at.word(2)), hn::Set(du, at.word(3))};
      Philox(words, key);
      for (std::size_t w = 0; w < 4; ++w) {
        const FloatVec whole = hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<9>(words[w])));
        const FloatVec u = hn::Mul(hn::Add(whole, hn::Set(d, 0.5f)), hn::Set(d, 0x1p-23f));
        hn::Store(Log(d, hn::Neg(Log(d, u))), d, noise + w * kBlocks + i);
      }
    }
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

void gumbel_noise(const ConstRows& x, std::array<std::uint32_t, 2> key, const ConstRows& state, const Rows& next_state,
                  const Rows& y) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < x.rows; ++b)
    noisy_row(x.row(b), x.cols, key, Position(state.row(b), b, next_state.row(b)), y.row(b));
}

void one_hot_largest(const ConstRows& x, const Rows& y) noexcept {
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
constexpr auto kOneHotLargest = WEFT_DISPATCH(one_hot_largest);
}  // namespace

void gumbel_noise(const ConstRows& x, std::array<std::uint32_t, 2> key, const ConstRows& state, const Rows& next_state,
                  const Rows& y) noexcept {
  kGumbelNoise.get()(x, key, state, next_state, y);
}
void one_hot_largest(const ConstRows& x, const Rows& y) noexcept { kOneHotLargest.get()(x, y); }

}  // namespace weft::kernels
#endif
