// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/options.hpp"

#include "kernels/loss_traits.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace weft::learning {

/// Names of the losses that take such targets; `is_any`: those alone whose values may be any number.
std::vector<std::string_view> loss_names(LossTargets targets, bool is_any = false);
/// The same in words: "mse, mae or huber".
std::string loss_words(LossTargets targets, bool is_any = false);

}  // namespace weft::learning
