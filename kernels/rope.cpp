// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/rope.cpp"
#include "kernels/rope.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/internal/position.hpp"
#include "kernels/internal/rope_rows.hpp"
#include "kernels/rows-inl.hpp"

#include <algorithm>
#include <cmath>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

#if WEFT_ISA_IS_SCALAR

void rotate(RopePairs pairs, std::size_t n, const float* cosines, const float* sines, float sign, const float* x,
            float* y) noexcept {
  for (std::size_t i = 0; i < n / 2; ++i) {
    const std::size_t a = pairs == RopePairs::half ? i : 2 * i, b = pairs == RopePairs::half ? i + n / 2 : 2 * i + 1;
    const float first = std::fma(x[a], cosines[a], x[b] * (sign * sines[a]));
    const float second = std::fma(x[b], cosines[b], x[a] * (sign * sines[b]));
    y[a] = first;
    y[b] = second;
  }
}

#else

HWY_INLINE void rotate(RopePairs pairs, std::size_t n, const float* cosines, const float* sines, float sign,
                       const float* x, float* y) {
  const FloatTag d;
  const FloatVec by = hn::Set(d, sign);
  if (pairs == RopePairs::interleaved) {
    ForEachVector(n, [&](auto load, auto store) HWY_ATTR {
      const FloatVec v = load(x);
      store(hn::MulAdd(v, load(cosines), hn::Mul(hn::Shuffle2301(v), hn::Mul(by, load(sines)))), y);
    });
    return;
  }
  const std::size_t half = n / 2;
  ForEachVector(half, [&](auto load, auto store) HWY_ATTR {
    const FloatVec a = load(x), b = load(x + half);
    store(hn::MulAdd(a, load(cosines), hn::Mul(b, hn::Mul(by, load(sines)))), y);
    store(hn::MulAdd(b, load(cosines + half), hn::Mul(a, hn::Mul(by, load(sines + half)))), y + half);
  });
}

#endif

void rope(const Rope& rope, std::size_t tokens, const ConstMatrixView& x, const ConstMatrixView& state, bool transposed,
          const MatrixView& y, float* workspace) noexcept {
  WEFT_ISA_RAN();
  const std::size_t n = rope.dims(), width = x.cols / tokens, rest = rope.head_dim - n;
  for (std::size_t b = 0; b < x.rows; ++b) {
    const std::uint64_t from = state.data ? detail::read_position(state.row(b)) : 0;
    for (std::size_t t = 0; t < tokens; ++t) {
      const float* const row = from + t < rope.table_positions ? rope.table + (from + t) * 2 * n
                                                               : detail::known_rope_row(rope, from + t, workspace);
      for (std::size_t i = t * width; i < (t + 1) * width; i += rope.head_dim) {
        rotate(rope.pairs, n, row, row + n, transposed ? -1.0f : 1.0f, x.row(b) + i, y.row(b) + i);
        if (x.data != y.data) std::copy_n(x.row(b) + i + n, rest, y.row(b) + i + n);
      }
    }
  }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kRope = WEFT_DISPATCH(rope);
}  // namespace

void rope(const Rope& rope, std::size_t tokens, const ConstMatrixView& x, const ConstMatrixView& state, bool transposed,
          const MatrixView& y, float* workspace) noexcept {
  kRope.get()(rope, tokens, x, state, transposed, y, workspace);
}

}  // namespace weft::kernels
#endif
