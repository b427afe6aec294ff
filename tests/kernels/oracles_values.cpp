// SPDX-License-Identifier: Apache-2.0
// Oracles of operations on values alone.

#include "kernels/unary.hpp"

#include "core/philox.hpp"

#include "tests/kernels/oracle.hpp"
#include <algorithm>

namespace weft::kernels::testing_ops {

WEFT_ORACLE(Unary) {
  const auto x = numbers<T>(op.x);
  each_element(op.y, [&](std::size_t i, std::size_t j) { to(op.y, i, j, activated(op.activation, x(i, j))); });
}
WEFT_ORACLE(UnaryBackward) {
  const auto v = numbers<T>(needs_preactivation(op.activation) ? op.z : op.y), dy = numbers<T>(op.dy);
  each_element(op.dx, [&](std::size_t i, std::size_t j) { to(op.dx, i, j, sloped(op.activation, v(i, j), dy(i, j))); });
}
WEFT_ORACLE(Binary) {
  const auto a = numbers<T>(op.a), b = numbers<T>(op.b);
  const auto of = [&](T u, T v) -> T {
    switch (op.op) {
      case BinaryOp::add:
        return u + v;
      case BinaryOp::sub:
        return u - v;
      case BinaryOp::mul:
        return u * v;
      case BinaryOp::max:
        return is_nan(u) || is_nan(v) ? u + v : chosen(u > v ? u : v);
      case BinaryOp::min:
        return is_nan(u) || is_nan(v) ? u + v : chosen(u < v ? u : v);
    }
    return u;
  };
  each_element(op.y, [&](std::size_t i, std::size_t j) { to(op.y, i, j, of(a(i, j), b(i, j))); });
}
WEFT_ORACLE(Scale) {
  const auto x = numbers<T>(op.x);
  each_element(op.y, [&](std::size_t i, std::size_t j) { to(op.y, i, j, op.alpha * x(i, j)); });
}
WEFT_ORACLE(Axpy) {
  const auto x = numbers<T>(op.x), y = numbers<T>(op.y);
  each_element(op.y, [&](std::size_t i, std::size_t j) { to(op.y, i, j, fused(op.alpha, x(i, j), y(i, j))); });
}
WEFT_ORACLE(Copy) {
  each_element(op.y, [&](std::size_t i, std::size_t j) { to.move(op.y, i, j, op.x.row(i)[j]); });
}
WEFT_ORACLE(Fill) {
  each_element(op.y, [&](std::size_t i, std::size_t j) { to.move(op.y, i, j, op.value); });
}
WEFT_ORACLE(MaxBackward) {
  each_element(op.d, [&](std::size_t i, std::size_t j) {
    const bool holds = op.source.row(i)[j] == op.x.row(i)[j];
    to.move(op.d, i, j, holds ? op.left.row(i)[j] : 0.0f);
    to.move(op.left, i, j, holds ? 0.0f : op.left.row(i)[j]);
  });
}
WEFT_ORACLE(ScaleRows) {
  const auto s = numbers<T>(op.s);
  const auto x = numbers<T>(op.x);
  each_element(op.y, [&](std::size_t i, std::size_t j) { to(op.y, i, j, s(i) * x(i, j)); });
}
WEFT_ORACLE(GapResidual) {
  const auto sums = numbers<T>(op.sums);
  const auto weighted = numbers<T>(op.weighted), x = numbers<T>(op.x);
  each_element(op.d, [&](std::size_t i, std::size_t j) {
    to(op.d, i, j, sums(j) > 0.01f ? weighted(i, j) / sums(j) - x(i, j) : T(0.0f));
  });
}
WEFT_ORACLE(SquareRoot) {
  const auto x = numbers<T>(op.x);
  each_element(op.y, [&](std::size_t i, std::size_t j) { to(op.y, i, j, root(x(i, j))); });
}
WEFT_ORACLE(SquareRootBackward) {
  const auto y = numbers<T>(op.y), dy = numbers<T>(op.dy);
  each_element(op.dx, [&](std::size_t i, std::size_t j) {
    to(op.dx, i, j, y(i, j) == 0.0f ? T(0.0f) : dy(i, j) / (2.0f * y(i, j)));
  });
}
WEFT_ORACLE(MathFunction) {
  const auto x = numbers<T>(op.x);
  each_element(op.y, [&](std::size_t i, std::size_t j) { to(op.y, i, j, applied(op.function, x(i, j))); });
}
WEFT_ORACLE(ClampedLog) {
  const auto x = numbers<T>(op.x);
  each_element(op.y, [&](std::size_t i, std::size_t j) { to(op.y, i, j, logarithm(at_least(0x1p-126f, x(i, j)))); });
}
WEFT_ORACLE(ClampedLogBackward) {
  const auto x = numbers<T>(op.x), dy = numbers<T>(op.dy);
  each_element(op.dx, [&](std::size_t i, std::size_t j) { to(op.dx, i, j, dy(i, j) / at_least(0x1p-126f, x(i, j))); });
}

// Normalisations: n = (x - mean) scale, g = dy gain.
WEFT_ORACLE(RmsNorm) {
  const auto x = numbers<T>(op.x);
  const auto gain = numbers<T>(op.gain);
  for (std::size_t i = 0; i < op.x.rows; ++i) {
    const T squares = lanes<T>(op.x.cols, [&](T s, std::size_t j) { return fused(x(i, j), x(i, j), s); });
    const T scale = 1.0f / root(squares / static_cast<float>(op.x.cols) + op.epsilon);
    to(op.inverse_rms + i, scale);
    for (std::size_t j = 0; j < op.x.cols; ++j) to(op.y, i, j, op.gain ? x(i, j) * scale * gain(j) : x(i, j) * scale);
  }
}
WEFT_ORACLE(LayerNorm) {
  const auto x = numbers<T>(op.x);
  const auto gain = numbers<T>(op.gain), bias = numbers<T>(op.bias);
  const auto n = static_cast<float>(op.x.cols);
  for (std::size_t i = 0; i < op.x.rows; ++i) {
    const T mean = lanes<T>(op.x.cols, [&](T s, std::size_t j) { return s + x(i, j); }) / n;
    const T squares = lanes<T>(op.x.cols, [&](T s, std::size_t j) { return fused(x(i, j) - mean, x(i, j) - mean, s); });
    const T scale = 1.0f / root(squares / n + op.epsilon);
    to(op.mean + i, mean), to(op.inverse_deviation + i, scale);
    for (std::size_t j = 0; j < op.x.cols; ++j) {
      const T normal = (x(i, j) - mean) * scale;
      to(op.y, i, j,
         op.gain && op.bias ? fused(normal, gain(j), bias(j))
         : op.gain          ? normal * gain(j)
         : op.bias          ? normal + bias(j)
                            : normal);
    }
  }
}
/// dgain and dbias are sums over rows, from what they hold.
template <class T>
static std::vector<T> sums_of(const float* initial, std::size_t n) {
  std::vector<T> sums;
  for (std::size_t j = 0; initial && j < n; ++j) sums.push_back(T(initial[j]));
  return sums;
}
template <class T>
static void hand_over(const std::vector<T>& sums, const float* at, Expected<T>& to) {
  for (std::size_t j = 0; j < sums.size(); ++j) to(at + j, sums[j]);
}
WEFT_ORACLE(RmsNormBackward) {
  const auto x = numbers<T>(op.x), dy = numbers<T>(op.dy);
  const auto gain = numbers<T>(op.gain), scale = numbers<T>(op.inverse_rms);
  std::vector<T> dgain = sums_of<T>(op.dgain, op.x.cols);
  for (std::size_t i = 0; i < op.x.rows; ++i) {
    const auto g = [&](std::size_t j) { return op.gain ? dy(i, j) * gain(j) : dy(i, j); };
    const auto normal = [&](std::size_t j) { return x(i, j) * scale(i); };
    const T along = lanes<T>(op.x.cols, [&](T s, std::size_t j) { return fused(g(j), normal(j), s); }) /
                    static_cast<float>(op.x.cols);
    for (std::size_t j = 0; j < op.x.cols; ++j) {
      to(op.dx, i, j, fused(-normal(j), along, g(j)) * scale(i));
      if (op.dgain) dgain[j] = fused(dy(i, j), normal(j), dgain[j]);
    }
  }
  hand_over(dgain, op.dgain, to);
}
WEFT_ORACLE(LayerNormBackward) {
  const auto x = numbers<T>(op.x), dy = numbers<T>(op.dy);
  const auto gain = numbers<T>(op.gain), mean = numbers<T>(op.mean), scale = numbers<T>(op.inverse_deviation);
  std::vector<T> dgain = sums_of<T>(op.dgain, op.x.cols), dbias = sums_of<T>(op.dbias, op.x.cols);
  const auto n = static_cast<float>(op.x.cols);
  for (std::size_t i = 0; i < op.x.rows; ++i) {
    const auto g = [&](std::size_t j) { return op.gain ? dy(i, j) * gain(j) : dy(i, j); };
    const auto normal = [&](std::size_t j) { return (x(i, j) - mean(i)) * scale(i); };
    const T shift = lanes<T>(op.x.cols, [&](T s, std::size_t j) { return s + g(j); }) / n;
    const T along = lanes<T>(op.x.cols, [&](T s, std::size_t j) { return fused(g(j), normal(j), s); }) / n;
    for (std::size_t j = 0; j < op.x.cols; ++j) {
      to(op.dx, i, j, fused(-normal(j), along, g(j) - shift) * scale(i));
      if (op.dgain) dgain[j] = fused(dy(i, j), normal(j), dgain[j]);
      if (op.dbias) dbias[j] = dbias[j] + dy(i, j);
    }
  }
  hand_over(dgain, op.dgain, to), hand_over(dbias, op.dbias, to);
}

/// exp((x - largest) / temperature) of a row, and their sum.
template <class T>
struct Exponentials {
  Exponentials(const ConstMatrixView& m, std::size_t i, float temperature)
      : top(largest<T>(m.cols, [&](std::size_t j) { return T(m.row(i)[j]); })) {
    for (std::size_t j = 0; j < m.cols; ++j) each.push_back(exponential((T(m.row(i)[j]) - top) / temperature));
    sum = lanes<T>(m.cols, [&](T s, std::size_t j) { return s + each[j]; });
  }
  T top, sum;
  std::vector<T> each;
};
WEFT_ORACLE(Softmax) {
  for (std::size_t i = 0; i < op.x.rows; ++i) {
    const Exponentials<T> e(op.x, i, op.temperature);
    for (std::size_t j = 0; j < op.x.cols; ++j) to(op.y, i, j, e.each[j] / e.sum);
  }
}
WEFT_ORACLE(SoftmaxBackward) {
  const auto y = numbers<T>(op.y), dy = numbers<T>(op.dy);
  for (std::size_t i = 0; i < op.y.rows; ++i) {
    const T mean = lanes<T>(op.y.cols, [&](T s, std::size_t j) { return fused(y(i, j), dy(i, j), s); });
    for (std::size_t j = 0; j < op.y.cols; ++j) to(op.dx, i, j, y(i, j) * (dy(i, j) - mean) / op.temperature);
  }
}
WEFT_ORACLE(LogSoftmax) {
  const auto x = numbers<T>(op.x);
  for (std::size_t i = 0; i < op.x.rows; ++i) {
    const Exponentials<T> e(op.x, i, 1.0f);
    for (std::size_t j = 0; j < op.x.cols; ++j) {
      const T y = x(i, j) - e.top - logarithm(e.sum);
      to(op.y, i, j, op.base.data ? y + T(op.base.row(i)[0]) : y);
    }
  }
}
WEFT_ORACLE(LogSoftmaxBackward) {
  const auto y = numbers<T>(op.y), dy = numbers<T>(op.dy);
  for (std::size_t i = 0; i < op.y.rows; ++i) {
    const T total = lanes<T>(op.y.cols, [&](T s, std::size_t j) { return s + dy(i, j); });
    const T base = op.base.data ? op.base.row(i)[0] : 0.0f;
    for (std::size_t j = 0; j < op.y.cols; ++j) to(op.dx, i, j, fused(-exponential(y(i, j) - base), total, dy(i, j)));
    if (op.dbase.data) to(op.dbase, i, 0, T(op.dbase.row(i)[0]) + total);
  }
}
WEFT_ORACLE(CrossEntropy) {
  for (std::size_t i = 0; i < op.dx.rows; ++i) {
    const Exponentials<T> e(op.logits, i, 1.0f);
    const std::size_t label = op.labels[i];
    for (std::size_t j = 0; j < op.dx.cols; ++j)
      to(op.dx, i, j, j == label ? e.each[j] / e.sum - 1.0f : e.each[j] / e.sum);
    if (op.loss) to(op.loss + i, logarithm(e.sum) - (T(op.logits.row(i)[label]) - e.top));
  }
}
/// The loss of one value added to a sum, and its slope.
template <class T>
static T loss_sum(Loss kind, T sum, T x, T target, float delta) {
  const T d = x - target;
  if (kind == Loss::mse) return fused(d, d, sum);
  if (kind == Loss::mae) return sum + magnitude(d);
  if (kind == Loss::binary_cross_entropy) return sum + fused(-target, x, activated(Activation::softplus, x));
  return if_above(delta, magnitude(d), sum + delta * (magnitude(d) - 0.5f * delta), fused(0.5f * d, d, sum));
}
template <class T>
static T loss_slope(Loss kind, T x, T target, float delta) {
  const T d = x - target;
  if (kind == Loss::mse) return 2.0f * d;
  if (kind == Loss::binary_cross_entropy) return activated(Activation::sigmoid, x) - target;
  const float limit = kind == Loss::mae ? 0.0f : delta, most = kind == Loss::mae ? 1.0f : delta;
  return if_above(limit, magnitude(d), if_above(0.0f, d, T(most), T(-most)), d);
}
WEFT_ORACLE(ValueLoss) {
  const auto x = numbers<T>(op.x), target = numbers<T>(op.target);
  const auto n = static_cast<float>(op.x.cols);
  for (std::size_t i = 0; i < op.x.rows; ++i) {
    if (op.loss)
      to(op.loss + i, lanes<T>(op.x.cols, [&](T s, std::size_t j) {
                        return loss_sum<T>(op.kind, s, x(i, j), target(i, j), op.setting);
                      }) / n);
    for (std::size_t j = 0; j < op.x.cols; ++j)
      to(op.dx, i, j, loss_slope<T>(op.kind, x(i, j), target(i, j), op.setting) / n);
  }
}

/// The threshold by halving an interval in binary64, on log max(p): alpha near 1 stays well-conditioned.
static std::vector<Bounded> entmax_of(const std::vector<double>& x, double k, double temperature) {
  const double top = *std::max_element(x.begin(), x.end());
  double low = -std::log(static_cast<double>(x.size())), high = 0;
  const auto excess = [&](double v, double log_top) { return k * ((v - top) / temperature) / std::exp(k * log_top); };
  const auto share = [&](double v, double log_top) {  // p / max(p)
    const double u = excess(v, log_top);
    return u <= -1 ? 0.0 : std::exp(std::log1p(u) / k);
  };
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    double sum = 0;
    for (const double v : x) sum += share(v, middle);
    (std::exp(middle) * sum < 1 ? low : high) = middle;
  }
  // k (x - largest) / T has an error of 1.5 ulp, of a value within 1 for what is above the threshold; the threshold
  // follows by rounded sums. Where alpha > 2 the root makes that error larger near the threshold: it is p^k that is so
  // near. What is clearly below is exactly 0.
  std::vector<Bounded> all;
  for (const double v : x) {
    const double p = std::exp(high) * share(v, high), power = std::max(k, 1.0), off = 1e-6 + 2e-6 * p;
    const double most = std::pow(std::pow(p, power) + off, 1 / power);
    all.push_back(
        excess(v, high) < -1.001
            ? Bounded()
            : Bounded(p, std::max(most - p,
                                  power > 1 ? p - std::pow(std::max(std::pow(p, power) - off, 0.0), 1 / power) : off)));
  }
  return all;
}
WEFT_ORACLE(Entmax) {
  if constexpr (std::is_same_v<T, Bounded>)
    for (std::size_t i = 0; i < op.x.rows; ++i) {
      std::vector<double> x;
      for (std::size_t j = 0; j < op.x.cols; ++j) x.push_back(Bounded(op.x.row(i)[j]).value);
      const double sum = largest<Bounded>(x.size(), [&](std::size_t j) { return Bounded(x[j], 0); }).value;
      const bool is_lost = std::isinf(sum) || std::any_of(x.begin(), x.end(), [](double v) { return v != v; });
      const auto y =
          is_lost ? std::vector<Bounded>(x.size(), Bounded(NAN)) : entmax_of(x, op.alpha_minus_one, op.temperature);
      for (std::size_t j = 0; j < x.size(); ++j) to(op.y, i, j, y[j]);
    }
}
WEFT_ORACLE(EntmaxBackward) {
  const auto y = numbers<T>(op.y), dy = numbers<T>(op.dy);
  const float k = op.alpha_minus_one;
  const auto slope = [&](T p) -> T {
    if (!(p > 0.0f)) return p;
    return k == 1.0f ? T(1.0f) : k == 0.5f ? root(p) : exponential(at_most(40.0f, (1.0f - k) * logarithm(p)));
  };
  for (std::size_t i = 0; i < op.y.rows; ++i) {
    const T sum = lanes<T>(op.y.cols, [&](T s, std::size_t j) { return s + slope(y(i, j)); });
    const T dot = lanes<T>(op.y.cols, [&](T s, std::size_t j) { return fused(slope(y(i, j)), dy(i, j), s); });
    for (std::size_t j = 0; j < op.y.cols; ++j)
      to(op.dx, i, j, slope(y(i, j)) * (dy(i, j) - dot / sum) / op.temperature);
  }
}

