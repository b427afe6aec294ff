// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/loss.hpp"

namespace weft::kernels {

/// Option that a loss has besides its targets, and numbers that its targets may be.
enum class LossSetting : int { none, delta };
enum class TargetRange : int { any, probability };

LossSetting setting_of(Loss loss) noexcept;
TargetRange range_of(Loss loss) noexcept;
/// The first loss with such targets, for whoever names none.
Loss default_loss(LossTargets targets) noexcept;

}  // namespace weft::kernels
