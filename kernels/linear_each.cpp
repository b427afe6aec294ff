// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/linear_each.cpp"
#include "kernels/finite.hpp"
#include "kernels/foreach_isa.hpp"
#include "kernels/linear.hpp"
#include "kernels/simd/panel-inl.hpp"
#if !WEFT_ISA_IS_SCALAR
#include "kernels/unary-inl.hpp"
#endif

#include <algorithm>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

// One after the other: what `linear` does of one row, in the code of this instruction set.
[[maybe_unused]] bool linear_each_alone(std::span<const LinearRow> rows, std::size_t out, std::size_t in,
                                        Activation activation) noexcept {
  bool finite = true;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const MatrixView y{rows[i].y, 1, out, out};
    const float* const next = i + 1 < rows.size() ? rows[i + 1].w : nullptr;
    linear({rows[i].w, out, in}, rows[i].bias, {rows[i].x, 1, in, in}, activation, {}, y, {next, out, in});
    finite &= is_finite(y);
  }
  WEFT_ISA_RAN();
  return finite;
}

#if !WEFT_ISA_IS_SCALAR

constexpr PanelTag kTag;
constexpr std::size_t kGroupPanels = 4, kGroup = kGroupPanels * kPanelWidth, kStep = 4;

constexpr hn::RebindToUnsigned<PanelTag> kBits;
using Bits = hn::Vec<hn::RebindToUnsigned<PanelTag>>;

// Infinities and NaNs are those whose exponent bits are all set.
HWY_INLINE Bits exponent() { return hn::Set(kBits, 0x7f800000u); }

/// Four panels' sums, and the activation of the four vectors made before them. A sum waits for its last step and an
/// activation for its last operation; side by side both wait half as long, and weights arrive all the while.
class Pipeline {
 public:
  HWY_ATTR Pipeline() : largest_(hn::Zero(kBits)) {}  // by hand: a constructor of the compiler's has no vectors

  template <Activation A>
  HWY_INLINE bool run(std::span<const LinearRow> rows, std::size_t out, std::size_t in) {
    for (const LinearRow& row : rows)
      for (std::size_t o = 0; o < out; o += kGroup) {
        sum_group<A>(row.w + o * in, row.bias ? row.bias + o : nullptr, row.x, in);
        to_ = row.y + o;
      }
    for (std::size_t p = 0; p < kGroupPanels && to_; ++p) activate<A>(p);
    return hn::AllFalse(kBits, hn::Eq(largest_, exponent()));
  }

 private:
  template <Activation A>
  HWY_INLINE void activate(std::size_t p) {
    const auto y = Activate<A>(hn::Load(kTag, sums_ + p * kPanelWidth));
    hn::StoreU(y, kTag, to_ + p * kPanelWidth);
    largest_ = hn::Max(largest_, hn::And(hn::BitCast(kBits, y), exponent()));
  }

  template <std::size_t J>
  static HWY_INLINE void step(const float* const (&panel)[kGroupPanels], const float* x, std::size_t k,
                              PanelVector (&sum)[kGroupPanels]) {
    WEFT_UNROLL for (std::size_t j = 0; j < J; ++j) {
      const auto xs = hn::Set(kTag, x[k + j]);
      WEFT_UNROLL for (std::size_t p = 0; p < kGroupPanels; ++p) sum[p] =
          hn::MulAdd(hn::Load(kTag, panel[p] + (k + j) * kPanelWidth), xs, sum[p]);
    }
  }

  template <Activation A>
  HWY_INLINE void sum_group(const float* w, const float* bias, const float* x, std::size_t in) {
    const float* panel[kGroupPanels];
    WEFT_UNROLL for (std::size_t p = 0; p < kGroupPanels; ++p) {
      panel[p] = w + p * in * kPanelWidth;
      // One register each: g++ would otherwise make an index of every distance between them.
      __asm__("" : "+r"(panel[p]));
    }
    PanelVector total[kGroupPanels];
    WEFT_UNROLL for (auto& each : total) each = hn::Zero(kTag);
    bool open = to_ != nullptr;
    std::size_t first = 0;
    for (; first + kChunk <= in; first += kChunk) {
      PanelVector sum[kGroupPanels];
      WEFT_UNROLL for (auto& each : sum) each = hn::Zero(kTag);
      for (std::size_t quarter = 0; quarter < kGroupPanels; ++quarter) {
        const std::size_t begin = first + quarter * (kChunk / kGroupPanels);
        for (std::size_t k = begin; k < begin + kChunk / kGroupPanels; k += kStep) step<kStep>(panel, x, k, sum);
        if (open) activate<A>(quarter);
      }
      open = false;
      WEFT_UNROLL for (std::size_t p = 0; p < kGroupPanels; ++p) total[p] = hn::Add(total[p], sum[p]);
    }
    for (std::size_t p = 0; p < kGroupPanels && open; ++p) activate<A>(p);
    if (first < in) {
      PanelVector sum[kGroupPanels];
      WEFT_UNROLL for (auto& each : sum) each = hn::Zero(kTag);
      for (std::size_t k = first; k < in; ++k) step<1>(panel, x, k, sum);
      WEFT_UNROLL for (std::size_t p = 0; p < kGroupPanels; ++p) total[p] = hn::Add(total[p], sum[p]);
    }
    WEFT_UNROLL for (std::size_t p = 0; p < kGroupPanels; ++p) {
      if (bias) total[p] = hn::Add(total[p], hn::LoadU(kTag, bias + p * kPanelWidth));
      hn::Store(total[p], kTag, sums_ + p * kPanelWidth);
    }
  }

  alignas(64) float sums_[kGroup];
  Bits largest_;
  float* to_ = nullptr;  // where they belong once activated
};

#endif

bool linear_each(std::span<const LinearRow> rows, std::size_t out, std::size_t in, Activation activation) noexcept {
#if !WEFT_ISA_IS_SCALAR
  // A panel of several vectors leaves no registers for an activation beside the sums.
  if constexpr (kPanelVectors == 1) {
    if (out % kGroup == 0) {
      WEFT_ISA_RAN();
      bool finite = true;
      VisitActivation(activation, [&](auto a) HWY_ATTR {
        Pipeline pipeline;
        finite = pipeline.run<decltype(a)::value>(rows, out, in);
      });
      return finite;
    }
  }
#endif
  return linear_each_alone(rows, out, in, activation);
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kEach = WEFT_DISPATCH(linear_each);
}  // namespace

bool linear_each(std::span<const LinearRow> rows, std::size_t out, std::size_t in, Activation activation) noexcept {
  return kEach.get()(rows, out, in, activation);
}

}  // namespace weft::kernels
#endif
