// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), never by the scalar pass.
// The functions of math.cpp on vectors, the same operations in the same order; change both together.

#if defined(WEFT_KERNELS_MATH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_MATH_INL
#undef WEFT_KERNELS_MATH_INL
#else
#define WEFT_KERNELS_MATH_INL
#endif

#include "kernels/math_constants.hpp"

#include <cstddef>
#include <cstdint>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> Constant(D d, float value) {
  return hn::Set(d, value);
}

// x, or a zero of x's sign where x is subnormal.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Flush(D d, V x) {
  return hn::IfThenElse(hn::Lt(hn::Abs(x), Constant(d, 0x1p-126f)), hn::And(hn::SignBit(d), x), x);
}

// limit < x ? limit : x, so a NaN x stays: what x86 min does in this operand order, and no other machine's.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V AtMost(D d, float limit, V x) {
#if HWY_ARCH_X86
  return hn::Min(Constant(d, limit), x);
#else
  return hn::IfThenElse(hn::Lt(Constant(d, limit), x), Constant(d, limit), x);
#endif
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V AtLeast(D d, float limit, V x) {
#if HWY_ARCH_X86
  return hn::Max(Constant(d, limit), x);
#else
  return hn::IfThenElse(hn::Gt(Constant(d, limit), x), Constant(d, limit), x);
#endif
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V PowerOfTwo(D d, V rounded) {
  const hn::RebindToUnsigned<D> du;
  return hn::BitCast(d, hn::Add(hn::ShiftLeft<23>(hn::BitCast(du, rounded)), hn::Set(du, 0x3f800000u)));
}

template <class D, std::size_t N, class V = hn::Vec<D>>
HWY_INLINE V Horner(D d, const float (&c)[N], V x) {
  V sum = Constant(d, c[N - 1]);
  for (std::size_t i = N - 1; i-- > 0;) sum = hn::MulAdd(sum, x, Constant(d, c[i]));
  return sum;
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Expm1Reduced(D d, V r, const float (&k)[5] = constants::kExp) {
  const V r2 = hn::Mul(r, r);
  const V c23 = hn::MulAdd(Constant(d, k[3]), r, Constant(d, k[2]));
  const V c01 = hn::MulAdd(Constant(d, k[1]), r, Constant(d, k[0]));
  const V c = hn::MulAdd(r2, hn::MulAdd(r2, Constant(d, k[4]), c23), c01);
  return hn::MulAdd(r2, c, r);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V ReduceExp(D d, V x, V n) {
  return hn::MulAdd(n, Constant(d, -constants::kLn2Low), hn::MulAdd(n, Constant(d, -constants::kLn2), x));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V LogTail(D d, V f) {
  return hn::Mul(hn::Mul(f, f), hn::MulAdd(f, Horner(d, constants::kLog, f), Constant(d, -0.5f)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const V round = Constant(d, constants::kRound);
  const V rounded = hn::MulAdd(x, Constant(d, constants::kLog2E), round);
  const V y = hn::Add(Constant(d, 1.0f), Expm1Reduced(d, ReduceExp(d, x, hn::Sub(rounded, round))));
  const V scaled = hn::BitCast(d, hn::Add(hn::BitCast(du, y), hn::ShiftLeft<23>(hn::BitCast(du, rounded))));
  const V upper =
      hn::IfThenElse(hn::Gt(x, Constant(d, constants::kExpLargest)), hn::BitCast(d, hn::Set(du, 0x7f800000u)), scaled);
  const V lower = hn::IfThenZeroElse(hn::Lt(x, Constant(d, constants::kExpSmallest)), upper);
  return hn::IfThenElse(hn::IsNaN(x), y, lower);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Expm1Nonpositive(D d, V x) {
  const V round = Constant(d, constants::kRound), one = Constant(d, 1.0f);
  const V clamped = AtLeast(d, constants::kExpm1Clamp, x);
  const V rounded = hn::MulAdd(clamped, Constant(d, constants::kLog2E), round);
  const V p = Expm1Reduced(d, ReduceExp(d, clamped, hn::Sub(rounded, round)));
  const V s = PowerOfTwo(d, rounded);
  return hn::CopySign(hn::MulAdd(s, p, hn::Sub(s, one)), x);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const V infinity = hn::BitCast(d, hn::Set(du, 0x7f800000u));
  const auto xi = hn::BitCast(di, x);
  const auto exponent = hn::ShiftRight<23>(hn::Sub(xi, hn::Set(di, 0x3f400000)));
  const V k = hn::ConvertTo(d, exponent);
  const V f = hn::Sub(hn::BitCast(d, hn::Sub(xi, hn::ShiftLeft<23>(exponent))), Constant(d, 1.0f));
  const V low = hn::MulAdd(k, Constant(d, constants::kLn2Low), LogTail(d, f));
  const V y = hn::MulAdd(k, Constant(d, constants::kLn2), hn::Add(f, low));
  const V negative =
      hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::BitCast(d, hn::Set(du, 0x7fc00000u)), hn::Neg(infinity));
  const V positive = hn::IfThenElse(hn::Lt(x, Constant(d, 0x1p-126f)), negative, y);
  return hn::IfThenElse(hn::Lt(x, infinity), positive, x);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log1pUnit(D d, V x) {
  const V half = Constant(d, 0.5f);
  const auto halve = hn::Ge(x, half);
  const V f = hn::IfThenElse(halve, hn::MulAdd(x, half, Constant(d, -0.5f)), x);
  const V y = hn::Add(f, LogTail(d, f));
  return hn::IfThenElse(halve, hn::Add(y, Constant(d, constants::kLn2)), y);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  const V round = Constant(d, constants::kRound), half = Constant(d, 0.5f);
  const V a = hn::Abs(x);
  const V u = hn::Mul(a, a);
  const V small = hn::MulAdd(hn::Mul(a, u), Horner(d, constants::kTanhSmall, u), a);
  const V clamped = AtMost(d, constants::kTanhClamp, a);
  const V rounded = hn::MulAdd(clamped, Constant(d, 2.0f * constants::kLog2E), round);
  const V h = hn::MulAdd(hn::Sub(rounded, round), Constant(d, -0.5f * constants::kLn2), clamped);
  const V p = Expm1Reduced(d, h, constants::kExpHalf);
  const V s = PowerOfTwo(d, rounded);
  const V m = hn::MulAdd(s, p, hn::MulAdd(s, half, Constant(d, -0.5f)));
  const V large = hn::Div(m, hn::Add(m, Constant(d, 1.0f)));
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, Constant(d, constants::kTanhSplit)), small, large), x);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V LogisticDenominator(D d, V x) {
  const V round = Constant(d, constants::kRound);
  const V clamped = AtMost(d, constants::kLogisticClamp, AtLeast(d, -constants::kLogisticClamp, x));
  const V v = hn::Neg(clamped);
  const V rounded = hn::MulAdd(v, Constant(d, constants::kLog2E), round);
  const V p = Expm1Reduced(d, ReduceExp(d, v, hn::Sub(rounded, round)));
  const V s = PowerOfTwo(d, rounded);
  return hn::MulAdd(s, p, hn::Add(s, Constant(d, 1.0f)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  const V y = hn::Div(Constant(d, 1.0f), LogisticDenominator(d, x));
  return hn::IfThenZeroElse(hn::Lt(x, Constant(d, constants::kExpSmallest)), y);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Erf(D d, V x) {
  const V a = hn::Abs(x);
  const V small = hn::MulAdd(x, Horner(d, constants::kErfSmall, hn::Mul(x, x)), x);
  const V s = hn::MulAdd(a, Constant(d, constants::kErfScale), Constant(d, constants::kErfShift));
  const V large = Horner(d, constants::kErfLarge, s);
  const V one_beyond = hn::IfThenElse(hn::Gt(a, Constant(d, constants::kErfOne)), Constant(d, 1.0f), large);
  return hn::IfThenElse(hn::Lt(a, Constant(d, constants::kErfSplit)), small, hn::CopySign(one_beyond, x));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V SinShifted(D d, V a, std::uint32_t quarter_turns) {
  const hn::RebindToUnsigned<D> du;
  const V round = Constant(d, constants::kRound);
  const V rounded = hn::MulAdd(a, Constant(d, constants::kTwoOverPi), round);
  const V n = hn::Sub(rounded, round);
  V r = hn::MulAdd(n, Constant(d, -constants::kHalfPi), a);
  r = hn::MulAdd(n, Constant(d, -constants::kHalfPiMiddle), r);
  r = hn::MulAdd(n, Constant(d, -constants::kHalfPiLow), r);
  const V u = hn::Mul(r, r);
  const V sine = hn::MulAdd(hn::Mul(r, u), Horner(d, constants::kSin, u), r);
  const V cosine =
      hn::MulAdd(hn::Mul(u, u), Horner(d, constants::kCos, u), hn::MulAdd(u, Constant(d, -0.5f), Constant(d, 1.0f)));
  const auto quadrant = hn::Add(hn::BitCast(du, rounded), hn::Set(du, quarter_turns));
  const auto odd = hn::Ne(hn::And(quadrant, hn::Set(du, 1)), hn::Zero(du));
  const auto sign = hn::ShiftLeft<30>(hn::And(quadrant, hn::Set(du, 2)));
  const V y = hn::Xor(hn::IfThenElse(hn::RebindMask(d, odd), cosine, sine), hn::BitCast(d, sign));
  const V nan = hn::BitCast(d, hn::Set(du, 0x7fc00000u));
  return hn::IfThenElse(hn::Le(a, Constant(d, constants::kTrigLimit)), y, nan);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sin(D d, V x) {
  return hn::Xor(SinShifted(d, hn::Abs(x), 0), hn::And(hn::SignBit(d), x));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Cos(D d, V x) {
  return SinShifted(d, hn::Abs(x), 1);
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
