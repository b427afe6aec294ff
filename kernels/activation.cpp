// SPDX-License-Identifier: Apache-2.0

#include "kernels/activation.hpp"

namespace weft::kernels {
namespace {
constexpr std::string_view kActivationNames[] = {
#define WEFT_ACTIVATION(name, slope_of, formula) #name,
#include "kernels/activations.def"
#undef WEFT_ACTIVATION
};
}  // namespace

std::string_view name(Activation activation) noexcept { return kActivationNames[static_cast<int>(activation)]; }

std::optional<Activation> parse_activation(std::string_view text) noexcept {
  for (int i = 0; i < kActivationCount; ++i)
    if (kActivationNames[i] == text) return static_cast<Activation>(i);
  return std::nullopt;
}

}  // namespace weft::kernels
