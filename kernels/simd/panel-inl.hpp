// SPDX-License-Identifier: Apache-2.0
// Vectors over one weight panel (16 outputs). Text that is re-included once per ISA, see kernels/foreach_isa.hpp.
#if !WEFT_ISA_IS_SCALAR
#if defined(WEFT_KERNELS_SIMD_PANEL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_SIMD_PANEL_INL
#undef WEFT_KERNELS_SIMD_PANEL_INL
#else
#define WEFT_KERNELS_SIMD_PANEL_INL
#endif

#include "kernels/views.hpp"

#include <hwy/highway.h>

#include <cstddef>

// Loops over registers must vanish before the compiler assigns registers. Under a sanitizer, which looks for other
// things than speed, the checks of unrolled code would take compilers minutes.
#undef WEFT_UNROLL
#if defined(WEFT_SANITIZED)
#define WEFT_UNROLL
#elif defined(__clang__)
#define WEFT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define WEFT_UNROLL _Pragma("GCC unroll 32")
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::kernels::WEFT_ISA {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using PanelTag = hn::CappedTag<float, kPanelWidth>;
using PanelVector = hn::Vec<PanelTag>;
/// Lanes of one vector, and vectors of one panel.
inline constexpr std::size_t kPanelLanes = hn::MaxLanes(PanelTag());
inline constexpr std::size_t kPanelVectors = kPanelWidth / kPanelLanes;
/// Of WebAssembly: a fused multiply-add is thirty operations, so that four sums keep the machine busy, and code of more
/// would be long and not faster.
inline constexpr bool kFusesSlowly = HWY_TARGET == HWY_WASM;

/// One step of folding two vectors at once: with `half` lanes left to fold, a's sums go to the lanes whose index has
/// bit `half` clear, b's to those where it is set. Each sum adds a lane to the one `half` further, as rule R2 says.
template <std::size_t half>
HWY_INLINE PanelVector fold_pair(PanelVector a, PanelVector b) {
  const PanelTag d;
  if constexpr (half * 2 == kPanelLanes && half > 2) {
    return hn::Add(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
  } else if constexpr (half == 4) {
    return hn::Add(hn::OddEvenBlocks(b, a), hn::SwapAdjacentBlocks(hn::OddEvenBlocks(a, b)));
  } else if constexpr (half == 2) {
    const hn::Repartition<double, PanelTag> pairs;
    const auto a2 = hn::BitCast(pairs, a), b2 = hn::BitCast(pairs, b);
    return hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, a2, b2)),
                   hn::BitCast(d, hn::InterleaveUpper(pairs, a2, b2)));
  } else {
    static_assert(half == 1);
    return hn::Add(hn::OddEven(b, a), hn::Shuffle2301(hn::OddEven(a, b)));
  }
}

template <std::size_t half>
HWY_INLINE void fold_step(PanelVector (&v)[kPanelLanes]) {
  WEFT_UNROLL for (std::size_t i = 0; i < half; ++i) v[i] = fold_pair<half>(v[i], v[i + half]);
  if constexpr (half > 1) fold_step<half / 2>(v);
}

/// Folds the lanes of each of kPanelLanes vectors by halves down to one; lane i of the result is v[i]'s sum.
HWY_INLINE PanelVector fold_each(PanelVector (&v)[kPanelLanes]) {
  fold_step<kPanelLanes / 2>(v);
  return v[0];
}

/// Folds one panel's 16 lanes to kPanelLanes lanes by halves.
template <std::size_t vectors>
HWY_INLINE PanelVector fold_panel(const PanelVector (&v)[vectors]) {
  if constexpr (vectors == 1) {
    return v[0];
  } else if constexpr (vectors == 2) {
    return hn::Add(v[0], v[1]);
  } else {
    static_assert(vectors == 4);
    return hn::Add(hn::Add(v[0], v[2]), hn::Add(v[1], v[3]));
  }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
HWY_AFTER_NAMESPACE();

#endif  // guard
#endif  // !WEFT_ISA_IS_SCALAR
