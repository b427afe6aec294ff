// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/entmax.cpp"
#include "kernels/entmax.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/lanes-inl.hpp"
#include "kernels/math.hpp"
#if !WEFT_ISA_IS_SCALAR
#include "kernels/formulas/vector-inl.hpp"
#endif

#include <bit>
#include <cmath>
#include <cstdint>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

// The smallest float s = -t in [2^-126, 1] with enough(s): floats in order are integers in order, so that 30
// bisections leave two neighbours.
template <class Enough>
float least(const Enough& enough) noexcept {
  std::uint32_t low = 0x00800000u, high = 0x3f800000u;
  for (int step = 0; step < 30; ++step) {
    const std::uint32_t middle = (low + high) / 2;
    (enough(std::bit_cast<float>(middle)) ? high : low) = middle;
  }
  return std::bit_cast<float>(high);
}

float before(float s) noexcept { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(s) - 1); }

// s^(1/k), the largest y.
float largest_power(float s, float k) noexcept { return math::exp(math::log(s) / k); }

// The shares of two neighbours of s whose sums are below and from 1: mixed they sum to 1. For alpha > 2 one element
// next to the threshold may be most of the difference, and it alone should take it up.
struct Between {
  Between(float sum_below, float sum_above) noexcept
      : upper(sum_below < 1.0f ? (1.0f - sum_below) / (sum_above - sum_below) : 0.0f), lower(1.0f - upper) {}
  float upper, lower;
};

// The exponent of the slope's y^(2 - alpha) ends here.
constexpr float kSteepest = 40.0f;

#if WEFT_ISA_IS_SCALAR

// The value if it is above the threshold, else 0; a NaN stays one.
float above(float v) noexcept { return v <= 0.0f ? 0.0f : v; }

// (1 + r/s)^(1/k), 0 where r <= -s. u is less than half an ulp of 1 off in w; the quotient puts that back.
float power_above(float r, float s, float k) noexcept {
  const float u = r / s, w = 1.0f + u;
  const float p = math::exp((math::log(w) + (u - (w - 1.0f)) / w) / k);
  return u <= -1.0f ? 0.0f : p;
}

void divide_by_sum(float* y, std::size_t n) noexcept {
  const float sum = lane_sum(n, [&](float lane, std::size_t j) { return lane + y[j]; });
  for (std::size_t j = 0; j < n; ++j) y[j] /= sum;
}

void sparsemax_row(float* r, std::size_t n) noexcept {
  const float s = least(
      [&](float t) { return lane_sum(n, [&](float sum, std::size_t j) { return sum + above(r[j] + t); }) >= 1.0f; });
  const auto is_in = [&](std::size_t j) { return !(r[j] + s <= 0.0f); };
  const float count = lane_sum(n, [&](float sum, std::size_t j) { return sum + (is_in(j) ? 1.0f : 0.0f); });
  const float total = lane_sum(n, [&](float sum, std::size_t j) { return sum + (is_in(j) ? r[j] : 0.0f); });
  const float t = (total - 1.0f) / count;
  for (std::size_t j = 0; j < n; ++j) r[j] = above(r[j] - t);
}

void entmax_row_of_squares(float* r, std::size_t n) noexcept {
  const float s = least([&](float t) {
    return lane_sum(n, [&](float sum, std::size_t j) {
             const float v = above(r[j] + t);
             return std::fma(v, v, sum);
           }) >= 1.0f;
  });
  const auto is_in = [&](std::size_t j) { return !(r[j] + s <= 0.0f); };
  const float count = lane_sum(n, [&](float sum, std::size_t j) { return sum + (is_in(j) ? 1.0f : 0.0f); });
  const float mean = lane_sum(n, [&](float sum, std::size_t j) { return sum + (is_in(j) ? r[j] : 0.0f); }) / count;
  const float squares = lane_sum(n, [&](float sum, std::size_t j) {
    const float v = is_in(j) ? r[j] - mean : 0.0f;
    return std::fma(v, v, sum);
  });
  const float t = mean - std::sqrt((1.0f - squares) / count);
  for (std::size_t j = 0; j < n; ++j) {
    const float v = above(r[j] - t);
    r[j] = v * v;
  }
  divide_by_sum(r, n);
}

void entmax_row(float* r, std::size_t n, float k) noexcept {
  const auto sum_at = [&](float s) {
    return largest_power(s, k) * lane_sum(n, [&](float lane, std::size_t j) { return lane + power_above(r[j], s, k); });
  };
  const float s = least([&](float t) { return sum_at(t) >= 1.0f; }), less = before(s);
  const Between between(sum_at(less), sum_at(s));
  const float a = between.lower * largest_power(less, k), b = between.upper * largest_power(s, k);
  for (std::size_t j = 0; j < n; ++j) r[j] = std::fma(b, power_above(r[j], s, k), a * power_above(r[j], less, k));
  divide_by_sum(r, n);
}

