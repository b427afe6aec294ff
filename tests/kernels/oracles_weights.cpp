// SPDX-License-Identifier: Apache-2.0
// Oracles of operations on weights.

#include "kernels/unary.hpp"

#include "core/numeric.hpp"

#include "tests/kernels/product_oracle.hpp"

namespace weft::kernels::testing_ops {

WEFT_ORACLE(Linear) {
  Products<T> product(op.w);
  for (std::size_t b = 0; b < op.x.rows; ++b) {
    product.set_row(row_of<T>(op.x, b));
    for (std::size_t o = 0; o < op.w.out; ++o) {
      const T z = product(o, op.bias);
      to(op.z, b, o, z), to(op.y, b, o, activated(op.activation, z));
    }
  }
}
WEFT_ORACLE(GatedLinear) {
  Products<T> gate(op.w.gate), up(op.w.up);
  const std::size_t out = op.w.gate.out;
  for (std::size_t b = 0; b < op.x.rows; ++b) {
    gate.set_row(row_of<T>(op.x, b)), up.set_row(row_of<T>(op.x, b));
    for (std::size_t o = 0; o < out; ++o) {
      const T z = gate(o, op.w.gate_bias), g = activated(op.activation, z), u = up(o, op.w.up_bias);
      to(op.y, b, o, z), to(op.y, b, out + o, g), to(op.y, b, 2 * out + o, u), to(op.y, b, 3 * out + o, g * u);
    }
  }
}
WEFT_ORACLE(GatedBackward) {
  const auto values = numbers<T>(op.values), dy = numbers<T>(op.dy);
  const std::size_t out = op.dy.cols;
  each_element(op.dy, [&](std::size_t b, std::size_t o) {
    to(op.dup, b, o, dy(b, o) * values(b, out + o));
    const T v = values(b, needs_preactivation(op.activation) ? o : out + o);
    to(op.dgate, b, o, sloped(op.activation, v, dy(b, o) * values(b, 2 * out + o)));
  });
}

/// Sums over outputs by rule R2: float64's in binary64, rounded once.
template <class T, class Real>
static void transposed(const ops::LinearTransposed& op, Expected<T>& to) {
  const std::vector<Real> w = numbers_of<Real>(op.w);
  for (std::size_t b = 0; b < op.dy.rows; ++b)
    for (std::size_t k = 0; k < op.w.in; ++k)
      to(op.dx, b, k, static_cast<T>(lanes<Real>(op.w.out, [&](Real s, std::size_t o) {
           return fused(w[o * op.w.in + k], Real(op.dy.row(b)[o]), s);
         })));
}
WEFT_ORACLE(LinearTransposed) {
  if constexpr (std::is_same_v<T, float>)
    if (op.w.dtype == Dtype::float64) return transposed<T, double>(op, to);
  transposed<T, T>(op, to);
}
inline static double magnitude(double x) { return std::fabs(x); }
template <class T, class Real>
static void norms(const ops::ColumnL1Norms& op, Expected<T>& to) {
  const std::vector<Real> w = numbers_of<Real>(op.w);
  for (std::size_t k = 0; k < op.w.in; ++k)
    to(op.s + k,
       static_cast<T>(lanes<Real>(op.w.out, [&](Real s, std::size_t o) { return s + magnitude(w[o * op.w.in + k]); })));
}
WEFT_ORACLE(ColumnL1Norms) {
  if constexpr (std::is_same_v<T, float>)
    if (op.w.dtype == Dtype::float64) return norms<T, double>(op, to);
  norms<T, T>(op, to);
}
WEFT_ORACLE(OuterAccumulate) {
  const auto dy = numbers<T>(op.dy), x = numbers<T>(op.x);
  for (std::size_t o = 0; o < op.dw.out; ++o)
    for (std::size_t k = 0; k < op.dw.in; ++k) {
      const float* const at = op.dw.data + panel_index(op.dw.in, o, k);
      T sum = *at;
      for (std::size_t b = 0; b < op.dy.rows; ++b) sum = fused(dy(b, o), x(b, k), sum);
      to(at, sum);
    }
}

/// Points are float32: float64 is rounded to it.
template <class T>
static std::vector<T> points_of(const ConstWeight& c) {
  std::vector<T> all;
  for (const float each : numbers_of<float>(c)) all.push_back(T(each));
  return all;
}
WEFT_ORACLE(SquaredDistances) {
  const auto c = points_of<T>(op.c);
  const auto x = numbers<T>(op.x);
  each_element(op.y, [&](std::size_t b, std::size_t k) {
    to(op.y, b, k, chunks<T>(op.c.in, [&](T s, std::size_t j) {
         const T apart = x(b, j) - c[k * op.c.in + j];
         return fused(apart, apart, s);
       }));
  });
}
WEFT_ORACLE(SquaredDistancesBackward) {
  const auto c = points_of<T>(op.c);
  const auto x = numbers<T>(op.x), dy = numbers<T>(op.dy);
  const std::size_t in = op.c.in;
  if (op.dx.data)
    each_element(op.dx, [&](std::size_t b, std::size_t j) {
      to(op.dx, b, j,
         2.0f * lanes<T>(op.c.out, [&](T s, std::size_t k) { return fused(dy(b, k), x(b, j) - c[k * in + j], s); }));
    });
  for (std::size_t k = 0; op.dc.data && k < op.c.out; ++k)
    for (std::size_t j = 0; j < in; ++j) {
      const float* const at = op.dc.data + panel_index(in, k, j);
      T sum = *at;
      for (std::size_t b = 0; b < op.x.rows; ++b) sum = fused(2.0f * dy(b, k), c[k * in + j] - x(b, j), sum);
      to(at, sum);
    }
}

WEFT_ORACLE(WeightedSum) {
  const auto p = numbers<T>(op.p), x = numbers<T>(op.x);
  each_element(op.y, [&](std::size_t b, std::size_t j) {
    T sum = 0.0f;
    for (std::size_t e = 0; e < op.p.cols; ++e)
      if (op.p.row(b)[e] != 0.0f) sum = fused(p(b, e), x(b, e * op.y.cols + j), sum);
    to(op.y, b, j, sum);
  });
}
WEFT_ORACLE(WeightedSumBackward) {
  const auto p = numbers<T>(op.p), x = numbers<T>(op.x), dy = numbers<T>(op.dy);
  const std::size_t n = op.dy.cols;
  each_element(op.p, [&](std::size_t b, std::size_t e) {
    if (op.p.row(b)[e] == 0.0f) {
      to(op.dp, b, e, T(0.0f));
      for (std::size_t j = 0; j < n; ++j) to(op.dx, b, e * n + j, T(0.0f));
      return;
    }
    to(op.dp, b, e, lanes<T>(n, [&](T s, std::size_t j) { return fused(dy(b, j), x(b, e * n + j), s); }));
    for (std::size_t j = 0; j < n; ++j) to(op.dx, b, e * n + j, p(b, e) * dy(b, j));
  });
}

WEFT_ORACLE(Permute) {
  each_element(op.y, [&](std::size_t b, std::size_t at) {
    std::size_t from = 0, rest = at;
    for (std::size_t axis = op.order.rank; axis-- > 0; rest /= op.order.extent[axis])
      from += rest % op.order.extent[axis] * op.order.stride[axis];
    to.move(op.y, b, at, op.x.row(b)[from]);
  });
}
static std::size_t column(float index, std::size_t columns) {
  const double floor = std::floor(double{index});
  return floor >= 1 ? static_cast<std::size_t>(std::min(floor, static_cast<double>(columns - 1))) : 0;
}
WEFT_ORACLE(Embedding) {
  const bool by_row = op.entries == TableEntries::rows;
  if constexpr (std::is_same_v<T, float>)
    each_element(op.x, [&](std::size_t b, std::size_t t) {
      for (std::size_t k = 0; k < op.w.in && by_row; ++k)
        to(op.y, b, t * op.w.in + k, testing_coded::value_at(op.w, column(op.x.row(b)[t], op.w.out), k));
      for (std::size_t o = 0; o < op.w.out && !by_row; ++o)
        to(op.y, b, t * op.w.out + o, testing_coded::value_at(op.w, o, column(op.x.row(b)[t], op.w.in)));
    });
}
WEFT_ORACLE(EmbeddingBackward) {
  const auto dy = numbers<T>(op.dy);
  const bool by_row = op.entries == TableEntries::rows;
  const std::size_t entries = by_row ? op.dw.out : op.dw.in, features = by_row ? op.dw.in : op.dw.out;
  for (std::size_t o = 0; o < op.dw.out; ++o)
    for (std::size_t k = 0; k < op.dw.in; ++k) {
      const std::size_t entry = by_row ? o : k, feature = by_row ? k : o;
      const float* const at = op.dw.data + panel_index(op.dw.in, o, k);
      T sum = *at;
      bool is_named = false;
      each_element(op.x, [&](std::size_t b, std::size_t t) {
        if (entry == op.skipped || column(op.x.row(b)[t], entries) != entry) return;
        sum = sum + dy(b, t * features + feature), is_named = true;
      });
      if (is_named)
        to(at, sum);
      else
        to.bits(at, std::bit_cast<std::uint32_t>(*at));
    }
}

/// Quantizing by docs/numerics.md, section 8; single codes by core/numeric.hpp, the reference.
template <class Number>
class Quantizer {
 public:
  explicit Quantizer(const ops::Quantize& op)
      : master_(op.master),
        to_(op.to),
        bytes_(weight_bytes(Encoding(op.to.dtype, op.to.granularity), to_.out, to_.in)) {
    // Bytes that only fill the last word stay.
    const auto array = [](const void* from, std::size_t size) {
      const auto* const begin = static_cast<const unsigned char*>(from);
      std::vector<unsigned char> all(begin, begin + (size + 3) / 4 * 4);
      std::fill_n(all.begin(), size, 0);
      return all;
    };
    codes_ = array(to_.codes, bytes_.codes), scales_ = array(to_.scales, bytes_.scales);
    zero_points_ = array(to_.zero_points, bytes_.zero_points);
    if constexpr (Number::scale_rule != numeric::ScaleRule::none)
      each_group([&](std::size_t group, Range o, Range k) { scale_group(group, o, k); });
    for (std::size_t o = 0; o < to_.out; ++o)
      for (std::size_t k = 0; k < to_.in; ++k) put_code(o, k, code_of(o, k));
  }
  void give(Expected<float>& to) const {
    for (const auto& [bytes, at] :
         {std::pair{&codes_, to_.codes}, {&scales_, to_.scales}, {&zero_points_, to_.zero_points}})
      for (std::size_t i = 0; at && i < bytes->size(); i += 4) {
        std::uint32_t word;
        std::memcpy(&word, bytes->data() + i, 4);
        to.bits(static_cast<const unsigned char*>(at) + i, word);
      }
  }

