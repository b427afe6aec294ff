// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/target_step.cpp"
#include "kernels/target_step.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/internal/values-inl.hpp"
#include "kernels/lanes-inl.hpp"
#include "kernels/math_constants.hpp"
#include "kernels/unary-inl.hpp"

#include <cmath>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

using namespace formulas;

#if WEFT_ISA_IS_SCALAR

// The sum over j of left(j) right(j), as row_dots has it.
template <class Left, class Right>
float dot(std::size_t n, const Left& left, const Right& right) {
  return lane_sum(n, [&](float sum, std::size_t j) {
    const auto load = [j](const float* p) { return p[j]; };
    return std::fma(left(load), right(load), sum);
  });
}

#else

template <class Left, class Right>
HWY_INLINE float dot(std::size_t n, const Left& left, const Right& right) {
  return LaneSum(n, [&](FloatVec sum, auto load) HWY_ATTR { return hn::MulAdd(left(load), right(load), sum); });
}

#endif

void limit_displacement(const float* wanted, const float* y, std::size_t n, const DisplacementLimits& limits,
                        float* to) noexcept {
  WEFT_ISA_RAN();
  const float* from = wanted;
  if (limits.displacement != 0.0f) {
    const auto value = [=](auto load) HWY_ATTR { return load(wanted); };
    const auto factor = repeated(limit_factor(limits.displacement, false, dot(n, value, value), n));
    for_each_value(n, [&](auto load, auto store) HWY_ATTR { store(mul(factor, load(wanted)), to); });
    from = to;
  }
  if (limits.activation != 0.0f) {
    const auto value = [=](auto load) HWY_ATTR { return load(y); };
    const auto within = repeated(limit_factor(limits.activation, false, dot(n, value, value), n));
    const auto share = repeated(kPullBack);
    for_each_value(n, [&](auto load, auto store)
                          HWY_ATTR { store(fused(share, sub(mul(within, load(y)), load(y)), load(from)), to); });
  } else if (from != to) {
    for_each_value(n, [&](auto load, auto store) HWY_ATTR { store(load(from), to); });
  }
}

// As link_budget has it.
HWY_INLINE float budget_factor(const TargetError& of) {
  const float *const y = of.y, *const d = of.displacement;
  const auto output = [=](auto load) HWY_ATTR { return load(y); };
  const auto target = [=](auto load) HWY_ATTR { return add(load(y), load(d)); };
  const float norms = std::sqrt(dot(of.out, output, output)) * std::sqrt(dot(of.out, target, target));
  const float cosine = norms == 0.0f ? 0.0f : dot(of.out, output, target) / norms;
  const float budget = (cosine + 1.0f) * 0.5f;
  return budget < constants::kLeastBudget ? 0.0f : std::fma(0.5f, budget, 0.5f);
}

bool target_error(const TargetError& of, float* dy) noexcept {
  WEFT_ISA_RAN();
  const float budget = budget_factor(of);
  if (budget == 0.0f) return false;
  const float *const x = of.x, *const d = of.displacement, *const slope = of.slope;
  const auto input = [=](auto load) HWY_ATTR { return load(x); };
  const bool is_limited = of.step_limit != 0.0f;
  const auto factor = repeated(budget), scale = repeated(of.scale);
  const auto limit = repeated(is_limited ? limit_factor(of.step_limit, true, dot(of.in, input, input), of.in) : 1.0f);
  VisitActivation(of.activation, [&](auto a) HWY_ATTR {
    constexpr Activation kActivation = decltype(a)::value;
    for_each_value(of.out, [&](auto load, auto store) HWY_ATTR {
      auto error = mul(factor, load(d));
      if (is_limited) error = mul(limit, error);
      error = mul(scale, error);
      if constexpr (kActivation == Activation::linear)
        store(error, dy);
      else
        store(ActivateBackward<kActivation>(load(slope), error), dy);
    });
  });
  return true;
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kLimitDisplacement = WEFT_DISPATCH(limit_displacement);
constexpr auto kTargetError = WEFT_DISPATCH(target_error);
}  // namespace

void limit_displacement(const float* wanted, const float* y, std::size_t n, const DisplacementLimits& limits,
                        float* to) noexcept {
  kLimitDisplacement.get()(wanted, y, n, limits, to);
}
bool target_error(const TargetError& of, float* dy) noexcept { return kTargetError.get()(of, dy); }

}  // namespace weft::kernels
#endif