/// Words of a row's noise, and the state after them (docs/numerics.md, section 11).
class Noise {
 public:
  Noise(const ConstMatrixView& state, std::size_t row, std::array<std::uint32_t, 2> key)
      : key_(key), counter_(number(state.row(row))), stream_(number(state.row(row) + 2)) {
    if (stream_ == 0) stream_ = row + 1;
  }
  std::uint32_t word(std::size_t j) const {
    return philox4x32(
        {static_cast<std::uint32_t>(j / 64 * 16 + j % 16), static_cast<std::uint32_t>(counter_),
         static_cast<std::uint32_t>((counter_ >> 32) + (stream_ >> 32) * 65536), static_cast<std::uint32_t>(stream_)},
        key_)[j % 64 / 16];
  }
  template <class T>
  void next(const MatrixView& state, std::size_t row, Expected<T>& to) const {
    const std::uint64_t after = (counter_ + 1) % (std::uint64_t{1} << 48), half = 1 << 24;
    const std::uint64_t all[] = {after % half, after / half, stream_ % half, stream_ / half};
    for (std::size_t i = 0; i < 4; ++i) to.move(state, row, i, static_cast<float>(all[i]));
  }

 private:
  static std::uint64_t number(const float* two) {
    const auto digit = [](float v) { return v >= 1.0f && v < 0x1p24f ? static_cast<std::uint64_t>(v) : 0; };
    return digit(two[0]) + (digit(two[1]) << 24);
  }
  std::array<std::uint32_t, 2> key_;
  std::uint64_t counter_, stream_;
};
WEFT_ORACLE(GumbelNoise) {
  const auto x = numbers<T>(op.x);
  for (std::size_t i = 0; i < op.x.rows; ++i) {
    const Noise noise(op.state, i, op.key);
    noise.next(op.next_state, i, to);
    for (std::size_t j = 0; j < op.x.cols; ++j) {
      const float u = (static_cast<float>(noise.word(j) / 512) + 0.5f) * 0x1p-23f;
      to(op.y, i, j, x(i, j) - logarithm(-logarithm(T(u))));
    }
  }
}
WEFT_ORACLE(DropoutMask) {
  for (std::size_t i = 0; i < op.mask.rows; ++i) {
    const Noise noise(op.state, i, op.key);
    noise.next(op.next_state, i, to);
    for (std::size_t j = 0; j < op.mask.cols; ++j)
      to.move(op.mask, i, j, noise.word(j) < op.threshold ? 0.0f : op.scale);
  }
}

