// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), the scalar pass too.
// Activations chosen before the loop, for `unary` and for kernels that fuse them: rows of activations.def.

#if defined(WEFT_KERNELS_UNARY_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_UNARY_INL
#undef WEFT_KERNELS_UNARY_INL
#else
#define WEFT_KERNELS_UNARY_INL
#endif

#include "kernels/activation.hpp"
#if WEFT_ISA_IS_SCALAR
#include "kernels/formulas/scalar.hpp"
#else
#include "kernels/formulas/vector-inl.hpp"
#endif

#include <cstddef>
#include <type_traits>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {

// y = activation(x) of n floats; in unary.cpp, so that no other file compiles the loops of all activations.
#if WEFT_ISA_IS_VNNI
using avx512::activate_row;
#elif WEFT_ISA_IS_DOTPROD
using neon::activate_row;
#else
void activate_row(Activation activation, const float* x, float* y, std::size_t n) noexcept;
#endif

namespace {

// Activation A of x, a float or a vector.
template <Activation A, class V>
HWY_INLINE V Activate(V x) {
#define WEFT_ACTIVATION(name, slope_of, formula) \
  if constexpr (A == Activation::name) return formulas::activate_##name(x);
#include "kernels/activations.def"
#undef WEFT_ACTIVATION
}

// dy times the slope of A; v is z or y, as needs_preactivation(A) says.
template <Activation A, class V>
HWY_INLINE V ActivateBackward(V v, V dy) {
#define WEFT_ACTIVATION(name, slope_of, formula) \
  if constexpr (A == Activation::name) return formulas::activate_backward_##name(v, dy);
#include "kernels/activations.def"
#undef WEFT_ACTIVATION
}

// Calls f(std::integral_constant<Activation, A>()) for the A that `activation` is: the choice leaves the loop.
template <class F>
HWY_INLINE void VisitActivation(Activation activation, const F& f) {
  switch (activation) {
#define WEFT_ACTIVATION(name, slope_of, formula) \
  case Activation::name:                         \
    return f(std::integral_constant<Activation, Activation::name>());
#include "kernels/activations.def"
#undef WEFT_ACTIVATION
  }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
