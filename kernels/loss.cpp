// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/loss.cpp"
#include "kernels/loss.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/formulas/scalar.hpp"
#include "kernels/softmax-inl.hpp"

#include <array>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

void cross_entropy(const ConstMatrixView& logits, const std::uint32_t* labels, float* loss,
                   const MatrixView& dx) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < logits.rows; ++b) {
    const float* in = logits.row(b);
    float* out = dx.row(b);
    const float labelled = in[labels[b]];
#if WEFT_ISA_IS_SCALAR
    const float largest = row_maximum(in, logits.cols);
    const float sum = exponentials(in, logits.cols, largest, 1.0f, out);
    for (std::size_t j = 0; j < logits.cols; ++j) out[j] /= sum;
#else
    const float largest = RowMaximum(in, logits.cols);
    const float sum = Exponentials(in, logits.cols, largest, 1.0f, out);
    const FloatVec divisor = hn::Set(FloatTag(), sum);
    ForEachVector(logits.cols, [&](auto load, auto store) HWY_ATTR { store(hn::Div(load(out), divisor), out); });
#endif
    out[labels[b]] -= 1.0f;
    if (loss) loss[b] = math::log(sum) - (labelled - largest);
  }
}

#define WEFT_VALUE_LOSS(number, name)                               \
  struct Formulas_##name {                                          \
    float setting;                                                  \
    template <class Real>                                           \
    Real sum(Real before, Real x, Real target) const noexcept {     \
      return formulas::loss_sum_##name(before, x, target, setting); \
    }                                                               \
    template <class Real>                                           \
    Real slope(Real x, Real target) const noexcept {                \
      return formulas::loss_slope_##name(x, target, setting);       \
    }                                                               \
  };
#include "kernels/formulas/losses.def"
#undef WEFT_VALUE_LOSS

template <class Formulas>
void walk(const Formulas& of, const ConstMatrixView& x, const ConstMatrixView& target, float* loss,
          const MatrixView& dx) noexcept {
  const auto n = static_cast<float>(x.cols);
  for (std::size_t b = 0; loss && b < x.rows; ++b) {
    const float *in = x.row(b), *want = target.row(b);
#if WEFT_ISA_IS_SCALAR
    const float sum = lane_sum(x.cols, [&](float before, std::size_t j) { return of.sum(before, in[j], want[j]); });
#else
    const float sum =
        LaneSum(x.cols, [&](FloatVec before, auto load) HWY_ATTR { return of.sum(before, load(in), load(want)); });
#endif
    loss[b] = sum / n;
  }
#if WEFT_ISA_IS_SCALAR
  map(x, target, dx, [&](float u, float v) { return of.slope(u, v) / n; });
#else
  map(x, target, dx,
      [&](FloatTag d, FloatVec u, FloatVec v) HWY_ATTR { return hn::Div(of.slope(u, v), hn::Set(d, n)); });
#endif
}

void value_loss(Loss kind, float setting, const ConstMatrixView& x, const ConstMatrixView& target, float* loss,
                const MatrixView& dx) noexcept {
  WEFT_ISA_RAN();
  switch (kind) {
#define WEFT_VALUE_LOSS(number, name) \
  case Loss::name:                    \
    return walk(Formulas_##name{setting}, x, target, loss, dx);
#include "kernels/formulas/losses.def"
#undef WEFT_VALUE_LOSS
    default:
      return;
  }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kCrossEntropy = WEFT_DISPATCH(cross_entropy);
constexpr auto kValueLoss = WEFT_DISPATCH(value_loss);

struct Row {
  std::string_view name;
  LossTargets targets;
};
constexpr std::array<Row, kLossCount> kLosses{{
#define WEFT_LOSS(number, name, targets) {#name, LossTargets::targets},
#include "kernels/formulas/losses.def"
#undef WEFT_LOSS
}};
}  // namespace

std::string_view name(Loss loss) noexcept { return kLosses[static_cast<std::size_t>(loss)].name; }
LossTargets targets_of(Loss loss) noexcept { return kLosses[static_cast<std::size_t>(loss)].targets; }
std::optional<Loss> parse_loss(std::string_view text) noexcept {
  for (std::size_t i = 0; i < kLosses.size(); ++i)
    if (kLosses[i].name == text) return static_cast<Loss>(i);
  return std::nullopt;
}

void cross_entropy(const ConstMatrixView& logits, const std::uint32_t* labels, float* loss,
                   const MatrixView& dx) noexcept {
  kCrossEntropy.get()(logits, labels, loss, dx);
}
void value_loss(Loss kind, float setting, const ConstMatrixView& x, const ConstMatrixView& target, float* loss,
                const MatrixView& dx) noexcept {
  kValueLoss.get()(kind, setting, x, target, loss, dx);
}

}  // namespace weft::kernels
#endif
