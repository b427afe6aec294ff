// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), never by the scalar pass.
// linear_integer for many rows on a CPU with a matrix unit: one panel's codes are unpacked for many inputs at once,
// then meet all rows, 16 at a time.

#if defined(WEFT_KERNELS_LINEAR_INTEGER_MATRIX_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_LINEAR_INTEGER_MATRIX_INL
#undef WEFT_KERNELS_LINEAR_INTEGER_MATRIX_INL
#else
#define WEFT_KERNELS_LINEAR_INTEGER_MATRIX_INL
#endif

#include "kernels/internal/matrix_tiles.hpp"
#include "kernels/linear_integer_tiles-inl.hpp"

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

using detail::TileZeros;

// Fewer rows are as well off with VNNI.
inline constexpr std::size_t kLeastMatrixRows = 8;
// Blocks unpacked at once: the longer the better, as totals stay in registers meanwhile.
inline constexpr std::size_t kMatrixBlocks = 128;

inline bool has_matrix_kernels(std::size_t rows) noexcept {
  return rows >= kLeastMatrixRows && (active_isa() == Isa::amx || detail::emulates_matrix_unit);
}

/// Scratch of run_matrix.
struct MatrixScratch {
  TileWeights unpacked;
  float* totals;
};
template <bool kBlockScale>
MatrixScratch matrix_scratch(std::size_t rows) noexcept {
  constexpr std::size_t kCodes = kMatrixBlocks * kBlockWords * kPanelWidth, kLanes16 = kMatrixBlocks * kPanelWidth;
  float* const scratch = detail::linear_scratch(kCodes + 2 * kLanes16 + rows * kPanelWidth);
  return {{reinterpret_cast<std::uint32_t*>(scratch), kBlockScale ? scratch + kCodes : nullptr,
           reinterpret_cast<std::int32_t*>(scratch + kCodes + kLanes16)},
          scratch + kCodes + 2 * kLanes16};
}

/// Parts [begin, end) against one panel.
template <int kBits, bool kBlockScale, bool kLaneZero>
void run_matrix_panel(const ConstWeight& w, const CodeForm& form, const PackedRows& x, std::size_t begin,
                      std::size_t end, const Outputs& outputs, std::size_t panel,
                      const MatrixScratch& scratch) noexcept {
  const bool is_signed = !has_zero_point(w.dtype);
  const Words lowered = hn::Set(WordTag(), is_signed ? 0x01010101u * static_cast<std::uint32_t>(form.zero) : 0);
  const detail::MatrixTile tile = detail::matrix_tile(kLaneZero   ? TileZeros::lanes
                                                      : is_signed ? TileZeros::none
                                                                  : TileZeros::one);
  const std::size_t first_row = x.first_row(begin), rows = x.first_row(end) - first_row, o = panel * kPanelWidth;
  std::memset(scratch.totals, 0, rows * kPanelWidth * sizeof(float));
  for (std::size_t t = 0; t < x.blocks; t += kMatrixBlocks) {
    const std::size_t count = std::min(kMatrixBlocks, x.blocks - t);
    unpack<kBits, kBlockScale, kLaneZero>(w, form, panel, 1, t, count, scratch.unpacked, lowered);
    for (std::size_t part = begin; part < end; ++part) {
      const std::size_t R = x.rows_of(part), at = t * R;
      tile(scratch.unpacked, R, count, x.codes_of(part) + at * x.block_bytes, x.scales_of(part) + at,
           x.zero_terms_of(part) + at, scratch.totals + (x.first_row(part) - first_row) * kPanelWidth);
    }
  }
  for (std::size_t i = 0; i < rows; ++i) {
    scale_outputs(w, outputs, first_row + i, o, kPanelWidth, scratch.totals + i * kPanelWidth);
    if (outputs.has_finish()) outputs.finish(first_row + i, o, std::min(kPanelWidth, w.out - o));
  }
}

template <int kBits, bool kBlockScale, bool kLaneZero>
void run_matrix(const ConstWeight& w, const CodeForm& form, const PackedRows& x, std::size_t first, std::size_t last,
                const Outputs& outputs) noexcept {
  const std::size_t part_bytes = std::max<std::size_t>(1, detail::kMatrixRows * x.blocks * x.block_bytes);
  const std::size_t held = std::max<std::size_t>(1, kHeldBytes / part_bytes);
  const MatrixScratch scratch = matrix_scratch<kBlockScale>(std::min(held, last - first) * detail::kMatrixRows);
  for (std::size_t begin = first; begin < last; begin += held)
    for (std::size_t panel = 0; panel < panel_count(w.out); ++panel)
      run_matrix_panel<kBits, kBlockScale, kLaneZero>(w, form, x, begin, std::min(last, begin + held), outputs, panel,
                                                      scratch);
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