 private:
  using Scale = typename Number::Scale;
  using Range = std::pair<std::size_t, std::size_t>;
  static constexpr float kMost = std::numeric_limits<float>::max();
  /// From here on a number is an infinite float.
  static constexpr double kPast = 0x1.ffffffp127;

  template <class Visit>
  void each_group(const Visit& visit) const {
    const Range outs{0, to_.out}, ins{0, to_.in};
    if (to_.granularity == Granularity::tensor) return visit(0, outs, ins);
    for (std::size_t o = 0; o < to_.out; ++o) {
      if (to_.granularity == Granularity::channel) visit(o, Range{o, o + 1}, ins);
      for (std::size_t k = 0; is_block(to_.granularity) && k < to_.in; k += 32)
        visit(testing_coded::group_of(to_.granularity, to_.in, o, k), Range{o, o + 1},
              Range{k, std::min(to_.in, k + 32)});
    }
  }
  float weight(std::size_t o, std::size_t k) const { return master_.data[panel_index(master_.in, o, k)]; }
  /// A weight as statistics see it.
  float seen(std::size_t o, std::size_t k) const { return std::isfinite(weight(o, k)) ? weight(o, k) : 0.0f; }

  float mean_sum(Range o, Range k, float by) const {
    return lanes<float>(o.second - o.first, [&](float lane, std::size_t i) {
      return lane + chunks<float>(k.second - k.first, [&](float sum, std::size_t j) {
               return sum + std::fabs(seen(o.first + i, k.first + j)) * by;
             });
    });
  }
  void scale_group(std::size_t group, Range o, Range k) {
    float low = 0, high = 0;
    for (std::size_t i = o.first; i < o.second; ++i)
      for (std::size_t j = k.first; j < k.second; ++j)
        low = std::min(low, seen(i, j)), high = std::max(high, seen(i, j));
    const bool is_signed = Number::scale_rule == numeric::ScaleRule::largest;
    if (is_signed) high = std::max(high, -low), low = 0;
    constexpr float kLeast = 0x1p-126f;
    Scale scale = 0;
    if constexpr (Number::scale_rule == numeric::ScaleRule::mean) {
      const auto n = static_cast<float>((o.second - o.first) * (k.second - k.first));
      float mean = n > 0 ? mean_sum(o, k, 1) / n : 0;
      if (std::isinf(mean)) mean = std::min(mean_sum(o, k, 0x1p-64f) / n, kMost * 0x1p-64f) * 0x1p64f;
      scale = std::max(mean, kLeast);
    } else if constexpr (sizeof(Scale) == 8) {
      const double made = (double{high} - double{low}) / static_cast<double>(Number::largest_number());
      scale = static_cast<Scale>(made > 0 ? made : double{kLeast});
    } else {
      const auto steps = static_cast<float>(Number::largest_number());
      const bool is_halved = double{high} - low >= kPast;
      float made = is_halved ? (high * 0.5f - low * 0.5f) / (steps * 0.5f) : (high - low) / steps;
      made = std::max(made, kLeast);
      scale = !is_halved && double{made} * steps >= kPast ? std::nextafter(made, 0.0f) : made;
    }
    if (has_half_scales()) {
      // Up, so that the largest weight is within the largest code; 65504 is the largest number.
      const double place = std::ldexp(1.0, testing_coded::half_place(double{scale}));
      const double up = std::min(std::ceil(double{scale} / place) * place, 65504.0);
      const std::uint16_t code = testing_coded::half_code(up);
      std::memcpy(scales_.data() + group * sizeof code, &code, sizeof code);
      scale = static_cast<Scale>(up);
    } else {
      std::memcpy(scales_.data() + group * sizeof scale, &scale, sizeof scale);
    }
    if constexpr (Number::scale_rule == numeric::ScaleRule::range) {
      const auto zero =
          static_cast<typename Number::Code>(Number::encode(static_cast<double>(-static_cast<Scale>(low) / scale)));
      std::memcpy(zero_points_.data() + group * sizeof zero, &zero, sizeof zero);
    }
  }
  std::uint64_t code_of(std::size_t o, std::size_t k) const {
    const float w = weight(o, k);
    if constexpr (Number::scale_rule == numeric::ScaleRule::none || Number::bits == 1) {
      return Number::encode(w);
    } else {
      const std::size_t group = testing_coded::group_of(to_.granularity, to_.in, o, k);
      const Scale scale = scale_at(group);
      if constexpr (Number::scale_rule != numeric::ScaleRule::range) {
        return Number::encode(static_cast<Scale>(w) / scale);
      } else {
        typename Number::Code zero;
        std::memcpy(&zero, zero_points_.data() + group * sizeof zero, sizeof zero);
        const std::uint64_t code = Number::encode(static_cast<double>(static_cast<Scale>(w) / scale), zero);
        if (sizeof(Scale) == 8) return code;
        // Neither end where it would stand for more than the largest float.
        const double below = static_cast<double>(zero) * scale,
                     above = static_cast<double>(Number::kLargest - zero) * scale;
        if (code == 0 && below >= kPast) return 1;
        return code == Number::kLargest && above >= kPast ? code - 1 : code;
      }
    }
  }
  bool has_half_scales() const { return to_.granularity == Granularity::block32_f16; }
  Scale scale_at(std::size_t group) const {
    Scale scale;
    std::uint16_t code;
    if (has_half_scales()) {
      std::memcpy(&code, scales_.data() + group * sizeof code, sizeof code);
      return static_cast<Scale>(testing_coded::small_float(code, 5, 10));
    }
    std::memcpy(&scale, scales_.data() + group * sizeof scale, sizeof scale);
    return scale;
  }
  void put_code(std::size_t o, std::size_t k, std::uint64_t code) {
    const testing_coded::CodePlace at(to_.dtype, to_.in, o, k);
    std::uint64_t word = 0;
    std::memcpy(&word, codes_.data() + at.byte, at.bytes);
    word |= code << at.shift;
    std::memcpy(codes_.data() + at.byte, &word, at.bytes);
  }

  ConstPanels master_;
  Weight to_;
  WeightBytes bytes_;
  std::vector<unsigned char> codes_, scales_, zero_points_;
};
WEFT_ORACLE(Quantize) {
  if constexpr (std::is_same_v<T, float>)
    visit(op.to.dtype, [&](auto number) { Quantizer<decltype(number)>(op).give(to); });
}

}  // namespace weft::kernels::testing_ops
