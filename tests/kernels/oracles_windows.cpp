// SPDX-License-Identifier: Apache-2.0
// Oracles of convolutions, pools, attention and rotations.

#include "tests/kernels/product_oracle.hpp"

namespace weft::kernels::testing_ops {

/// The element of a plane under tap t of window p, from coordinates with their signs; none outside of the image.
static std::optional<std::size_t> place(const Window& w, std::size_t p, std::size_t t) {
  const Window::Extents at = Window::split(p, w.out), tap = Window::split(t, w.kernel);
  std::size_t index = 0;
  for (std::size_t a = 0; a < 3; ++a) {
    const long i = static_cast<long>(at[a] * w.stride[a] + tap[a] * w.dilation[a]) - static_cast<long>(w.padding[a]);
    if (i < 0 || i >= static_cast<long>(w.in[a])) return std::nullopt;
    index = index * w.in[a] + static_cast<std::size_t>(i);
  }
  return index;
}
/// Column k of window p in an image, of the channels of one group; +0 outside.
template <class T>
static T under(const Window& w, const float* image, std::size_t group, std::size_t p, std::size_t k) {
  const std::size_t channel = group * w.group_channels() + k / w.taps();
  const auto at = place(w, p, k % w.taps());
  return at ? T(image[channel * w.plane() + *at]) : T(0.0f);
}
WEFT_ORACLE(Convolve) {
  const Window& w = op.window;
  Products<T> product(op.w);
  const std::size_t outs = op.w.out / w.groups;
  for (std::size_t b = 0; b < op.x.rows; ++b)
    for (std::size_t group = 0; group < w.groups; ++group)
      for (std::size_t p = 0; p < w.positions(); ++p) {
        std::vector<T> x;
        for (std::size_t k = 0; k < w.columns(); ++k) x.push_back(under<T>(w, op.x.row(b), group, p, k));
        product.set_row(std::move(x));
        for (std::size_t o = group * outs; o < (group + 1) * outs; ++o) {
          const T z = product(o, op.bias);
          to(op.z, b, o * w.positions() + p, z), to(op.y, b, o * w.positions() + p, activated(op.activation, z));
        }
      }
}
WEFT_ORACLE(ConvolveTransposed) {
  const Window& w = op.window;
  std::vector<T> weights;  // float32 always
  for (const float each : numbers_of<float>(op.w)) weights.push_back(T(each));
  const auto x = numbers<T>(op.x);
  const std::size_t outs = op.w.out / w.groups, columns = w.columns();
  for (std::size_t b = 0; b < op.x.rows; ++b) {
    std::vector<T> sums(w.image(), T(0.0f));
    for (std::size_t p = 0; p < w.positions(); ++p)
      for (std::size_t group = 0; group < w.groups; ++group)
        for (std::size_t k = 0; k < columns; ++k) {
          const auto at = place(w, p, k % w.taps());
          if (!at) continue;
          T& sum = sums[(group * w.group_channels() + k / w.taps()) * w.plane() + *at];
          sum = sum + chunks<T>(outs, [&](T s, std::size_t i) {
                  const std::size_t o = group * outs + i;
                  return fused(weights[o * columns + k], x(b, o * w.positions() + p), s);
                });
        }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const T whole = sums[i] + 0.0f, z = op.bias ? whole + op.bias[i / w.plane()] : whole;
      to(op.z, b, i, z), to(op.y, b, i, activated(op.activation, z));
    }
  }
}
WEFT_ORACLE(ConvolveOuter) {
  const Window& w = op.window;
  const auto dy = numbers<T>(op.dy);
  for (std::size_t o = 0; o < op.dw.out; ++o)
    for (std::size_t k = 0; k < op.dw.in; ++k) {
      const float* const at = op.dw.data + panel_index(op.dw.in, o, k);
      T sum = *at;
      for (std::size_t b = 0; b < op.x.rows; ++b)
        for (std::size_t p = 0; p < w.positions(); ++p)
          sum = fused(dy(b, o * w.positions() + p), under<T>(w, op.x.row(b), o / (op.dw.out / w.groups), p, k), sum);
      to(at, sum);
    }
}

