// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), the scalar pass too.
// Loops whose body is written once for floats and vectors, by the functions of kernels/formulas.

#if defined(WEFT_KERNELS_INTERNAL_VALUES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_INTERNAL_VALUES_INL
#undef WEFT_KERNELS_INTERNAL_VALUES_INL
#else
#define WEFT_KERNELS_INTERNAL_VALUES_INL
#endif

#include "kernels/rows-inl.hpp"

#include <cstddef>

#if WEFT_ISA_IS_SCALAR
// Of the pass before this one. Functions that all passes share are for every processor here.
#undef HWY_ATTR
#define HWY_ATTR
#endif

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

#if WEFT_ISA_IS_SCALAR

inline float repeated(float x) { return x; }

// Calls body(load, store) for each of n elements: load(p) and store(v, p) know the element's place after p.
template <class Body>
void for_each_value(std::size_t n, const Body& body) {
  for (std::size_t i = 0; i < n; ++i) body([i](const float* p) { return p[i]; }, [i](float v, float* p) { p[i] = v; });
}

#else

HWY_INLINE FloatVec repeated(float x) { return hn::Set(FloatTag(), x); }

template <class Body>
HWY_INLINE void for_each_value(std::size_t n, const Body& body) {
  ForEachVector(n, body);
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
