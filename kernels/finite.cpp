// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/finite.cpp"
#include "kernels/finite.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/rows-inl.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

bool is_finite(const ConstMatrixView& x) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t i = 0; i < x.rows; ++i) {
    const float* row = x.row(i);
    // Infinities and NaNs are those whose exponent bits are all set.
#if WEFT_ISA_IS_SCALAR
    for (std::size_t j = 0; j < x.cols; ++j)
      if ((std::bit_cast<std::uint32_t>(row[j]) & 0x7f800000u) == 0x7f800000u) return false;
#else
    const hn::RebindToUnsigned<FloatTag> du;
    const auto exponent = hn::Set(du, 0x7f800000u);
    auto largest = hn::Zero(du);
    ForEachVector(x.cols, [&](auto load, auto)
                              HWY_ATTR { largest = hn::Max(largest, hn::And(hn::BitCast(du, load(row)), exponent)); });
    if (!hn::AllFalse(du, hn::Eq(largest, exponent))) return false;
#endif
  }
  return true;
}

bool are_moderate(const float* values, std::size_t n) noexcept {
  WEFT_ISA_RAN();
  // Of magnitudes the order is that of their bits; infinities and NaNs are above all.
  constexpr std::uint32_t kMagnitude = 0x7fffffffu, kLimit = std::bit_cast<std::uint32_t>(0x1p63f);
#if WEFT_ISA_IS_SCALAR
  for (std::size_t i = 0; i < n; ++i)
    if ((std::bit_cast<std::uint32_t>(values[i]) & kMagnitude) >= kLimit) return false;
  return true;
#else
  const hn::RebindToUnsigned<FloatTag> du;
  const auto magnitude = hn::Set(du, kMagnitude);
  auto largest = hn::Zero(du);
  ForEachVector(n, [&](auto load, auto)
                       HWY_ATTR { largest = hn::Max(largest, hn::And(hn::BitCast(du, load(values)), magnitude)); });
  return hn::AllTrue(du, hn::Lt(largest, hn::Set(du, kLimit)));
#endif
}

void canonicalize_nan(const MatrixView& x) noexcept {
  WEFT_ISA_RAN();
#if WEFT_ISA_IS_SCALAR
  map(x, x, [](float v) { return v != v ? std::bit_cast<float>(0x7fc00000u) : v; });
#else
  map(x, x, [](FloatTag d, FloatVec v) HWY_ATTR {
    const hn::RebindToUnsigned<FloatTag> du;
    return hn::IfThenElse(hn::IsNaN(v), hn::BitCast(d, hn::Set(du, 0x7fc00000u)), v);
  });
#endif
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kIsFinite = WEFT_DISPATCH(is_finite);
constexpr auto kAreModerate = WEFT_DISPATCH(are_moderate);
constexpr auto kCanonicalizeNan = WEFT_DISPATCH(canonicalize_nan);
}  // namespace

bool is_finite(const ConstMatrixView& x) noexcept { return kIsFinite.get()(x); }
bool are_moderate(const float* values, std::size_t n) noexcept { return kAreModerate.get()(values, n); }
void canonicalize_nan(const MatrixView& x) noexcept { kCanonicalizeNan.get()(x); }

}  // namespace weft::kernels
#endif