void entmax(const ConstMatrixView& x, float k, float temperature, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float* in = x.row(b);
    float* out = y.row(b);
    const float largest = row_maximum(in, x.cols);
    for (std::size_t j = 0; j < x.cols; ++j) out[j] = k * ((in[j] - largest) / temperature);
    k == 1.0f   ? sparsemax_row(out, x.cols)
    : k == 0.5f ? entmax_row_of_squares(out, x.cols)
                : entmax_row(out, x.cols, k);
  }
}

template <class Slope>
void backward_row(const float* p, const float* up, std::size_t n, float temperature, float* down,
                  const Slope& slope) noexcept {
  const float sum = lane_sum(n, [&](float lane, std::size_t j) { return lane + slope(p[j]); });
  const float dot = lane_sum(n, [&](float lane, std::size_t j) { return std::fma(slope(p[j]), up[j], lane); });
  const float mean = dot / sum;
  for (std::size_t j = 0; j < n; ++j) down[j] = slope(p[j]) * (up[j] - mean) / temperature;
}

void entmax_backward(const ConstMatrixView& y, const ConstMatrixView& dy, float k, float temperature,
                     const MatrixView& dx) noexcept {
  WEFT_ISA_RAN();
  const auto of_one = [](float p) { return p > 0.0f ? 1.0f : p; };
  const auto of_squares = [](float p) { return p > 0.0f ? std::sqrt(p) : p; };
  const auto of_power = [k](float p) {
    const float e = (1.0f - k) * math::log(p);
    return p > 0.0f ? math::exp(kSteepest < e ? kSteepest : e) : p;
  };
  for (std::size_t b = 0; b < y.rows; ++b) {
    const auto row = [&](const auto& slope) {
      backward_row(y.row(b), dy.row(b), y.cols, temperature, dx.row(b), slope);
    };
    k == 1.0f ? row(of_one) : k == 0.5f ? row(of_squares) : row(of_power);
  }
}

#else

HWY_INLINE FloatVec Above(FloatVec v) {
  const FloatTag d;
  return hn::IfThenZeroElse(hn::Le(v, hn::Zero(d)), v);
}

HWY_INLINE FloatVec PowerAbove(FloatVec r, FloatVec s, FloatVec k) {
  const FloatTag d;
  const FloatVec one = hn::Set(d, 1.0f);
  const FloatVec u = hn::Div(r, s), w = hn::Add(one, u);
  const FloatVec lost = hn::Div(hn::Sub(u, hn::Sub(w, one)), w);
  const FloatVec p = formulas::exact_exp(hn::Div(hn::Add(formulas::exact_log(w), lost), k));
  return hn::IfThenZeroElse(hn::Le(u, hn::Set(d, -1.0f)), p);
}

// The elements above -s, and how many they are.
class Support {
 public:
  Support(const float* r, std::size_t n, float s) : r_(r), s_(hn::Set(FloatTag(), s)) {
    const FloatVec one = hn::Set(FloatTag(), 1.0f);
    count = LaneSum(n, [&](FloatVec sum, auto load) HWY_ATTR { return hn::Add(sum, InElseZero(load(r_), one)); });
    total = LaneSum(n, [&](FloatVec sum, auto load) HWY_ATTR {
      const FloatVec v = load(r_);
      return hn::Add(sum, InElseZero(v, v));
    });
  }
  HWY_INLINE FloatVec InElseZero(FloatVec r, FloatVec v) const {
    return hn::IfThenZeroElse(hn::Le(hn::Add(r, s_), hn::Zero(FloatTag())), v);
  }
  float count, total;

 private:
  const float* r_;
  FloatVec s_;
};

HWY_INLINE void DivideBySum(float* y, std::size_t n) {
  const FloatVec sum =
      hn::Set(FloatTag(), LaneSum(n, [&](FloatVec lane, auto load) HWY_ATTR { return hn::Add(lane, load(y)); }));
  ForEachVector(n, [&](auto load, auto store) HWY_ATTR { store(hn::Div(load(y), sum), y); });
}

HWY_INLINE void SparsemaxRow(float* r, std::size_t n) {
  const FloatTag d;
  const float s = least([&](float t) HWY_ATTR {
    const FloatVec shift = hn::Set(d, t);
    return LaneSum(n, [&](FloatVec sum, auto load) HWY_ATTR { return hn::Add(sum, Above(hn::Add(load(r), shift))); }) >=
           1.0f;
  });
  const Support support(r, n, s);
  const FloatVec t = hn::Set(d, (support.total - 1.0f) / support.count);
  ForEachVector(n, [&](auto load, auto store) HWY_ATTR { store(Above(hn::Sub(load(r), t)), r); });
}

HWY_INLINE void EntmaxRowOfSquares(float* r, std::size_t n) {
  const FloatTag d;
  const float s = least([&](float t) HWY_ATTR {
    const FloatVec shift = hn::Set(d, t);
    return LaneSum(n, [&](FloatVec sum, auto load) HWY_ATTR {
             const FloatVec v = Above(hn::Add(load(r), shift));
             return hn::MulAdd(v, v, sum);
           }) >= 1.0f;
  });
  const Support support(r, n, s);
  const float mean = support.total / support.count;
  const FloatVec centre = hn::Set(d, mean);
  const float squares = LaneSum(n, [&](FloatVec sum, auto load) HWY_ATTR {
    const FloatVec at = load(r), v = support.InElseZero(at, hn::Sub(at, centre));
    return hn::MulAdd(v, v, sum);
  });
  const FloatVec t = hn::Set(d, mean - std::sqrt((1.0f - squares) / support.count));
  ForEachVector(n, [&](auto load, auto store) HWY_ATTR {
    const FloatVec v = Above(hn::Sub(load(r), t));
    store(hn::Mul(v, v), r);
  });
  DivideBySum(r, n);
}

