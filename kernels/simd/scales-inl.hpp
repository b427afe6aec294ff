// SPDX-License-Identifier: Apache-2.0
// Vectors of scales, from float32 or binary16. Text that is re-included once per ISA, see kernels/foreach_isa.hpp.
#if !WEFT_ISA_IS_SCALAR
#if defined(WEFT_KERNELS_SIMD_SCALES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_SIMD_SCALES_INL
#undef WEFT_KERNELS_SIMD_SCALES_INL
#else
#define WEFT_KERNELS_SIMD_SCALES_INL
#endif

#include "kernels/internal/scale_array.hpp"
#include "kernels/simd/panel-inl.hpp"

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace weft::kernels::WEFT_ISA {
namespace {

/// binary16's bits to float32: exact, and blind to the flushing of subnormals on x86 and ARM alike.
template <class Bits>
HWY_INLINE PanelVector from_half(Bits half) {
  return hn::PromoteTo(PanelTag(), hn::BitCast(hn::Rebind<hwy::float16_t, PanelTag>(), half));
}

HWY_INLINE PanelVector load_halves(const std::uint16_t* from) {
  return from_half(hn::LoadU(hn::Rebind<std::uint16_t, PanelTag>(), from));
}

/// A vector of scales from element `i` on, a multiple of its lanes.
HWY_INLINE PanelVector load_scales(const detail::ScaleArray& scales, std::size_t i) {
  if (scales.is_half) return load_halves(static_cast<const std::uint16_t*>(scales.data) + i);
  return hn::Load(PanelTag(), static_cast<const float*>(scales.data) + i);
}

/// `count` scales, a multiple of 16, as floats.
HWY_INLINE void widen_scales(const std::uint16_t* from, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; i += kPanelLanes) hn::Store(load_halves(from + i), PanelTag(), to + i);
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
HWY_AFTER_NAMESPACE();

#endif  // guard
#endif  // !WEFT_ISA_IS_SCALAR
