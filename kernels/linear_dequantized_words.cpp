// SPDX-License-Identifier: Apache-2.0
#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/linear_dequantized_words.cpp"
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

/// Calls visit.operator()<Decoder>() with the decoder of `bits` for a weight: values in the table, or numbers.
template <int bits, class Visit>
void visit_nibbles(const ConstWeight& w, const Visit& visit) {
  if (w.granularity == Granularity::tensor) return visit.template operator()<NibbleDecoder<bits, NoGroup> >();
  if constexpr (bits > 1)
    if (w.zero_points) return visit.template operator()<NibbleDecoder<bits, AffineGroup> >();
  return visit.template operator()<NibbleDecoder<bits, ScaleGroup> >();
}

template <class Visit>
void visit_decoder(const ConstWeight& w, const Visit& visit) {
  switch (bits(w.dtype)) {
    case 8:
      if (w.dtype == Dtype::int8) return visit.template operator()<ByteDecoder<true> >();
      return visit.template operator()<ByteDecoder<false> >();
    case 4:
      return visit_nibbles<4>(w, visit);
    case 2:
      return visit_nibbles<2>(w, visit);
    default:
      return visit_nibbles<1>(w, visit);
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

void dequantize_words(const ConstWeight& w, const DequantizedPart& part, float* to) noexcept {
  kDequantize.get()(w, part, to);
}
void row_of_words(const ConstWeight& w, const float* bias, const float* x, float* to) noexcept {
  kRow.get()(w, bias, x, to);
}

}  // namespace weft::kernels::detail
#endif
