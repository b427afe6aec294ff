// SPDX-License-Identifier: Apache-2.0
#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/linear_dequantized_floats.cpp"
#define WEFT_WITHOUT_WASM
#include "kernels/foreach_isa.hpp"
#include "kernels/internal/dequantized.hpp"
#include "kernels/simd/dequantized_row-inl.hpp"

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

#if WEFT_ISA_IS_SCALAR

void dequantize_values(const ConstWeight& w, const detail::DequantizedPart& part, float* to) noexcept {
  WEFT_ISA_RAN();
  detail::dequantize_codes(w, part, to);
}

void row(const ConstWeight& w, const float* bias, const float* x, float* to) noexcept {
  WEFT_ISA_RAN();
  detail::row_of_codes(w, bias, x, to);
}

#else

/// Calls visit.operator()<Decoder>() with the decoder of a type.
template <class Visit>
void visit_decoder(const ConstWeight& w, const Visit& visit) {
  switch (w.dtype) {
    case Dtype::float16:
      return visit.template operator()<HalfDecoder>();
    case Dtype::bfloat16:
      return visit.template operator()<Bfloat16Decoder>();
    case Dtype::fp8_e4m3:
      return w.nan_free && *w.nan_free ? visit.template operator()<E4m3Decoder<false> >()
                                       : visit.template operator()<E4m3Decoder<true> >();
    default:
      return visit.template operator()<E5m2Decoder>();
  }
}

void dequantize_values(const ConstWeight& w, const detail::DequantizedPart& part, float* to) noexcept {
  WEFT_ISA_RAN();
  visit_decoder(w, [&]<class Decoder>() HWY_ATTR { dequantize_part<Decoder>(w, part, to); });
}

void row(const ConstWeight& w, const float* bias, const float* x, float* to) noexcept {
  WEFT_ISA_RAN();
  visit_decoder(w, [&]<class Decoder>() HWY_ATTR { dequantized_row<Decoder>(w, bias, x, to); });
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels::detail {
namespace {
constexpr auto kDequantize = WEFT_DISPATCH(dequantize_values);
constexpr auto kRow = WEFT_DISPATCH(row);
}  // namespace

void dequantize_floats(const ConstWeight& w, const DequantizedPart& part, float* to) noexcept {
  kDequantize.get()(w, part, to);
}
void row_of_floats(const ConstWeight& w, const float* bias, const float* x, float* to) noexcept {
  kRow.get()(w, bias, x, to);
}

}  // namespace weft::kernels::detail
#endif