/// The elements of window p of a plane, in order, and how many the padded image has.
static std::pair<std::vector<std::size_t>, std::size_t> elements_of(const Pool& pool, std::size_t p) {
  const Window& w = pool.window;
  const Window::Extents at = Window::split(p, w.out);
  std::vector<std::size_t> axis[3];
  std::size_t full = 1;
  for (std::size_t a = 0; a < 3; ++a) {
    if (pool.is_adaptive) {
      const double n = static_cast<double>(w.in[a]), m = static_cast<double>(w.out[a]), i = static_cast<double>(at[a]);
      for (double e = std::floor(i * n / m); e < std::ceil((i + 1) * n / m); ++e)
        axis[a].push_back(static_cast<std::size_t>(e));
      full *= axis[a].size();
      continue;
    }
    std::size_t padded = 0;
    for (std::size_t t = 0; t < w.kernel[a]; ++t) {
      const long e = static_cast<long>(at[a] * w.stride[a] + t * w.dilation[a]) - static_cast<long>(w.padding[a]);
      if (e >= 0 && e < static_cast<long>(w.in[a])) axis[a].push_back(static_cast<std::size_t>(e));
      padded += e < static_cast<long>(w.in[a] + w.padding[a]);
    }
    full *= padded;
  }
  std::vector<std::size_t> all;
  for (const std::size_t z : axis[0])
    for (const std::size_t y : axis[1])
      for (const std::size_t x : axis[2]) all.push_back((z * w.in[1] + y) * w.in[2] + x);
  return {all, full};
}
/// visit(row, result, offset of the plane, elements, their number that divides) for each window.
template <class Visit>
static void each_window(const Pool& pool, std::size_t rows, const Visit& visit) {
  const Window& w = pool.window;
  for (std::size_t b = 0; b < rows; ++b)
    for (std::size_t i = 0; i < w.channels * w.positions(); ++i) {
      const auto [elements, full] = elements_of(pool, i % w.positions());
      visit(b, i, i / w.positions() * w.plane(), elements,
            static_cast<float>(pool.counts_padding ? full : elements.size()));
    }
}
/// Sums over windows for each element of the images, from +0.
template <class T>
class ImageSums {
 public:
  explicit ImageSums(const MatrixView& dx) : dx_(dx), sums_(dx.rows * dx.cols, T(0.0f)) {}
  void add(std::size_t b, std::size_t at, T value) { sums_[b * dx_.cols + at] = sums_[b * dx_.cols + at] + value; }
  void give(Expected<T>& to) const {
    each_element(dx_, [&](std::size_t b, std::size_t j) { to(dx_, b, j, sums_[b * dx_.cols + j]); });
  }

 private:
  MatrixView dx_;
  std::vector<T> sums_;
};
WEFT_ORACLE(MaxPool) {
  each_window(op.pool, op.x.rows, [&](std::size_t b, std::size_t i, std::size_t plane, const auto& elements, float) {
    const float* const x = op.x.row(b) + plane;
    std::size_t best = elements[0];
    for (const std::size_t e : elements)
      if (std::isnan(x[e]) || (!std::isnan(x[best]) && chosen(x[e]) > chosen(x[best]))) best = e;
    to.move(op.y, b, i, x[best]);
    to.move(op.index, b, i, static_cast<float>(best));
  });
}
WEFT_ORACLE(MaxPoolBackward) {
  ImageSums<T> sums(op.dx);
  each_window(op.pool, op.dx.rows, [&](std::size_t b, std::size_t i, std::size_t plane, const auto&, float) {
    sums.add(b, plane + static_cast<std::size_t>(op.index.row(b)[i]), T(op.dy.row(b)[i]));
  });
  sums.give(to);
}
WEFT_ORACLE(AvgPool) {
  each_window(op.pool, op.x.rows, [&](std::size_t b, std::size_t i, std::size_t plane, const auto& elements, float n) {
    T sum = 0.0f;
    for (const std::size_t e : elements) sum = sum + T(op.x.row(b)[plane + e]);
    to(op.y, b, i, sum / n);
  });
}
WEFT_ORACLE(AvgPoolBackward) {
  ImageSums<T> sums(op.dx);
  each_window(op.pool, op.dx.rows, [&](std::size_t b, std::size_t i, std::size_t plane, const auto& elements, float n) {
    for (const std::size_t e : elements) sums.add(b, plane + e, T(op.dy.row(b)[i]) / n);
  });
  sums.give(to);
}

static std::uint64_t position_of(const float* state) {
  const auto digit = [](float v) { return v >= 1.0f && v < 0x1p24f ? static_cast<std::uint64_t>(v) : 0; };
  return digit(state[0]) + (digit(state[1]) << 24);
}
/// One session of an attention: who sees whom, and where keys and values of a kv head stand, by absolute position.
struct Session {
  Session(const AttentionShape& s, const AttentionOperands& from, std::size_t b)
      : shape(s),
        k(from.k.row(b)),
        v(from.v.row(b)),
        state(s.context ? from.state.row(b) : nullptr),
        mask(s.mask.key ? from.mask.row(b) : nullptr),
        start(state ? position_of(state) : 0),
        slots((s.context + 15) / 16 * 16),
        width((s.head_dim + 15) / 16 * 16) {}

