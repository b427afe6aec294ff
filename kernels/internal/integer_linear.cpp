// SPDX-License-Identifier: Apache-2.0

#include "kernels/internal/integer_linear.hpp"

#include "core/assert.hpp"

namespace weft::kernels::detail {

CodeForm code_form(const ConstWeight& w) noexcept {
  CodeForm form;
  form.bits = bits(w.dtype);
  form.block_scale = is_block(w.granularity);
  form.has_zero_points = has_zero_point(w.dtype);
  form.row_scale = w.activations == Activations::int8_row;
  switch (w.dtype) {
    case Dtype::int8:
      form.flip = 0x80808080u;
      form.zero = 128;
      break;
    case Dtype::int4:
      form.flip = 0x88888888u;
      form.zero = 8;
      break;
    case Dtype::int2:
    case Dtype::ternary:
      form.flip = 0xaaaaaaaau;
      form.zero = 2;
      break;
    case Dtype::binary:
      form.zero = 1;
      break;
    case Dtype::uint8:
    case Dtype::uint4:
    case Dtype::uint2:
      form.lane_zero = w.granularity != Granularity::tensor;
      if (!form.lane_zero) form.zero = *static_cast<const std::uint8_t*>(w.zero_points);
      break;
    default:
      WEFT_ASSERT(false, "linear_integer takes integer codes of 8 bits or fewer");
  }
  return form;
}

}  // namespace weft::kernels::detail