static bool holds_nan(const float* row, std::size_t n) {
  return std::any_of(row, row + n, [](float v) { return std::isnan(v); });
}
/// The first of the largest numbers of a row; 0 where there is none.
static std::size_t first_of_largest(const float* row, std::size_t n) {
  std::size_t best = 0;
  for (std::size_t j = 0; j < n; ++j)
    if (std::isnan(row[best]) || chosen(row[j]) > chosen(row[best])) best = j;
  return std::isnan(row[best]) ? 0 : best;
}
WEFT_ORACLE(ArgmaxOneHot) {
  each_element(op.y, [&](std::size_t i, std::size_t j) {
    const float* const row = op.x.row(i);
    if (holds_nan(row, op.x.cols)) return to(op.y, i, j, T(NAN));
    to.move(op.y, i, j, j == first_of_largest(row, op.x.cols) ? 1.0f : 0.0f);
  });
}
WEFT_ORACLE(RowArgmax) {
  for (std::size_t i = 0; i < op.a.rows; ++i)
    to.bits(op.index + i, static_cast<std::uint32_t>(first_of_largest(op.a.row(i), op.a.cols)));
}
WEFT_ORACLE(TopKMask) {
  for (std::size_t i = 0; i < op.x.rows; ++i) {
    const float* const row = op.x.row(i);
    const bool is_lost = holds_nan(row, op.x.cols);
    for (std::size_t j = 0; j < op.x.cols; ++j) {
      std::size_t before = 0;
      for (std::size_t other = 0; other < op.x.cols; ++other) {
        const float here = chosen(row[j]), there = chosen(row[other]);
        before += there > here || (there == here && other < j);
      }
      if (is_lost)
        to(op.y, i, j, T(NAN));
      else
        to.move(op.y, i, j, before < op.count ? row[j] : -std::numeric_limits<float>::infinity());
    }
  }
}
WEFT_ORACLE(OneHot) {
  each_element(op.y, [&](std::size_t i, std::size_t j) { to.move(op.y, i, j, j == op.labels[i] ? op.value : 0.0f); });
}