  /// Positions [first, last) that token t sees.
  std::uint64_t first(std::size_t t) const {
    const std::uint64_t at = start + t, all = at + shape.tokens;
    const std::uint64_t reach = std::min(shape.context ? shape.context : all, shape.window ? shape.window : all);
    return std::max(at >= reach ? at - reach + 1 : 0, shape.context ? 0 : start);
  }
  std::uint64_t last(std::size_t t) const {
    const std::uint64_t at = start + t, end = start + shape.tokens;
    return shape.causal ? at + 1 : shape.window ? std::min(end, at + shape.window) : end;
  }
  /// Floats of the state.
  std::size_t key(std::size_t kv, std::uint64_t position, std::size_t i) const {
    const std::size_t slot = position % slots;
    return head(kv) + (slot / 16 * shape.head_dim + i) * 16 + slot % 16;
  }
  std::size_t value(std::size_t kv, std::uint64_t position, std::size_t i) const {
    return head(kv) + slots * shape.head_dim + position % slots * width + i;
  }
  std::size_t of_call(std::size_t kv, std::size_t t, std::size_t i) const {
    return (t * shape.kv_heads + kv) * shape.head_dim + i;
  }
  template <class T>
  T key_at(std::size_t kv, std::uint64_t j, std::size_t i) const {
    return T(j >= start ? k[of_call(kv, j - start, i)] : state[key(kv, j, i)]);
  }
  template <class T>
  T value_at(std::size_t kv, std::uint64_t j, std::size_t i) const {
    return T(j >= start ? v[of_call(kv, j - start, i)] : state[value(kv, j, i)]);
  }
  /// Place of a number of the mask, and whether it hides its key.
  std::size_t number(std::size_t h, std::size_t t, std::uint64_t j) const {
    return h * shape.mask.head + t * shape.mask.token + j * shape.mask.key;
  }
  bool hides(std::size_t h, std::size_t t, std::uint64_t j) const { return mask && mask[number(h, t, j)] <= -1e30f; }
  /// visit(kv, t) for the call's tokens that go into the next state.
  template <class Visit>
  void each_kept(const Visit& visit) const {
    for (std::size_t kv = 0; kv < shape.kv_heads; ++kv)
      for (std::size_t t = shape.tokens - std::min(shape.tokens, slots); t < shape.tokens; ++t) visit(kv, t);
  }

  const AttentionShape& shape;
  const float *k, *v, *state, *mask;
  std::uint64_t start;
  std::size_t slots, width;

