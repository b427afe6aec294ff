// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <string_view>

namespace weft::kernels {

/// A function applied to each element; rows and formulas in kernels/activations.def.
enum class Activation : int {
#define WEFT_ACTIVATION(name, slope_of, formula) name,
#include "kernels/activations.def"
#undef WEFT_ACTIVATION
};

inline constexpr int kActivationCount = 0
#define WEFT_ACTIVATION(name, slope_of, formula) +1
#include "kernels/activations.def"
#undef WEFT_ACTIVATION
    ;

std::string_view name(Activation activation) noexcept;
std::optional<Activation> parse_activation(std::string_view text) noexcept;

}  // namespace weft::kernels
