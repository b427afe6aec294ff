// SPDX-License-Identifier: Apache-2.0

#include "kernels/formulas/scalar.hpp"
#include "kernels/unary.hpp"

namespace weft::kernels {

float activate(Activation activation, float x) noexcept {
  switch (activation) {
#define WEFT_ACTIVATION(name, slope_of, formula) \
  case Activation::name:                         \
    return formulas::activate_##name(x);
#include "kernels/activations.def"
#undef WEFT_ACTIVATION
  }
  return x;
}

float activate_backward(Activation activation, float v, float dy) noexcept {
  switch (activation) {
#define WEFT_ACTIVATION(name, slope_of, formula) \
  case Activation::name:                         \
    return formulas::activate_backward_##name(v, dy);
#include "kernels/activations.def"
#undef WEFT_ACTIVATION
  }
  return dy;
}

}  // namespace weft::kernels