 private:
  std::size_t head(std::size_t kv) const { return 16 + kv * slots * (shape.head_dim + width); }
};
/// Sums over keys in chunks of 64 positions, + 0.
template <class T, class Step>
static T over_keys(std::uint64_t first, std::uint64_t last, const Step& step) {
  T total = 0.0f, sum = 0.0f;
  for (std::uint64_t j = first; j < last; ++j) {
    sum = step(j % 64 == 0 ? T(0.0f) : sum, j);
    if (j % 64 == 63 || j + 1 == last) total = total + sum;
  }
  return total + 0.0f;
}
template <class T>
static T scaled_score(const Session& s, const float* q, std::size_t kv, std::uint64_t j) {
  return chunks<T>(s.shape.head_dim, [&](T sum, std::size_t i) { return fused(s.key_at<T>(kv, j, i), T(q[i]), sum); }) *
         s.shape.scale;
}
/// tanh of a scaled score in parts of the cap.
template <class T>
static T capped_share(const Session& s, const T& scaled) {
  return activated(Activation::tanh, scaled * (1.0f / s.shape.score_cap));
}
template <class T>
static T score_of(const Session& s, const float* q, std::size_t kv, std::uint64_t j) {
  const T scaled = scaled_score<T>(s, q, kv, j);
  return s.shape.score_cap == 0 ? scaled : capped_share(s, scaled) * s.shape.score_cap;
}
/// exp(score - top), 0 of a hidden key.
template <class T>
static T share_of(const Session& s, std::size_t h, std::size_t t, std::uint64_t j, const T& score, const T& top) {
  return s.hides(h, t, j) ? T(0.0f) : exponential(score - top);
}
template <class T>
static T masked_score(const Session& s, const float* q, std::size_t h, std::size_t t, std::uint64_t j) {
  const T score = score_of<T>(s, q, h / (s.shape.heads / s.shape.kv_heads), j);
  if (s.hides(h, t, j)) return -std::numeric_limits<float>::infinity();
  return s.mask ? score + T(s.mask[s.number(h, t, j)]) : score;
}
static void expect_next_state(const Session& s, const MatrixView& next, std::size_t b, Expected<float>& to) {
  const AttentionShape& shape = s.shape;
  std::vector<float> want(s.state, s.state + attention_state_size(shape));
  std::fill_n(want.begin(), 16, 0.0f);
  const std::uint64_t after = (s.start + shape.tokens) % (std::uint64_t{1} << 48);
  want[0] = static_cast<float>(after % (1 << 24)), want[1] = static_cast<float>(after >> 24);
  s.each_kept([&](std::size_t kv, std::size_t t) {
    for (std::size_t i = 0; i < s.width; ++i) {
      const bool is_there = i < shape.head_dim;
      want[s.value(kv, s.start + t, i)] = is_there ? s.v[s.of_call(kv, t, i)] : 0.0f;
      if (is_there) want[s.key(kv, s.start + t, i)] = s.k[s.of_call(kv, t, i)];
    }
  });
  for (std::size_t i = 0; i < want.size(); ++i) to.move(next, b, i, want[i]);
}
WEFT_ORACLE(Attention) {
  const AttentionShape& shape = op.shape;
  for (std::size_t b = 0; b < op.y.rows; ++b) {
    const Session s(shape, op.from, b);
    for (std::size_t h = 0; h < shape.heads; ++h)
      for (std::size_t t = 0; t < shape.tokens; ++t) {
        const std::size_t kv = h / (shape.heads / shape.kv_heads), at = (t * shape.heads + h) * shape.head_dim;
        const std::uint64_t first = s.first(t), last = s.last(t);
        std::vector<T> e;
        for (std::uint64_t j = first; j < last; ++j) e.push_back(masked_score<T>(s, op.from.q.row(b) + at, h, t, j));
        T top = largest<T>(e.size(), [&](std::size_t j) { return e[j]; }) + 0.0f;
        if (s.mask && top == T(-std::numeric_limits<float>::infinity())) top = 0.0f;
        std::vector<T> lane(64, T(0.0f));
        for (std::uint64_t j = first; j < last; ++j) {
          e[j - first] = share_of(s, h, t, j, e[j - first], top);
          lane[j % 64] = lane[j % 64] + e[j - first];
        }
        T sum = folded(std::move(lane));
        if (s.mask && sum == T(0.0f)) sum = 1.0f;
        to(op.statistics, b, h * shape.tokens + t, top);
        to(op.statistics, b, (shape.heads + h) * shape.tokens + t, sum);
        for (std::size_t i = 0; i < shape.head_dim; ++i)
          to(op.y, b, at + i, over_keys<T>(first, last, [&](T total, std::uint64_t j) {
                                return fused(e[j - first], s.value_at<T>(kv, j, i), total);
                              }) / sum);
      }
    if constexpr (std::is_same_v<T, float>)
      if (shape.context) expect_next_state(s, op.next_state, b, to);
  }
}
WEFT_ORACLE(AttentionBackward) {
  const AttentionShape& shape = op.shape;
  const std::size_t n = shape.head_dim, group = shape.heads / shape.kv_heads;
  for (std::size_t b = 0; b < op.y.rows; ++b) {
    const Session s(shape, op.from, b);
    const std::uint64_t oldest = s.first(0), end = s.start + shape.tokens;
    const auto dy = [&](std::size_t i) { return T(op.gradients.dy.row(b)[i]); };
    // Slots of the state take over what the next call sends back.
    const float* const later = op.gradients.dnext_state.data ? op.gradients.dnext_state.row(b) : nullptr;
    std::vector<T> dstate(shape.context ? attention_state_size(shape) : 0, T(0.0f));
    for (std::size_t i = 16; later && i < dstate.size(); ++i) dstate[i] = T(later[i]);
    if (shape.context)
      s.each_kept([&](std::size_t kv, std::size_t t) {
        for (std::size_t i = 0; i < s.width; ++i) {
          dstate[s.value(kv, s.start + t, i)] = 0.0f;
          if (i < n) dstate[s.key(kv, s.start + t, i)] = 0.0f;
        }
      });
    std::vector<T> dmask(attention_mask_size(shape), T(0.0f));
    std::vector<bool> is_number(dmask.size());
    for (std::size_t h = 0; h < shape.heads && s.mask; ++h)
      for (std::size_t t = 0; t < shape.tokens; ++t)
        for (std::size_t j = 0; j < shape.tokens; ++j) is_number[s.number(h, t, j)] = true;
    for (std::size_t kv = 0; kv < shape.kv_heads; ++kv) {
      std::vector<T> dk((end - oldest) * n, T(0.0f)), dv = dk;
      for (std::size_t h = kv * group; h < (kv + 1) * group; ++h)
        for (std::size_t t = 0; t < shape.tokens; ++t) {
          const std::size_t at = (t * shape.heads + h) * n, row = h * shape.tokens + t;
          const std::uint64_t first = s.first(t), last = s.last(t);
          const T top = op.statistics.row(b)[row],
                  share = 1.0f / T(op.statistics.row(b)[shape.heads * shape.tokens + row]);
          const T mean =
              lanes<T>(n, [&](T sum, std::size_t i) { return fused(dy(at + i), T(op.y.row(b)[at + i]), sum); });
          std::vector<T> p, slope;
          for (std::uint64_t j = first; j < last; ++j) {
            p.push_back(share_of(s, h, t, j, masked_score<T>(s, op.from.q.row(b) + at, h, t, j), top) * share);
            const T along =
                chunks<T>(n, [&](T sum, std::size_t i) { return fused(s.value_at<T>(kv, j, i), dy(at + i), sum); });
            const T gap = p.back() * (along - mean);
            if (s.mask) dmask[s.number(h, t, j)] = dmask[s.number(h, t, j)] + gap;
            slope.push_back(gap * shape.scale);
            if (shape.score_cap != 0) {
              const T u = capped_share(s, scaled_score<T>(s, op.from.q.row(b) + at, kv, j));
              slope.back() = slope.back() * fused(-u, u, T(1.0f));
            }
          }
          for (std::size_t i = 0; i < n; ++i) {
            to(op.gradients.dq, b, at + i, over_keys<T>(first, last, [&](T sum, std::uint64_t j) {
                 return fused(slope[j - first], s.key_at<T>(kv, j, i), sum);
               }));
            for (std::uint64_t j = first; j < last; ++j) {
              T &of_key = dk[(j - oldest) * n + i], &of_value = dv[(j - oldest) * n + i];
              of_key = fused(slope[j - first], T(op.from.q.row(b)[at + i]), of_key);
              of_value = fused(p[j - first], dy(at + i), of_value);
            }
          }
        }
      for (std::uint64_t j = oldest; j < end; ++j)
        for (std::size_t i = 0; i < n; ++i) {
          const T of_key = dk[(j - oldest) * n + i] + 0.0f, of_value = dv[(j - oldest) * n + i] + 0.0f;
          if (j < s.start) {
            T &key = dstate[s.key(kv, j, i)], &value = dstate[s.value(kv, j, i)];
            key = key + of_key, value = value + of_value;
            continue;
          }
          const bool is_kept = later && end - j <= s.slots;
          const std::size_t at = s.of_call(kv, j - s.start, i);
          to(op.gradients.dk, b, at, is_kept ? of_key + T(later[s.key(kv, j, i)]) : of_key);
          to(op.gradients.dv, b, at, is_kept ? of_value + T(later[s.value(kv, j, i)]) : of_value);
        }
    }
    for (std::size_t i = 0; i < dstate.size(); ++i) to(op.gradients.dstate, b, i, dstate[i]);
    for (std::size_t i = 0; i < dmask.size() && op.gradients.dmask.data; ++i)
      if (is_number[i])
        to(op.gradients.dmask, b, i, dmask[i]);
      else
        to.move(op.gradients.dmask, b, i, op.gradients.dmask.row(b)[i]);
  }
}

/// Cosines and sines: rope_test.cpp.
WEFT_ORACLE(Rope) {
  const std::size_t n = op.rope.dims();
  const auto x = numbers<T>(op.x);
  std::vector<float> turn(2 * n);
  for (std::size_t b = 0; b < op.x.rows; ++b)
    for (std::size_t j = 0; j < op.x.cols; ++j) {
      const std::size_t token = j / (op.x.cols / op.tokens), i = j % op.rope.head_dim;
      if (j % (op.x.cols / op.tokens) == 0)
        rope_row({op.rope.head_dim, op.rope.pairs, op.rope.turns, nullptr, 0, op.rope.turned, op.rope.gain},
                 (op.state.data ? position_of(op.state.row(b)) : 0) + token, turn.data());
      if (i >= n) {
        to.move(op.y, b, j, op.x.row(b)[j]);
        continue;
      }
      const std::size_t partner = j - i + (op.rope.pairs == RopePairs::half ? (i + n / 2) % n : i ^ 1);
      to(op.y, b, j, fused(x(b, j), turn[i], x(b, partner) * (op.transposed ? -turn[n + i] : turn[n + i])));
    }
}

}  // namespace weft::kernels::testing_ops
