// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), never by the scalar pass.
// linear_integer for many rows on a CPU with a matrix unit: one panel's codes are unpacked for many inputs at once, or
// stand as the unit reads them, then meet all rows, 16 at a time.

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

using detail::MatrixWeights;

// Fewer rows are as well off with VNNI.
inline constexpr std::size_t kLeastMatrixRows = 8;
// Blocks unpacked at once: the longer the better, as totals stay in registers meanwhile.
inline constexpr std::size_t kMatrixBlocks = 128;
// Panels that a part's rows meet one after the other, while they are in the nearest cache.
inline constexpr std::size_t kMatrixPanels = 2;

// With zero points so are all: a term for each product is added then, and products come through memory.
inline bool has_matrix_kernels(const CodeForm& form, std::size_t rows) noexcept {
  return !form.has_zero_points && rows >= kLeastMatrixRows &&
         ((active_isa() == Isa::amx && detail::is_matrix_unit_exact()) || detail::emulates_matrix_unit);
}

/// True when the matrix unit can read the codes where they are: bytes of whole blocks.
inline bool is_matrix_layout(const ConstWeight& w, int bits) noexcept { return bits == 8 && w.in % kScaleBlock == 0; }

/// `count` blocks from t on of a panel whose codes the matrix unit can read. Scales of binary16 go to `room`.
template <bool kBlockScale>
MatrixWeights stored_blocks(const ConstWeight& w, std::size_t panel, std::size_t t, std::size_t count,
                            float* room) noexcept {
  const std::size_t block = panel * (w.in / kScaleBlock) + t;
  return {static_cast<const std::uint32_t*>(w.codes) + block * kBlockWords * kPanelWidth,
          kBlockScale ? float_scales(w, block, count, room) : nullptr};
}

/// Packed parts against all panels of `w`.
template <int kBits, bool kBlockScale>
class MatrixRun {
 public:
  /// Rows of at most `most` parts are taken at once.
  MatrixRun(const ConstWeight& w, const CodeForm& form, const PackedRows& x, const Outputs& outputs,
            std::size_t most) noexcept
      : w_(w),
        form_(form),
        x_(x),
        outputs_(outputs),
        lowered_(0x01010101u * static_cast<std::uint32_t>(form.zero)),
        unit_(detail::matrix_unit()),
        most_rows_(most * detail::kMatrixRows),
        scratch_(detail::linear_scratch(kMatrixPanels * (kCodes + kLanes + most_rows_ * kPanelWidth))) {
    unit_.begin(rows_);
  }
  MatrixRun(const MatrixRun&) = delete;
  MatrixRun& operator=(const MatrixRun&) = delete;
  ~MatrixRun() { unit_.end(); }

  /// Parts [begin, end) against `count` <= kMatrixPanels panels.
  void run(std::size_t begin, std::size_t end, std::size_t panel, std::size_t count) noexcept {
    const std::size_t first_row = x_.first_row(begin), rows = x_.first_row(end) - first_row;
    for (std::size_t p = 0; p < count; ++p) std::memset(totals(p), 0, rows * kPanelWidth * sizeof(float));
    for (std::size_t t = 0; t < x_.blocks; t += kMatrixBlocks) {
      const std::size_t blocks = std::min(kMatrixBlocks, x_.blocks - t);
      MatrixWeights weights[kMatrixPanels];
      for (std::size_t p = 0; p < count; ++p) weights[p] = weights_of(p, panel + p, t, blocks);
      for (std::size_t part = begin; part < end; ++part)
        for (std::size_t p = 0; p < count; ++p)
          add(weights[p], part, t, blocks, totals(p) + (x_.first_row(part) - first_row) * kPanelWidth);
    }
    for (std::size_t p = 0; p < count; ++p) finish(panel + p, first_row, rows, totals(p));
  }

 private:
  static constexpr std::size_t kCodes = kMatrixBlocks * kBlockWords * kPanelWidth, kLanes = kMatrixBlocks * kPanelWidth;

  float* totals(std::size_t p) noexcept {
    return scratch_ + kMatrixPanels * (kCodes + kLanes) + p * most_rows_ * kPanelWidth;
  }
  MatrixWeights weights_of(std::size_t p, std::size_t panel, std::size_t t, std::size_t blocks) noexcept {
    float* const to = scratch_ + p * (kCodes + kLanes);
    if (is_matrix_layout(w_, kBits)) return stored_blocks<kBlockScale>(w_, panel, t, blocks, to + kCodes);
    const TileWeights unpacked{reinterpret_cast<std::uint32_t*>(to), kBlockScale ? to + kCodes : nullptr, nullptr};
    unpack<kBits, kBlockScale, false>(w_, form_, panel, 1, t, blocks, unpacked, hn::Set(WordTag(), lowered_));
    return {unpacked.codes, unpacked.scales};
  }
  void add(const MatrixWeights& weights, std::size_t part, std::size_t t, std::size_t blocks, float* to) noexcept {
    const std::size_t R = x_.rows_of(part), at = t * R;
    if (R != rows_) unit_.begin(rows_ = R);
    unit_.tile(weights, R, blocks, x_.codes_of(part) + at * x_.block_bytes, x_.scales_of(part) + at, to);
  }
  void finish(std::size_t panel, std::size_t first_row, std::size_t rows, float* totals) noexcept {
    const std::size_t o = panel * kPanelWidth;
    for (std::size_t i = 0; i < rows; ++i) {
      scale_outputs(w_, outputs_, first_row + i, o, kPanelWidth, totals + i * kPanelWidth);
      if (outputs_.has_finish()) outputs_.finish(first_row + i, o, std::min(kPanelWidth, w_.out - o));
    }
  }

  const ConstWeight& w_;
  const CodeForm& form_;
  const PackedRows& x_;
  const Outputs& outputs_;
  const std::uint32_t lowered_;
  const detail::MatrixUnit unit_;
  std::size_t rows_ = detail::kMatrixRows;  // for which the unit is set up
  const std::size_t most_rows_;
  float* const scratch_;  // unpacked weights, then sums, of each panel
};

template <int kBits, bool kBlockScale>
void run_matrix(const ConstWeight& w, const CodeForm& form, const PackedRows& x, std::size_t first, std::size_t last,
                const Outputs& outputs) noexcept {
  const std::size_t part_bytes = std::max<std::size_t>(1, detail::kMatrixRows * x.blocks * x.block_bytes);
  const std::size_t held = std::min(last - first, std::max<std::size_t>(1, kHeldBytes / part_bytes));
  MatrixRun<kBits, kBlockScale> run(w, form, x, outputs, held);
  const std::size_t panels = panel_count(w.out);
  for (std::size_t begin = first; begin < last; begin += held)
    for (std::size_t panel = 0; panel < panels; panel += kMatrixPanels)
      run.run(begin, std::min(last, begin + held), panel, std::min(kMatrixPanels, panels - panel));
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
