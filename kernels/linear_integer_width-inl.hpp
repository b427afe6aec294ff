// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), the scalar pass too, by a file for each
// width of codes, kIntegerBits. A file each, since all widths of all instruction sets take g++ a minute.

#if defined(WEFT_KERNELS_LINEAR_INTEGER_WIDTH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_LINEAR_INTEGER_WIDTH_INL
#undef WEFT_KERNELS_LINEAR_INTEGER_WIDTH_INL
#else
#define WEFT_KERNELS_LINEAR_INTEGER_WIDTH_INL
#endif

#include "kernels/internal/integer_linear.hpp"
#if !WEFT_ISA_IS_SCALAR
#include "kernels/linear_integer_row-inl.hpp"
#include "kernels/linear_integer_tiles-inl.hpp"
#endif
#if WEFT_ISA_IS_VNNI
#include "kernels/linear_integer_matrix-inl.hpp"
#endif

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

using detail::IntegerKernels;

#if WEFT_ISA_IS_SCALAR

template <int kBits>
const IntegerKernels& integer_kernels(const detail::CodeForm&, std::size_t) noexcept {
  return detail::scalar_integer_kernels();
}

#else

template <int kBits>
std::size_t block_bytes(const CodeForm&) {
  return kScaleBlock * DotOf<kBits>::kWords;
}

// A row or tiles of rows.
struct RunRows {
  static constexpr bool kTakesZeroPoints = true;
  template <int kBits, bool kBlockScale, bool kLaneZero>
  static void run(const ConstWeight& w, const CodeForm& form, const PackedRows& x, std::size_t first, std::size_t last,
                  const Outputs& outputs) noexcept {
    if (last - first == 1 && x.rows_of(first) == 1)
      run_row<kBits, kBlockScale, kLaneZero>(w, form, x, first, outputs);
    else
      run_tiles<kBits, kBlockScale, kLaneZero>(w, form, x, first, last, outputs);
  }
};

#if WEFT_ISA_IS_VNNI
// Tiles of the matrix unit.
struct RunMatrix {
  static constexpr bool kTakesZeroPoints = false;
  template <int kBits, bool kBlockScale, bool>
  static void run(const ConstWeight& w, const CodeForm& form, const PackedRows& x, std::size_t first, std::size_t last,
                  const Outputs& outputs) noexcept {
    run_matrix<kBits, kBlockScale>(w, form, x, first, last, outputs);
    detail::last_isa = Isa::amx;
  }
};
#endif

template <int kBits, class Form>
void run(const ConstWeight& w, const float* bias, const PackedRows& x, std::size_t first, std::size_t last,
         Activation activation, const MatrixView& z, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  const Outputs outputs{bias, activation, z, y};
  const CodeForm form = own_form(detail::code_form(w));
  constexpr bool kHasZeros = Form::kTakesZeroPoints && kBits > 1;  // no binary type has zeros of its own
  const bool lane_zero = kHasZeros && form.lane_zero;
  if (form.block_scale && lane_zero)
    Form::template run<kBits, true, kHasZeros>(w, form, x, first, last, outputs);
  else if (form.block_scale)
    Form::template run<kBits, true, false>(w, form, x, first, last, outputs);
  else if (lane_zero)
    Form::template run<kBits, false, kHasZeros>(w, form, x, first, last, outputs);
  else
    Form::template run<kBits, false, false>(w, form, x, first, last, outputs);
}

template <int kBits>
const IntegerKernels& integer_kernels([[maybe_unused]] const CodeForm& form,
                                      [[maybe_unused]] std::size_t rows) noexcept {
#if WEFT_ISA_IS_VNNI
  static constexpr IntegerKernels kMatrixKernels{detail::kMatrixRows, true, &block_bytes<kBits>, &pack_parts<kBits>,
                                                 &run<kBits, RunMatrix>};
  if (has_matrix_kernels(form, rows)) return kMatrixKernels;
#endif
  static constexpr IntegerKernels kKernels{kTileRows, false, &block_bytes<kBits>, &pack_parts<kBits>,
                                           &run<kBits, RunRows>};
  return kKernels;
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
