// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), the scalar pass too.
// Blocks of 32 activations as int8 (kernels/quantize_rows.hpp has the contract).

#if defined(WEFT_KERNELS_QUANTIZE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_QUANTIZE_INL
#undef WEFT_KERNELS_QUANTIZE_INL
#else
#define WEFT_KERNELS_QUANTIZE_INL
#endif

#include "kernels/quantize_rows.hpp"

#include "core/encoding.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#if !WEFT_ISA_IS_SCALAR
#include <hwy/highway.h>
#endif

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

struct BlockScale {
  float scale;
  std::int32_t sum;
};

// Magnitudes are compared as bits: that orders them, NaN past infinity, whatever the order of comparing.
inline constexpr std::uint32_t kMagnitudeBits = 0x7fffffff, kInfinityBits = 0x7f800000, kCanonicalNan = 0x7fc00000;
inline constexpr std::uint32_t kTiniestBits = (127u - 100u) << 23;  // 2^-100
inline constexpr std::uint32_t kLeastOfRowBits = std::bit_cast<std::uint32_t>(kLeastOfRow);

#if WEFT_ISA_IS_SCALAR

/// The bits of what a row of n numbers is divided by where all of it has one scale.
inline std::uint32_t largest_of_row(const float* x, std::size_t n) noexcept {
  std::uint32_t largest = kLeastOfRowBits;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, std::bit_cast<std::uint32_t>(x[i]) & kMagnitudeBits);
  return largest;
}

/// x[0 .. n) with n <= 32 to codes[0 .. 32). `largest`: of the row, where that decides the scale.
inline BlockScale quantize_block(const float* x, std::size_t n, std::int8_t* codes,
                                 std::uint32_t largest = 0) noexcept {
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, std::bit_cast<std::uint32_t>(x[i]) & kMagnitudeBits);
  std::memset(codes, 0, kScaleBlock);
  if (largest >= kInfinityBits) return {std::bit_cast<float>(kCanonicalNan), 0};
  if (largest < kTiniestBits) return {0.0f, 0};
  const float m = std::bit_cast<float>(largest), inverse = 127.0f / m;
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    codes[i] = static_cast<std::int8_t>(std::nearbyint(x[i] * inverse));
    sum += codes[i];
  }
  return {m / 127.0f, sum};
}

#else

/// The bits of what a row of n numbers is divided by where all of it has one scale.
HWY_INLINE std::uint32_t largest_of_row(const float* x, std::size_t n) noexcept {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const std::size_t lanes = hn::Lanes(df);
  auto magnitude = hn::Set(du, kLeastOfRowBits);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    magnitude = hn::Max(magnitude, hn::And(hn::BitCast(du, hn::LoadU(df, x + i)), hn::Set(du, kMagnitudeBits)));
  std::uint32_t largest = hn::GetLane(hn::MaxOfLanes(du, magnitude));
  for (; i < n; ++i) largest = std::max(largest, std::bit_cast<std::uint32_t>(x[i]) & kMagnitudeBits);
  return largest;
}

/// x[0 .. n) with n <= 32 to codes[0 .. 32). `of_row`: the row's, where that decides the scale.
HWY_INLINE BlockScale quantize_block(const float* x, std::size_t n, std::int8_t* codes,
                                     std::uint32_t of_row = 0) noexcept {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<std::int8_t, decltype(df)> d8;
  constexpr std::size_t kLanes32 = hn::MaxLanes(df), kVectors = kScaleBlock / kLanes32;
  alignas(64) float padded[kScaleBlock];
  if (n < kScaleBlock) {
    std::memset(padded, 0, sizeof padded);
    std::memcpy(padded, x, n * sizeof(float));
    x = padded;
  }
  hn::Vec<decltype(df)> v[kVectors];
  auto magnitude = hn::Set(du, of_row);
  for (std::size_t i = 0; i < kVectors; ++i) {
    v[i] = hn::LoadU(df, x + i * kLanes32);
    magnitude = hn::Max(magnitude, hn::And(hn::BitCast(du, v[i]), hn::Set(du, kMagnitudeBits)));
  }
  const std::uint32_t largest = hn::GetLane(hn::MaxOfLanes(du, magnitude));
  if (largest >= kInfinityBits || largest < kTiniestBits) {
    std::memset(codes, 0, kScaleBlock);
    return {largest >= kInfinityBits ? std::bit_cast<float>(kCanonicalNan) : 0.0f, 0};
  }
  const float m = std::bit_cast<float>(largest);
  const auto inverse = hn::Set(df, 127.0f / m);
  auto sum = hn::Zero(di);
  for (std::size_t i = 0; i < kVectors; ++i) {
    const auto code = hn::NearestInt(hn::Mul(v[i], inverse));
    sum = hn::Add(sum, code);
    hn::StoreU(hn::DemoteTo(d8, code), d8, codes + i * kLanes32);
  }
  return {m / 127.0f, hn::GetLane(hn::SumOfLanes(di, sum))};
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
