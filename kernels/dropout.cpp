// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/dropout.cpp"
#include "kernels/dropout.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/noise-inl.hpp"

#include <algorithm>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

#if WEFT_ISA_IS_SCALAR

void masked_row(std::array<std::uint32_t, 2> key, const Position& at, std::uint32_t threshold, float scale, float* mask,
                std::size_t n) noexcept {
  for_each_word(n, key, at, [&](std::size_t j, std::uint32_t word) { mask[j] = word < threshold ? 0.0f : scale; });
}

#else

HWY_INLINE void masked_row(std::array<std::uint32_t, 2> key, const Position& at, std::uint32_t threshold, float scale,
                           float* mask, std::size_t n) {
  const FloatTag d;
  const WordTag du;
  // AVX2 compares signed integers only: both sides move by 2^31.
  const hn::RebindToSigned<FloatTag> di;
  const auto bound = hn::Set(di, static_cast<std::int32_t>(threshold ^ 0x80000000u));
  alignas(64) float chunk[kChunkColumns];
  for (std::size_t first = 0; first < n; first += kChunkColumns) {
    ForEachWordOfChunk(first / kChunkColumns, key, at, [&](std::size_t place, WordVec words) HWY_ATTR {
      const auto moved = hn::BitCast(di, hn::Xor(words, hn::Set(du, 0x80000000u)));
      hn::Store(hn::IfThenZeroElse(hn::RebindMask(d, hn::Lt(moved, bound)), hn::Set(d, scale)), d, chunk + place);
    });
    const float* from = chunk;
    float* to = mask + first;
    ForEachVector(std::min(n - first, kChunkColumns), [&](auto load, auto store) HWY_ATTR { store(load(from), to); });
  }
}

#endif

void dropout_mask(std::array<std::uint32_t, 2> key, const ConstMatrixView& state, const MatrixView& next_state,
                  std::uint32_t threshold, float scale, const MatrixView& mask) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < mask.rows; ++b)
    masked_row(key, Position(state.row(b), b, next_state.row(b)), threshold, scale, mask.row(b), mask.cols);
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kDropoutMask = WEFT_DISPATCH(dropout_mask);
}  // namespace

void dropout_mask(std::array<std::uint32_t, 2> key, const ConstMatrixView& state, const MatrixView& next_state,
                  std::uint32_t threshold, float scale, const MatrixView& mask) noexcept {
  kDropoutMask.get()(key, state, next_state, threshold, scale, mask);
}

}  // namespace weft::kernels
#endif
