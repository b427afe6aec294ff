// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/math_rows.cpp"
#include "kernels/math_rows.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/formulas/scalar.hpp"
#include "kernels/rows-inl.hpp"
#if !WEFT_ISA_IS_SCALAR
#include "kernels/formulas/vector-inl.hpp"
#endif

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

#if WEFT_ISA_IS_SCALAR
#define WEFT_APPLY(function) map(x, y, formulas::exact_##function)
#else
#define WEFT_APPLY(function) map(x, y, [](FloatTag, FloatVec v) HWY_ATTR { return formulas::exact_##function(v); })
#endif

void apply(Function function, const ConstMatrixView& x, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  switch (function) {
    case Function::exp:
      return WEFT_APPLY(exp);
    case Function::expm1_nonpositive:
      return WEFT_APPLY(expm1_nonpositive);
    case Function::log:
      return WEFT_APPLY(log);
    case Function::log1p_unit:
      return WEFT_APPLY(log1p_unit);
    case Function::tanh:
      return WEFT_APPLY(tanh);
    case Function::sigmoid:
      return WEFT_APPLY(sigmoid);
    case Function::erf:
      return WEFT_APPLY(erf);
    case Function::sin:
      return WEFT_APPLY(sin);
    case Function::cos:
      return WEFT_APPLY(cos);
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
