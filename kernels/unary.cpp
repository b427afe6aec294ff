// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/unary.cpp"
#include "kernels/unary.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/rows-inl.hpp"
#include "kernels/unary-inl.hpp"

#include "core/assert.hpp"

#include <string>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

HWY_INLINE void activate(Activation activation, const ConstMatrixView& x, const MatrixView& y) noexcept {
#if WEFT_ISA_IS_SCALAR
  VisitActivation(activation, [&](auto a) { map(x, y, [](float v) { return Activate<decltype(a)::value>(v); }); });
#else
  VisitActivation(activation, [&](auto a) HWY_ATTR {
    map(x, y, [](FloatTag, FloatVec v) HWY_ATTR { return Activate<decltype(a)::value>(v); });
  });
#endif
}

void unary(Activation activation, const ConstMatrixView& x, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  activate(activation, x, y);
}

void unary_backward(Activation activation, const ConstMatrixView& from, const ConstMatrixView& dy,
                    const MatrixView& dx) noexcept {
  WEFT_ISA_RAN();
#if WEFT_ISA_IS_SCALAR
  VisitActivation(activation, [&](auto a) {
    map(from, dy, dx, [](float v, float g) { return ActivateBackward<decltype(a)::value>(v, g); });
  });
#else
  VisitActivation(activation, [&](auto a) HWY_ATTR {
    map(from, dy, dx,
        [](FloatTag, FloatVec v, FloatVec g) HWY_ATTR { return ActivateBackward<decltype(a)::value>(v, g); });
  });
#endif
}

}  // namespace

void activate_row(Activation activation, const float* x, float* y, std::size_t n) noexcept {
  activate(activation, {x, 1, n, n}, {y, 1, n, n});
}

}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kUnary = WEFT_DISPATCH(unary);
constexpr auto kUnaryBackward = WEFT_DISPATCH(unary_backward);
}  // namespace

void unary(Activation activation, const ConstMatrixView& x, const MatrixView& y) noexcept {
  kUnary.get()(activation, x, y);
}

void unary_backward(Activation activation, const ConstMatrixView& z, const ConstMatrixView& y,
                    const ConstMatrixView& dy, const MatrixView& dx) noexcept {
  const ConstMatrixView from = needs_preactivation(activation) ? z : y;
  WEFT_DCHECK(from.data || from.rows == 0, "the slope of " + std::string(name(activation)) + " lacks its operand");
  kUnaryBackward.get()(activation, from, dy, dx);
}

}  // namespace weft::kernels
#endif