template <class T>
static T row_dot(const ConstMatrixView& a, const ConstMatrixView& b, std::size_t i) {
  return lanes<T>(a.cols, [&](T s, std::size_t j) { return fused(T(a.row(i)[j]), T(b.row(i)[j]), s); });
}
WEFT_ORACLE(RowSums) {
  const auto a = numbers<T>(op.a);
  for (std::size_t i = 0; i < op.a.rows; ++i)
    to(op.s + i, lanes<T>(op.a.cols, [&](T s, std::size_t j) { return s + a(i, j); }));
}
WEFT_ORACLE(RowDots) {
  for (std::size_t i = 0; i < op.a.rows; ++i) to(op.s + i, row_dot<T>(op.a, op.b, i));
}
WEFT_ORACLE(ColumnAccumulate) {
  const auto a = numbers<T>(op.a);
  for (std::size_t j = 0; j < op.a.cols; ++j) {
    T sum = op.s[j];
    for (std::size_t i = 0; i < op.a.rows; ++i) sum = sum + a(i, j);
    to(op.s + j, sum);
  }
}
WEFT_ORACLE(RowStatistics) {
  const auto x = numbers<T>(op.x);
  const auto n = static_cast<float>(op.x.cols);
  for (std::size_t i = 0; i < op.x.rows; ++i) {
    const auto of = [&](const auto& step) { return lanes<T>(op.x.cols, step) / n; };
    const T mean = of([&](T s, std::size_t j) { return s + x(i, j); });
    const T apart = of([&](T s, std::size_t j) { return fused(x(i, j) - mean, x(i, j) - mean, s); });
    to(op.y, i, 0, mean), to(op.y, i, 1, root(apart));
    to(op.y, i, 2, of([&](T s, std::size_t j) { return magnitude(x(i, j)) > op.threshold ? s + 1.0f : s; }));
    to(op.y, i, 3, root(of([&](T s, std::size_t j) { return fused(x(i, j), x(i, j), s); })));
  }
}
WEFT_ORACLE(LinkBudget) {
  for (std::size_t i = 0; i < op.a.rows; ++i) {
    const T norms = root(row_dot<T>(op.a, op.a, i)) * root(row_dot<T>(op.t, op.t, i));
    const T cosine = norms == 0.0f ? T(0.0f) : row_dot<T>(op.a, op.t, i) / norms, budget = (cosine + 1.0f) * 0.5f;
    to(op.factor + i, if_above(0.2f, -budget + 0.4f, T(0.0f), fused(0.5f, budget, 0.5f)));
  }
}
WEFT_ORACLE(IsFinite) {
  bool all = true;
  each_element(op.x, [&](std::size_t i, std::size_t j) { all = all && std::isfinite(op.x.row(i)[j]); });
  to.answer = all;
}

