// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), never by the scalar pass.
// The formulas of kernels/formulas/*.inc for vectors: the words of scalar.hpp, then the formulas. Operands are vectors
// or floats that stand for vectors of them.

#if defined(WEFT_KERNELS_FORMULAS_VECTOR_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_FORMULAS_VECTOR_INL
#undef WEFT_KERNELS_FORMULAS_VECTOR_INL
#else
#define WEFT_KERNELS_FORMULAS_VECTOR_INL
#endif

#include "kernels/math_constants.hpp"

#include <cmath>
#include <cstdint>
#include <iterator>
#include <type_traits>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {
namespace formulas {
namespace hn = hwy::HWY_NAMESPACE;
using namespace constants;

// The first type that is not a float.
template <class A, class... Others>
struct VectorOfThese {
  using type = A;
};
template <class... Others>
struct VectorOfThese<float, Others...> : VectorOfThese<Others...> {};
template <class... Any>
using VectorOf = typename VectorOfThese<Any...>::type;
template <class V>
using Bits = hn::VFromD<hn::RebindToUnsigned<hn::DFromV<V>>>;

template <class V>
HWY_INLINE V lifted(V x) {
  return x;
}
template <class V>
HWY_INLINE V lifted(float x) {
  return hn::Set(hn::DFromV<V>(), x);
}
template <class U>
HWY_INLINE U lifted(std::uint32_t u) {
  return hn::Set(hn::DFromV<U>(), u);
}

#define WEFT_FORMULA    \
  template <class Real> \
  HWY_INLINE
#define WEFT_INOUT(name) Real& name
#define WEFT_TABLE(name, size) const float(&name)[size]
#define WEFT_LENGTH(table) static_cast<int>(std::size(table))
#define WEFT_UNROLLED
#define WEFT_BITS const auto
#define WEFT_SELECT(condition, a, b) select(condition, a, b)
#define WEFT_ZERO_OR(condition, a) hn::IfThenZeroElse(condition, a)
#define WEFT_OR_ZERO(condition, a) hn::IfThenElseZero(condition, a)
#define WEFT_SHIFT_LEFT(u, count) hn::ShiftLeft<count>(u)
#define WEFT_SHIFT_RIGHT_SIGNED(u, count) shifted_right_signed<count>(u)

template <class V>
HWY_INLINE V real(V, float constant) {
  return lifted<V>(constant);
}

#define WEFT_WORD(name, Operation)                      \
  template <class A, class B, class V = VectorOf<A, B>> \
  HWY_INLINE auto name(A a, B b) {                      \
    return hn::Operation(lifted<V>(a), lifted<V>(b));   \
  }
WEFT_WORD(add, Add)
WEFT_WORD(sub, Sub)
WEFT_WORD(mul, Mul)
WEFT_WORD(divide, Div)
WEFT_WORD(is_less, Lt)
WEFT_WORD(is_greater, Gt)
WEFT_WORD(is_at_most, Le)
WEFT_WORD(is_at_least, Ge)
WEFT_WORD(with_sign, CopySign)
#undef WEFT_WORD
#define WEFT_WORD(name, Operation)                                  \
  template <class A, class B, class C, class V = VectorOf<A, B, C>> \
  HWY_INLINE V name(A a, B b, C c) {                                \
    return hn::Operation(lifted<V>(a), lifted<V>(b), lifted<V>(c)); \
  }
WEFT_WORD(fused, MulAdd)
WEFT_WORD(negated_fused, NegMulAdd)
#undef WEFT_WORD
#define WEFT_WORD(name, result) \
  template <class V>            \
  HWY_INLINE auto name(V x) {   \
    return result;              \
  }
WEFT_WORD(divide_by_successor, hn::Div(x, add(x, 1.0f)))
WEFT_WORD(root, hn::Sqrt(x))
WEFT_WORD(is_nan, hn::IsNaN(x))
WEFT_WORD(nan_of, x)
WEFT_WORD(magnitude_of, hn::Abs(x))
WEFT_WORD(cheap_magnitude_of, hn::Abs(x))
WEFT_WORD(negated, hn::Neg(x))
WEFT_WORD(bits, hn::BitCast(hn::RebindToUnsigned<hn::DFromV<V>>(), x))
WEFT_WORD(from_bits, hn::BitCast(hn::RebindToFloat<hn::DFromV<V>>(), x))
WEFT_WORD(from_signed,
          hn::ConvertTo(hn::RebindToFloat<hn::DFromV<V>>(), hn::BitCast(hn::RebindToSigned<hn::DFromV<V>>(), x)))
WEFT_WORD(is_odd, hn::RebindMask(hn::RebindToFloat<hn::DFromV<V>>(),
                                 hn::Ne(hn::And(x, lifted<V>(1u)), hn::Zero(hn::DFromV<V>()))))
#undef WEFT_WORD

template <class V>
HWY_INLINE V keep_nan(V, V y) {
  return y;
}
template <class V>
HWY_INLINE V cheap_keep_nan(V, V y) {
  return y;
}
template <class M, class A, class B, class V = VectorOf<A, B>>
HWY_INLINE V select(M condition, A a, B b) {
  return hn::IfThenElse(condition, lifted<V>(a), lifted<V>(b));
}
// limit < x ? limit : x, so a NaN x stays: what x86 min does in this operand order, and no other machine's.
template <class A, class V>
HWY_INLINE V at_most(A limit, V x) {
#if HWY_ARCH_X86
  return hn::Min(lifted<V>(limit), x);
#else
  return select(is_less(limit, x), limit, x);
#endif
}
template <class A, class V>
HWY_INLINE V at_least(A limit, V x) {
#if HWY_ARCH_X86
  return hn::Max(lifted<V>(limit), x);
#else
  return select(is_greater(limit, x), limit, x);
#endif
}
template <class V>
HWY_INLINE V sign_of(V x) {
  const V one = lifted<V>(1.0f), zero = hn::Zero(hn::DFromV<V>());
  return hn::IfThenElseZero(hn::Or(hn::Lt(x, zero), hn::Gt(x, zero)), hn::CopySign(one, x));
}
template <class V>
HWY_INLINE V chosen(V x) {
  return select(is_less(hn::Abs(x), kSmallestNormal), hn::And(hn::SignBit(hn::DFromV<V>()), x), x);
}

template <class U>
HWY_INLINE U add_bits(U u, U v) {
  return hn::Add(u, v);
}
template <class U>
HWY_INLINE U add_bits(U u, std::uint32_t v) {
  return hn::Add(u, lifted<U>(v));
}
template <class U>
HWY_INLINE U sub_bits(U u, U v) {
  return hn::Sub(u, v);
}
template <class U>
HWY_INLINE U sub_bits(U u, std::uint32_t v) {
  return hn::Sub(u, lifted<U>(v));
}
template <class U>
HWY_INLINE U and_bits(U u, std::uint32_t v) {
  return hn::And(u, lifted<U>(v));
}
template <class U>
HWY_INLINE U xor_bits(U u, U v) {
  return hn::Xor(u, v);
}
// Floats' own exclusive or, which g++ makes one operation with a select after it.
template <class V>
HWY_INLINE V flipped(V y, Bits<V> u) {
  return hn::Xor(y, hn::BitCast(hn::DFromV<V>(), u));
}
template <int kCount, class U>
HWY_INLINE U shifted_right_signed(U u) {
  const hn::RebindToSigned<hn::DFromV<U>> d;
  return hn::BitCast(hn::DFromV<U>(), hn::ShiftRight<kCount>(hn::BitCast(d, u)));
}

#include "kernels/formulas/clip.inc"
#include "kernels/formulas/math.inc"
// Activations are made of those.
#include "kernels/formulas/activations.inc"
// Losses of values too.
#define WEFT_LOSS_FORMULAS
#include "kernels/formulas/losses.def"
#undef WEFT_LOSS_FORMULAS

#include "kernels/formulas/end.inc"

}  // namespace formulas
}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
