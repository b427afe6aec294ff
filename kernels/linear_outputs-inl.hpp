// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), the scalar pass too.
// Steps of every form of a linear layer after a row's sums.

#if defined(WEFT_KERNELS_LINEAR_OUTPUTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_LINEAR_OUTPUTS_INL
#undef WEFT_KERNELS_LINEAR_OUTPUTS_INL
#else
#define WEFT_KERNELS_LINEAR_OUTPUTS_INL
#endif

#include "kernels/activation.hpp"
#include "kernels/unary-inl.hpp"
#include "kernels/views.hpp"

#include <cstddef>
#include <cstring>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

/// Destination of a row's pre-activations and the arithmetic after them: the same for one row and for many.
struct Outputs {
  const float* bias;
  Activation activation;
  const MatrixView& z;
  const MatrixView& y;
  float* before_activation(std::size_t b) const noexcept { return z.data ? z.row(b) : y.row(b); }
  std::size_t stride_before_activation() const noexcept { return z.data ? z.stride : y.stride; }
  bool has_finish() const noexcept { return activation != Activation::linear || (z.data && z.data != y.data); }
  void finish(std::size_t b, std::size_t first, std::size_t count) const noexcept {
    const float* from = before_activation(b) + first;
    float* to = y.row(b) + first;
    if (activation != Activation::linear)
      activate_row(activation, from, to, count);
    else if (from != to)
      std::memcpy(to, from, count * sizeof(float));
  }
};

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
