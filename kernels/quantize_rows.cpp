// SPDX-License-Identifier: Apache-2.0
#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/quantize_rows.cpp"
#include "kernels/quantize_rows.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/quantize-inl.hpp"

#include <algorithm>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

void quantize_rows(const ConstMatrixView& x, const QuantizedRows& to, Activations activations) noexcept {
  WEFT_ISA_RAN();
  const std::size_t blocks = quantized_blocks(x.cols);
  for (std::size_t i = 0; i < x.rows; ++i) {
    const std::uint32_t of_row = activations == Activations::int8_row ? largest_of_row(x.row(i), x.cols) : 0;
    for (std::size_t t = 0; t < blocks; ++t) {
      const std::size_t at = i * blocks + t, k = t * kScaleBlock;
      const BlockScale block =
          quantize_block(x.row(i) + k, std::min(kScaleBlock, x.cols - k), to.codes + at * kScaleBlock, of_row);
      to.scales[at] = block.scale;
      to.sums[at] = block.sum;
    }
  }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kQuantizeRows = WEFT_DISPATCH(quantize_rows);
}

void quantize_rows(const ConstMatrixView& x, const QuantizedRows& to, Activations activations) noexcept {
  kQuantizeRows.get()(x, to, activations);
}

}  // namespace weft::kernels
#endif
