// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/math_rows.cpp"
#include "kernels/math_rows.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/math.hpp"
#include "kernels/rows-inl.hpp"
#if !WEFT_ISA_IS_SCALAR
#include "kernels/math-inl.hpp"
#endif

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

#if WEFT_ISA_IS_SCALAR
#define WEFT_APPLY(scalar_function, vector_function) map(x, y, math::scalar_function)
#else
#define WEFT_APPLY(scalar_function, vector_function) \
  map(x, y, [](FloatTag d, FloatVec v) HWY_ATTR { return vector_function(d, v); })
#endif

void apply(Function function, const ConstMatrixView& x, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  switch (function) {
    case Function::exp:
      return WEFT_APPLY(exp, Exp);
    case Function::expm1_nonpositive:
      return WEFT_APPLY(expm1_nonpositive, Expm1Nonpositive);
    case Function::log:
      return WEFT_APPLY(log, Log);
    case Function::log1p_unit:
      return WEFT_APPLY(log1p_unit, Log1pUnit);
    case Function::tanh:
      return WEFT_APPLY(tanh, Tanh);
    case Function::sigmoid:
      return WEFT_APPLY(sigmoid, Sigmoid);
    case Function::erf:
      return WEFT_APPLY(erf, Erf);
    case Function::sin:
      return WEFT_APPLY(sin, Sin);
    case Function::cos:
      return WEFT_APPLY(cos, Cos);
  }
}
#undef WEFT_APPLY

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kApply = WEFT_DISPATCH(apply);
constexpr std::string_view kFunctionNames[kFunctionCount] = {
    "exp", "expm1_nonpositive", "log", "log1p_unit", "tanh", "sigmoid", "erf", "sin", "cos"};
}  // namespace

std::string_view name(Function function) noexcept { return kFunctionNames[static_cast<int>(function)]; }
void apply(Function function, const ConstMatrixView& x, const MatrixView& y) noexcept { kApply.get()(function, x, y); }

}  // namespace weft::kernels
#endif
