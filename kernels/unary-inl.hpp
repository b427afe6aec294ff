// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), never by the scalar pass.
// Activations on vectors, for `unary` and for kernels that fuse them; the operations of unary_scalar.cpp.

#if defined(WEFT_KERNELS_UNARY_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_UNARY_INL
#undef WEFT_KERNELS_UNARY_INL
#else
#define WEFT_KERNELS_UNARY_INL
#endif

#include "kernels/activation.hpp"
#include "kernels/math-inl.hpp"
#include "kernels/math_constants.hpp"

#include <type_traits>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Relu(D d, V x) {
  return hn::IfThenZeroElse(hn::Lt(x, Constant(d, constants::kSmallestNormal)), x);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Clamp(D d, float limit, V x) {
  return AtMost(d, limit, AtLeast(d, -limit, x));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Gated(D d, V x, V v) {
  const V y = hn::Div(x, LogisticDenominator(d, v));
  return hn::IfThenElse(hn::Lt(v, Constant(d, -constants::kLogisticClamp)), Constant(d, -0.0f), y);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluTanhGate(D d, V x) {
  return hn::Mul(x, hn::MulAdd(hn::Mul(x, x), Constant(d, constants::kGeluCubic), Constant(d, constants::kGelu)));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Gelu(D d, V x) {
  const V half = hn::Mul(AtLeast(d, -constants::kGeluClamp, x), Constant(d, 0.5f));
  return hn::MulAdd(half, Erf(d, hn::Mul(x, Constant(d, constants::kInverseSqrt2))), half);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Softplus(D d, V x) {
  return hn::Add(Relu(d, x), Log1pUnit(d, Exp(d, hn::Neg(hn::Abs(x)))));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Mish(D d, V x) {
  const V e = Exp(d, AtMost(d, constants::kMishClamp, x));
  const V n = hn::MulAdd(e, e, hn::Add(e, e));
  return hn::Mul(AtLeast(d, -constants::kSlopeClamp, x), hn::Div(n, hn::Add(n, Constant(d, 2.0f))));
}

// x times the logistic function's slope at v, plus its value.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V LogisticSlope(D d, V x, V v) {
  const V one = Constant(d, 1.0f);
  const V e = Exp(d, hn::Neg(hn::Abs(v)));
  const V r = hn::Div(one, hn::Add(one, e));
  const V rest = hn::Mul(e, r);
  const V value = hn::IfThenElse(hn::Lt(v, hn::Zero(d)), rest, r);
  return hn::MulAdd(x, hn::Mul(rest, r), value);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SiluSlope(D d, V z) {
  const V x = Clamp(d, constants::kSlopeClamp, z);
  return LogisticSlope(d, x, x);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluSlope(D d, V z) {
  const V half = Constant(d, 0.5f);
  const V x = Clamp(d, constants::kGeluClamp, z);
  const V density = hn::Mul(Constant(d, constants::kNormalPeak), Exp(d, hn::Mul(hn::Mul(x, x), Constant(d, -0.5f))));
  const V mass = hn::MulAdd(half, Erf(d, hn::Mul(x, Constant(d, constants::kInverseSqrt2))), half);
  return hn::MulAdd(x, density, mass);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluTanhSlope(D d, V z) {
  const V x = Clamp(d, constants::kGeluClamp, z);
  const V gate_slope =
      hn::MulAdd(hn::Mul(x, x), Constant(d, 3.0f * constants::kGeluCubic), Constant(d, constants::kGelu));
  return LogisticSlope(d, hn::Mul(x, gate_slope), GeluTanhGate(d, x));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V MishSlope(D d, V z) {
  const V x = AtMost(d, constants::kMishClamp, AtLeast(d, -constants::kSlopeClamp, z));
  const V e = Exp(d, x);
  const V n = hn::MulAdd(e, e, hn::Add(e, e));
  const V r = hn::Div(Constant(d, 1.0f), hn::Add(n, Constant(d, 2.0f)));
  const V peak = hn::Mul(hn::Mul(hn::Mul(hn::MulAdd(e, e, e), Constant(d, 4.0f)), r), r);
  return hn::MulAdd(x, peak, hn::Mul(n, r));
}

// Activation A of x.
template <Activation A, class D, class V = hn::Vec<D>>
HWY_INLINE V Activate(D d, V x) {
  if constexpr (A == Activation::linear) return x;
  if constexpr (A == Activation::relu) return Relu(d, x);
  const auto is_kept = hn::Ge(x, Constant(d, constants::kSmallestNormal));
  if constexpr (A == Activation::leaky_relu)
    return hn::IfThenElse(is_kept, x, hn::Mul(x, Constant(d, constants::kLeakySlope)));
  if constexpr (A == Activation::relu2) return hn::Mul(Relu(d, x), Relu(d, x));
  if constexpr (A == Activation::silu) return Gated(d, x, x);
  if constexpr (A == Activation::gelu) return Gelu(d, x);
  if constexpr (A == Activation::gelu_tanh) return Gated(d, x, GeluTanhGate(d, x));
  if constexpr (A == Activation::tanh) return Tanh(d, x);
  if constexpr (A == Activation::sigmoid) return Sigmoid(d, x);
  if constexpr (A == Activation::softplus) return Softplus(d, x);
  if constexpr (A == Activation::elu) return hn::IfThenElse(is_kept, x, Expm1Nonpositive(d, x));
  if constexpr (A == Activation::mish) return Mish(d, x);
}

// dy times the slope of A; v is z or y, as needs_preactivation(A) says.
template <Activation A, class D, class V = hn::Vec<D>>
HWY_INLINE V ActivateBackward(D d, V v, V dy) {
  const V one = Constant(d, 1.0f);
  const auto is_positive = hn::Gt(v, hn::Zero(d));
  if constexpr (A == Activation::linear) return dy;
  if constexpr (A == Activation::relu) return hn::IfThenElseZero(is_positive, Flush(d, dy));
  if constexpr (A == Activation::leaky_relu)
    return hn::IfThenElse(is_positive, Flush(d, dy), hn::Mul(dy, Constant(d, constants::kLeakySlope)));
  if constexpr (A == Activation::relu2) return hn::Mul(dy, hn::Add(Relu(d, v), Relu(d, v)));
  if constexpr (A == Activation::silu) return hn::Mul(dy, SiluSlope(d, v));
  if constexpr (A == Activation::gelu) return hn::Mul(dy, GeluSlope(d, v));
  if constexpr (A == Activation::gelu_tanh) return hn::Mul(dy, GeluTanhSlope(d, v));
  if constexpr (A == Activation::tanh) return hn::Mul(dy, hn::NegMulAdd(v, v, one));
  if constexpr (A == Activation::sigmoid) return hn::Mul(dy, hn::NegMulAdd(v, v, v));
  if constexpr (A == Activation::softplus) return hn::Mul(dy, Sigmoid(d, v));
  if constexpr (A == Activation::elu) return hn::IfThenElse(is_positive, Flush(d, dy), hn::Mul(dy, hn::Add(v, one)));
  if constexpr (A == Activation::mish) return hn::Mul(dy, MishSlope(d, v));
}

// Calls f(std::integral_constant<Activation, A>()) for the A that `activation` is: the choice leaves the loop.
template <class F>
HWY_INLINE void VisitActivation(Activation activation, const F& f) {
  switch (activation) {
#define WEFT_ACTIVATION(name, formula) \
  case Activation::name:               \
    return f(std::integral_constant<Activation, Activation::name>());
#include "kernels/activations.def"
#undef WEFT_ACTIVATION
  }
}

// The same with the choice made per vector.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Activate(D d, Activation activation, V x) {
  switch (activation) {
#define WEFT_ACTIVATION(name, formula) \
  case Activation::name:               \
    return Activate<Activation::name>(d, x);
#include "kernels/activations.def"
#undef WEFT_ACTIVATION
  }
  return x;
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
