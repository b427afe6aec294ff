// SPDX-License-Identifier: Apache-2.0

#include "kernels/loss_traits.hpp"

namespace weft::kernels {
namespace {

struct LossTraits {
  Loss loss;
  LossSetting setting;
  TargetRange range;
};
constexpr LossTraits kLossTraits[] = {
#define WEFT_LOSS_TAKES(name, setting, range) {Loss::name, LossSetting::setting, TargetRange::range},
#include "kernels/formulas/losses.def"
#undef WEFT_LOSS_TAKES
};

LossTraits traits_of(Loss loss) noexcept {
  for (const LossTraits& each : kLossTraits)
    if (each.loss == loss) return each;
  return {loss, LossSetting::none, TargetRange::any};
}

}  // namespace

LossSetting setting_of(Loss loss) noexcept { return traits_of(loss).setting; }
TargetRange range_of(Loss loss) noexcept { return traits_of(loss).range; }
Loss default_loss(LossTargets targets) noexcept {
  int first = 0;
  while (targets_of(static_cast<Loss>(first)) != targets) ++first;
  return static_cast<Loss>(first);
}

}  // namespace weft::kernels