/// The share of a rate at update n, by the schedules' papers.
static double rate_share(const RateSchedule& s, double n) {
  if (n < s.warmup) return (n + 1) / s.warmup;
  n -= s.warmup;
  const double length = s.updates, end = s.end;
  const auto cosine = [&](double at, double of) { return end + (1 - end) * (1 + std::cos(M_PI * at / of)) / 2; };
  switch (s.kind) {
    case RateScheduleKind::constant:
      return 1;
    case RateScheduleKind::linear:
      return 1 + (end - 1) * std::min(n, length) / length;
    case RateScheduleKind::cosine:
      return cosine(std::min(n, length), length);
    case RateScheduleKind::warm_restarts: {
      double period = length;
      if (s.growth == 1) n = std::fmod(n, length);
      for (; n >= period; period = std::min(period * s.growth, 4294967295.0)) n -= period;
      return cosine(n, period);
    }
    case RateScheduleKind::exponential:
      return std::pow(double{s.factor}, n);
    case RateScheduleKind::step:
      return std::pow(double{s.factor}, std::floor(n / length));
    case RateScheduleKind::polynomial:
      return n >= length ? end : end + (1 - end) * std::pow(1 - n / length, double{s.power});
  }
  return NAN;
}
WEFT_ORACLE(OptimizerFactors) {
  const std::uint64_t before = *op.updates, after = before + 1;
  for (int word = 0; word < 2; ++word)
    to.bits(reinterpret_cast<const std::uint32_t*>(op.updates) + word,
            static_cast<std::uint32_t>(after >> (32 * word)));
  if constexpr (std::is_same_v<T, Bounded>) {
    const double share = rate_share(op.schedule, static_cast<double>(std::min<std::uint64_t>(before, UINT32_MAX)));
    to(op.factors, {op.lr * share, op.lr * 0x1p-21});
    for (int i = 0; i < 2; ++i) {
      const double n = static_cast<double>(after), power = std::pow(double{i ? op.beta2 : op.beta1}, n);
      to(op.factors + 1 + i, {1 - power, (1 - power) * 0x1p-23 + power * n * 0x1p-52});
    }
  }
}
template <class T>
struct Updated {
  T w, g, first, second, third;
};
template <class T>
static void step(Updated<T>& u, const OptimizerOptions& o, T rate, T correction1, T correction2) {
  const T t = fused(o.weight_decay, u.w, u.g), kept = fused(-(rate * o.weight_decay), u.w, u.w);
  const auto mean = [](float share, T old, T fresh) { return fused(share, old, (T(1.0f) - share) * fresh); };
  switch (o.kind) {
    case OptimizerKind::sgd:
      u.w = fused(-rate, t, u.w);
      break;
    case OptimizerKind::momentum:
      u.first = fused(o.momentum, u.first, (T(1.0f) - o.dampening) * t);
      if (o.shares != StepShares{})
        u.w = fused(-rate, fused(o.shares.velocity, u.first, o.shares.gradient * t), u.w);
      else
        u.w = fused(-rate, o.nesterov ? fused(o.momentum, u.first, t) : u.first, u.w);
      break;
    case OptimizerKind::adamw:
      u.first = mean(o.beta1, u.first, u.g), u.second = mean(o.beta2, u.second, u.g * u.g);
      u.w = fused(-rate, u.first / correction1 / (root(u.second / correction2) + o.epsilon), kept);
      break;
    case OptimizerKind::rmsprop: {
      u.first = mean(o.alpha, u.first, t * t);
      if (o.centered) u.third = mean(o.alpha, u.third, t);
      const T variance = o.centered ? at_least(0.0f, fused(-u.third, u.third, u.first)) : u.first;
      T direction = t / (root(variance) + o.epsilon);
      if (o.momentum != 0.0f) direction = u.second = fused(o.momentum, u.second, direction);
      u.w = fused(-rate, direction, u.w);
      break;
    }
    case OptimizerKind::lion: {
      const T along = mean(o.beta1, u.first, u.g);
      u.w = fused(-rate, if_above(0.0f, along, T(1.0f), if_above(0.0f, -along, T(-1.0f), T(0.0f))), kept);
      u.first = mean(o.beta2, u.first, u.g);
      break;
    }
  }
}
WEFT_ORACLE(OptimizerStep) {
  const OptimizerOptions& o = op.options;
  const auto at = [](const float* values, std::size_t i) { return values ? T(values[i]) : T(0.0f); };
  const T factor = op.squares ? at_most(1.0f, o.clip_limit / (root(T(*op.squares)) + 1e-6f)) : T(1.0f);
  for (std::size_t i = 0; i < op.n; ++i) {
    Updated<T> u{at(op.w, i), at(op.g, i), at(op.first, i), at(op.second, i), at(op.third, i)};
    if (o.clip == Clip::value)
      u.g = at_least(-o.clip_limit, at_most(o.clip_limit, u.g));
    else if (op.squares)
      u.g = u.g * factor;
    if (op.factors)
      step<T>(u, o, op.factors[0], op.factors[1], op.factors[2]);
    else
      step<T>(u, o, o.lr, 1.0f, 1.0f);
    to(op.w + i, u.w);
    if (op.first) to(op.first + i, u.first);
    if (op.second) to(op.second + i, u.second);
    if (op.third) to(op.third + i, u.third);
  }
}

}  // namespace weft::kernels::testing_ops