HWY_INLINE void EntmaxRow(float* r, std::size_t n, float k) {
  const FloatTag d;
  const FloatVec by = hn::Set(d, k);
  const auto sum_at = [&](float s) HWY_ATTR {
    const FloatVec threshold = hn::Set(d, s);
    return largest_power(s, k) * LaneSum(n, [&](FloatVec lane, auto load)
                                                HWY_ATTR { return hn::Add(lane, PowerAbove(load(r), threshold, by)); });
  };
  const float s = least([&](float t) HWY_ATTR { return sum_at(t) >= 1.0f; }), less = before(s);
  const Between between(sum_at(less), sum_at(s));
  const FloatVec a = hn::Set(d, between.lower * largest_power(less, k)), at_less = hn::Set(d, less);
  const FloatVec b = hn::Set(d, between.upper * largest_power(s, k)), at_s = hn::Set(d, s);
  ForEachVector(n, [&](auto load, auto store) HWY_ATTR {
    const FloatVec v = load(r);
    store(hn::MulAdd(b, PowerAbove(v, at_s, by), hn::Mul(a, PowerAbove(v, at_less, by))), r);
  });
  DivideBySum(r, n);
}

void entmax(const ConstMatrixView& x, float k, float temperature, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  const FloatTag d;
  const FloatVec t = hn::Set(d, temperature), by = hn::Set(d, k);
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float* in = x.row(b);
    float* out = y.row(b);
    const FloatVec largest = hn::Set(d, RowMaximum(in, x.cols));
    ForEachVector(x.cols, [&](auto load, auto store)
                              HWY_ATTR { store(hn::Mul(by, hn::Div(hn::Sub(load(in), largest), t)), out); });
    k == 1.0f ? SparsemaxRow(out, x.cols) : k == 0.5f ? EntmaxRowOfSquares(out, x.cols) : EntmaxRow(out, x.cols, k);
  }
}

template <class Slope>
HWY_INLINE void BackwardRow(const float* p, const float* up, std::size_t n, float temperature, float* down,
                            const Slope& slope) {
  const FloatTag d;
  const float sum = LaneSum(n, [&](FloatVec lane, auto load) HWY_ATTR { return hn::Add(lane, slope(load(p))); });
  const float dot =
      LaneSum(n, [&](FloatVec lane, auto load) HWY_ATTR { return hn::MulAdd(slope(load(p)), load(up), lane); });
  const FloatVec mean = hn::Set(d, dot / sum), t = hn::Set(d, temperature);
  ForEachVector(n, [&](auto load, auto store)
                       HWY_ATTR { store(hn::Div(hn::Mul(slope(load(p)), hn::Sub(load(up), mean)), t), down); });
}

void entmax_backward(const ConstMatrixView& y, const ConstMatrixView& dy, float k, float temperature,
                     const MatrixView& dx) noexcept {
  WEFT_ISA_RAN();
  const FloatTag d;
  const FloatVec zero = hn::Zero(d), one = hn::Set(d, 1.0f), exponent = hn::Set(d, 1.0f - k);
  const auto of_one = [&](FloatVec p) HWY_ATTR { return hn::IfThenElse(hn::Gt(p, zero), one, p); };
  const auto of_squares = [&](FloatVec p) HWY_ATTR { return hn::IfThenElse(hn::Gt(p, zero), hn::Sqrt(p), p); };
  const auto of_power = [&](FloatVec p) HWY_ATTR {
    const FloatVec e = formulas::at_most(kSteepest, hn::Mul(exponent, formulas::exact_log(p)));
    return hn::IfThenElse(hn::Gt(p, zero), formulas::exact_exp(e), p);
  };
  for (std::size_t b = 0; b < y.rows; ++b) {
    const auto row = [&](const auto& slope)
                         HWY_ATTR { BackwardRow(y.row(b), dy.row(b), y.cols, temperature, dx.row(b), slope); };
    k == 1.0f ? row(of_one) : k == 0.5f ? row(of_squares) : row(of_power);
  }
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kEntmax = WEFT_DISPATCH(entmax);
constexpr auto kEntmaxBackward = WEFT_DISPATCH(entmax_backward);
}  // namespace

void entmax(const ConstMatrixView& x, float alpha_minus_one, float temperature, const MatrixView& y) noexcept {
  kEntmax.get()(x, alpha_minus_one, temperature, y);
}
void entmax_backward(const ConstMatrixView& y, const ConstMatrixView& dy, float alpha_minus_one, float temperature,
                     const MatrixView& dx) noexcept {
  kEntmaxBackward.get()(y, dy, alpha_minus_one, temperature, dx);
}

}  // namespace weft::kernels
#endif
