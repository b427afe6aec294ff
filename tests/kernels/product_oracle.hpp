// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/linear_integer.hpp"

#include "tests/kernels/coded_weights.hpp"
#include "tests/kernels/oracle.hpp"

/// Sums of products with the rows of a weight matrix, as docs/numerics.md has them in sections 2, 9 and 10.
namespace weft::kernels::testing_ops {

inline double fused(double a, double b, double c) { return std::fma(a, b, c); }

/// A weight as numbers [out, in]: dequantized to float32; as `double`, and within bounds, float64 is as it stands.
template <class Real>
std::vector<Real> numbers_of(const ConstWeight& w) {
  std::vector<Real> all;
  all.reserve(w.out * w.in);
  for (std::size_t o = 0; o < w.out; ++o)
    for (std::size_t k = 0; k < w.in; ++k) {
      if constexpr (std::is_same_v<Real, Bounded>) {
        const double exact = testing_coded::exact_value_at(w, o, k);
        all.push_back(w.dtype == Dtype::float64 ? Bounded(exact, 0) : Bounded(testing_coded::value_at(w, o, k)));
      } else if constexpr (std::is_same_v<Real, double>) {
        all.push_back(testing_coded::exact_value_at(w, o, k));
      } else {
        all.push_back(testing_coded::value_at(w, o, k));
      }
    }
  return all;
}

/// 32 inputs as int8 activations, with a scale of their own or, `has_row_scale`, that of all of x.
struct ActivationBlock {
  float scale = 0;
  int codes[32] = {};
  template <class T>
  ActivationBlock(const std::vector<T>& x, std::size_t first, bool has_row_scale = false) {
    if constexpr (std::is_same_v<T, float>) {
      const std::size_t last = std::min(x.size(), first + 32);
      double most = has_row_scale ? double{1e-5f} : 0.0;
      for (std::size_t k = has_row_scale ? 0 : first; k < (has_row_scale ? x.size() : last); ++k) {
        if (!std::isfinite(x[k])) scale = NAN;
        most = std::max(most, std::fabs(double{x[k]}));
      }
      if (std::isnan(scale) || most < 0x1p-100) return;
      scale = static_cast<float>(most / 127);
      const auto inverse = static_cast<float>(127 / most);
      for (std::size_t k = first; k < last; ++k)
        codes[k - first] = static_cast<int>(std::nearbyint(double{static_cast<float>(double{x[k]} * inverse)}));
    }
  }
};
/// The same as numbers within half a step, 1/254 of a block's largest; one that is not finite spoils its block. Of very
/// large ones sums may overflow before the weight's scale meets them.
inline void blur(std::vector<Bounded>& x, bool has_row_scale) {
  const std::size_t each = has_row_scale ? std::max<std::size_t>(x.size(), 1) : 32;
  for (std::size_t first = 0; first < x.size(); first += each) {
    const std::size_t last = std::min(x.size(), first + each);
    double most = has_row_scale ? double{1e-5f} : 0.0;
    for (std::size_t k = first; k < last; ++k)
      most = std::isfinite(x[k].value) ? std::max(most, std::fabs(x[k].value)) : std::nan("");
    for (std::size_t k = first; k < last; ++k)
      x[k] = std::isnan(most) ? Bounded(NAN)
                              : Bounded(x[k].value, most < 0x1p100 ? std::max(most / 253.9, 0x1p-100) : HUGE_VAL);
  }
}

/// Products of rows of inputs with a weight.
template <class T>
class Products {
 public:
  explicit Products(const ConstWeight& w)
      : w_(w),
        is_integer_(w.activations != Activations::float32 && has_integer_kernel(w.dtype)),
        is_double_(w.dtype == Dtype::float64 && std::is_same_v<T, float>) {
    if (is_double_)
      doubles_ = numbers_of<double>(w);
    else
      numbers_ = numbers_of<T>(w);
    for (std::size_t o = 0; is_integer_ && o < w.out; ++o)
      for (std::size_t k = 0; k < w.in; ++k) {
        using namespace testing_coded;
        integers_.push_back(static_cast<int>(number_of(w.dtype, code_at(w, o, k), zero_at(w, o, k))));
      }
  }
  void set_row(std::vector<T> x) {
    x_ = std::move(x);
    blocks_.clear();
    if (!is_integer_) return;
    if constexpr (std::is_same_v<T, Bounded>)
      blur(x_, has_row_scale_);
    else
      for (std::size_t k = 0; k < x_.size(); k += 32) blocks_.emplace_back(x_, k, has_row_scale_);
  }
  /// Of the row that was set, with output o.
  T operator()(std::size_t o, const float* bias) const {
    if (!blocks_.empty()) return integer_sum(o, bias);
    if constexpr (std::is_same_v<T, float>)
      if (is_double_) return sum<double>(doubles_, o, bias);
    return sum<T>(numbers_, o, bias);
  }

 private:
  template <class Real>
  T sum(const std::vector<Real>& w, std::size_t o, const float* bias) const {
    const std::size_t n = w_.in;
    const Real total = chunks<Real>(n, [&](Real s, std::size_t k) { return fused(w[o * n + k], Real(x_[k]), s); });
    return static_cast<T>(bias ? total + Real(bias[o]) : total);
  }
  T integer_sum(std::size_t o, const float* bias) const {
    T total = 0.0f, sum = 0.0f;
    for (std::size_t t = 0; t < blocks_.size(); ++t) {
      int exact = 0;  // at most 32 * 255 * 127: below 2^24
      for (std::size_t k = 32 * t; k < std::min(w_.in, 32 * t + 32); ++k)
        exact += integers_[o * w_.in + k] * blocks_[t].codes[k % 32];
      const auto by = static_cast<float>(testing_coded::scale_at(w_, o, 32 * t));
      const bool is_own = is_block(w_.granularity);
      sum = fused(T(static_cast<float>(exact)), T(is_own ? blocks_[t].scale * by : blocks_[t].scale),
                  t % 2 == 0 ? T(0.0f) : sum);
      if (t % 2 == 1 || t + 1 == blocks_.size()) total = total + sum;
      if (t + 1 == blocks_.size() && !is_own) total = total * by;
    }
    return bias ? total + bias[o] : total;
  }

  ConstWeight w_;
  bool is_integer_, is_double_;
  bool has_row_scale_ = w_.activations == Activations::int8_row;
  std::vector<T> numbers_, x_;
  std::vector<double> doubles_;
  std::vector<int> integers_;
  std::vector<ActivationBlock> blocks_;
};

template <class T>
std::vector<T> row_of(const ConstMatrixView& m, std::size_t i) {
  std::vector<T> row;
  for (std::size_t j = 0; j < m.cols; ++j) row.push_back(T(m.row(i)[j]));
  return row;
}

}  // namespace weft::kernels::testing_ops
