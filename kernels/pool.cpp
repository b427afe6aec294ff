// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/pool.cpp"
#include "kernels/pool.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/rows-inl.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

using Bins = std::array<PoolBin, Window::kAxes>;

inline float divisor(const Pool& pool, const Bins& bins) noexcept {
  std::size_t n = 1;
  for (const PoolBin& bin : bins) n *= pool.counts_padding ? bin.full : bin.count;
  return static_cast<float>(n);
}

/// Calls body(element) for each element of a window, in its order.
template <class Body>
HWY_INLINE void each_element(const Window& w, const Bins& bins, const Body& body) {
  for (std::size_t i = 0; i < bins[0].count; ++i)
    for (std::size_t j = 0; j < bins[1].count; ++j) {
      const std::size_t row =
          ((bins[0].first + i * bins[0].step) * w.in[1] + bins[1].first + j * bins[1].step) * w.in[2] + bins[2].first;
      for (std::size_t k = 0; k < bins[2].count; ++k) body(row + k * bins[2].step);
    }
}

/// Calls body(p, bins) for each window of a plane, ascending.
template <class Body>
HWY_INLINE void each_window(const Pool& pool, const Body& body) {
  const Window& w = pool.window;
  std::size_t p = 0;
  Bins bins;
  for (std::size_t z = 0; z < w.out[0]; ++z) {
    bins[0] = bin_of(pool, 0, z);
    for (std::size_t y = 0; y < w.out[1]; ++y) {
      bins[1] = bin_of(pool, 1, y);
      for (std::size_t x = 0; x < w.out[2]; ++x) {
        bins[2] = bin_of(pool, 2, x);
        body(p++, bins);
      }
    }
  }
}

/// The winner of one window.
struct Largest {
  float value = -std::numeric_limits<float>::infinity();
  std::size_t at = 0;
};
inline Largest largest_of(const Window& w, const Bins& bins, const float* plane) {
  Largest best;
  best.at = (bins[0].first * w.in[1] + bins[1].first) * w.in[2] + bins[2].first;
  each_element(w, bins, [&](std::size_t at) {
    if (plane[at] > best.value || plane[at] != plane[at]) best = {plane[at], at};
  });
  return best;
}
inline float sum_of(const Window& w, const Bins& bins, const float* plane) {
  float sum = 0.0f;
  each_element(w, bins, [&](std::size_t at) { sum += plane[at]; });
  return sum;
}

#if WEFT_ISA_IS_SCALAR

void max_pool(const Pool& pool, const ConstMatrixView& x, const MatrixView& y, const MatrixView& index) noexcept {
  WEFT_ISA_RAN();
  const Window& w = pool.window;
  for (std::size_t b = 0; b < x.rows; ++b)
    for (std::size_t c = 0; c < w.channels; ++c)
      each_window(pool, [&](std::size_t p, const Bins& bins) {
        const Largest best = largest_of(w, bins, x.row(b) + c * w.plane());
        y.row(b)[c * w.positions() + p] = best.value;
        if (index.data) index.row(b)[c * w.positions() + p] = static_cast<float>(best.at);
      });
}

void avg_pool(const Pool& pool, const ConstMatrixView& x, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  const Window& w = pool.window;
  for (std::size_t b = 0; b < x.rows; ++b)
    for (std::size_t c = 0; c < w.channels; ++c)
      each_window(pool, [&](std::size_t p, const Bins& bins) {
        y.row(b)[c * w.positions() + p] = sum_of(w, bins, x.row(b) + c * w.plane()) / divisor(pool, bins);
      });
}

#else

using V = FloatVec;
constexpr FloatTag kTag;

/// `lanes` elements from p on, Stride apart. Reads nothing past the last of them.
template <std::size_t Stride>
HWY_INLINE V load_strided(const float* p, std::size_t lanes) {
  if constexpr (Stride == 1) return lanes == kVectorLanes ? hn::LoadU(kTag, p) : LoadPartial(kTag, p, lanes);
  V low, high = hn::Zero(kTag);
  if (lanes == kVectorLanes) {
    low = hn::LoadU(kTag, p);
    high = hn::LoadU(kTag, p + kVectorLanes - 1);
  } else {
    const std::size_t span = 2 * lanes - 1;
    low = LoadPartial(kTag, p, std::min(span, kVectorLanes));
    if (span >= kVectorLanes) high = LoadPartial(kTag, p + kVectorLanes - 1, span - (kVectorLanes - 1));
  }
  // The upper half starts an element early, so as to end with the last: its elements stand in odd lanes.
  return hn::ConcatUpperLower(kTag, hn::ConcatOdd(kTag, high, high), hn::ConcatEven(kTag, low, low));
}

/// Calls some(x, lanes) for windows of a row that lie within it and one(x) for the others.
template <class Some, class One>
HWY_INLINE void each_of_row(const Pool& pool, const Some& some, const One& one) {
  const Window& w = pool.window;
  const std::size_t stride = w.stride[2], pad = w.padding[2], span = (w.kernel[2] - 1) * w.dilation[2] + 1;
  std::size_t begin = w.out[2], end = w.out[2];
  if (!pool.is_adaptive && stride <= 2 && w.in[2] + pad >= span) {
    begin = std::min(w.out[2], (pad + stride - 1) / stride);
    end = std::max(begin, std::min(w.out[2], (w.in[2] + pad - span) / stride + 1));
  }
  for (std::size_t x = 0; x < begin; ++x) one(x);
  for (std::size_t x = begin; x < end; x += kVectorLanes) some(x, std::min(kVectorLanes, end - x));
  for (std::size_t x = end; x < w.out[2]; ++x) one(x);
}

/// Calls body(row of windows, its first window, bins of the outer axes) for each row of a plane.
template <class Body>
HWY_INLINE void each_row(const Pool& pool, const Body& body) {
  const Window& w = pool.window;
  Bins bins;
  for (std::size_t z = 0; z < w.out[0]; ++z)
    for (std::size_t y = 0; y < w.out[1]; ++y) {
      bins[0] = bin_of(pool, 0, z);
      bins[1] = bin_of(pool, 1, y);
      body((z * w.out[1] + y) * w.out[2], bins);
    }
}

/// Calls body(element of window x's tap) for each tap of windows x, x + 1, ... of a row, all within the image.
template <class Body>
HWY_INLINE void each_tap(const Window& w, Bins bins, std::size_t x, const Body& body) {
  bins[2] = {x * w.stride[2] - w.padding[2], w.kernel[2], w.dilation[2], w.kernel[2]};
  each_element(w, bins, body);
}

template <std::size_t Stride>
HWY_INLINE void max_plane(const Pool& pool, const float* plane, float* y, float* index) {
  const Window& w = pool.window;
  const V lane_step = hn::Mul(hn::Iota(kTag, 0.0f), hn::Set(kTag, static_cast<float>(Stride)));
  each_row(pool, [&](std::size_t row, Bins bins) HWY_ATTR {
    const auto some = [&](std::size_t x, std::size_t lanes) HWY_ATTR {
      V best = hn::Set(kTag, -std::numeric_limits<float>::infinity()), at = hn::Zero(kTag);
      bool is_first = true;
      each_tap(w, bins, x, [&](std::size_t element) HWY_ATTR {
        const V v = load_strided<Stride>(plane + element, lanes);
        const V here = hn::Add(hn::Set(kTag, static_cast<float>(element)), lane_step);
        if (is_first) at = here;
        is_first = false;
        const auto wins = hn::Or(hn::Gt(v, best), hn::IsNaN(v));
        best = hn::IfThenElse(wins, v, best);
        at = hn::IfThenElse(wins, here, at);
      });
      StorePartial(best, kTag, y + row + x, lanes);
      if (index) StorePartial(at, kTag, index + row + x, lanes);
    };
    each_of_row(pool, some, [&](std::size_t x) HWY_ATTR {
      bins[2] = bin_of(pool, 2, x);
      const Largest best = largest_of(w, bins, plane);
      y[row + x] = best.value;
      if (index) index[row + x] = static_cast<float>(best.at);
    });
  });
}

template <std::size_t Stride>
HWY_INLINE void avg_plane(const Pool& pool, const float* plane, float* y) {
  const Window& w = pool.window;
  each_row(pool, [&](std::size_t row, Bins bins) HWY_ATTR {
    const auto some = [&](std::size_t x, std::size_t lanes) HWY_ATTR {
      V sum = hn::Zero(kTag);
      each_tap(w, bins, x,
               [&](std::size_t element) HWY_ATTR { sum = hn::Add(sum, load_strided<Stride>(plane + element, lanes)); });
      bins[2] = {0, w.kernel[2], 1, w.kernel[2]};
      StorePartial(hn::Div(sum, hn::Set(kTag, divisor(pool, bins))), kTag, y + row + x, lanes);
    };
    each_of_row(pool, some, [&](std::size_t x) HWY_ATTR {
      bins[2] = bin_of(pool, 2, x);
      y[row + x] = sum_of(w, bins, plane) / divisor(pool, bins);
    });
  });
}

void max_pool(const Pool& pool, const ConstMatrixView& x, const MatrixView& y, const MatrixView& index) noexcept {
  WEFT_ISA_RAN();
  const Window& w = pool.window;
  for (std::size_t b = 0; b < x.rows; ++b)
    for (std::size_t c = 0; c < w.channels; ++c)
      (w.stride[2] == 1 ? max_plane<1> : max_plane<2>)(pool, x.row(b) + c * w.plane(), y.row(b) + c * w.positions(),
                                                       index.data ? index.row(b) + c * w.positions() : nullptr);
}

void avg_pool(const Pool& pool, const ConstMatrixView& x, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  const Window& w = pool.window;
  for (std::size_t b = 0; b < x.rows; ++b)
    for (std::size_t c = 0; c < w.channels; ++c)
      (w.stride[2] == 1 ? avg_plane<1> : avg_plane<2>)(pool, x.row(b) + c * w.plane(), y.row(b) + c * w.positions());
}

#endif

// Scattered additions: one form for all.
void max_pool_backward(const Pool& pool, const ConstMatrixView& index, const ConstMatrixView& dy,
                       const MatrixView& dx) noexcept {
  WEFT_ISA_RAN();
  const Window& w = pool.window;
  for (std::size_t b = 0; b < dy.rows; ++b) {
    std::fill_n(dx.row(b), w.image(), 0.0f);
    for (std::size_t c = 0; c < w.channels; ++c) {
      const float *at = index.row(b) + c * w.positions(), *d = dy.row(b) + c * w.positions();
      float* plane = dx.row(b) + c * w.plane();
      for (std::size_t p = 0; p < w.positions(); ++p) plane[static_cast<std::uint32_t>(at[p])] += d[p];
    }
  }
}

void avg_pool_backward(const Pool& pool, const ConstMatrixView& dy, const MatrixView& dx) noexcept {
  WEFT_ISA_RAN();
  const Window& w = pool.window;
  for (std::size_t b = 0; b < dy.rows; ++b) {
    std::fill_n(dx.row(b), w.image(), 0.0f);
    for (std::size_t c = 0; c < w.channels; ++c) {
      float* plane = dx.row(b) + c * w.plane();
      each_window(pool, [&](std::size_t p, const Bins& bins) {
        const float part = dy.row(b)[c * w.positions() + p] / divisor(pool, bins);
        each_element(w, bins, [&](std::size_t at) { plane[at] += part; });
      });
    }
  }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kMaxPool = WEFT_DISPATCH(max_pool);
constexpr auto kMaxPoolBackward = WEFT_DISPATCH(max_pool_backward);
constexpr auto kAvgPool = WEFT_DISPATCH(avg_pool);
constexpr auto kAvgPoolBackward = WEFT_DISPATCH(avg_pool_backward);
}  // namespace

PoolBin bin_of(const Pool& pool, std::size_t axis, std::size_t p) noexcept {
  const Window& w = pool.window;
  const std::size_t n = w.in[axis], pad = w.padding[axis], step = w.dilation[axis];
  if (pool.is_adaptive) {
    const std::size_t m = w.out[axis], first = p * n / m, count = ((p + 1) * n + m - 1) / m - first;
    return {first, count, 1, count};
  }
  // Counted from the padded image's edge. Divisions are expensive, and steps seldom more than 1.
  const auto steps = [step](std::size_t length) { return step == 1 ? length : (length + step - 1) / step; };
  const std::size_t begin = p * w.stride[axis];
  const std::size_t missing = begin >= pad ? 0 : steps(pad - begin);
  const std::size_t end = std::min(steps(n + pad - begin), w.kernel[axis]);
  const std::size_t full = std::min(steps(n + 2 * pad - begin), w.kernel[axis]);
  return {begin + missing * step - pad, end > missing ? end - missing : 0, step, full};
}

void max_pool(const Pool& pool, const ConstMatrixView& x, const MatrixView& y, const MatrixView& index) noexcept {
  kMaxPool.get()(pool, x, y, index);
}
void max_pool_backward(const Pool& pool, const ConstMatrixView& index, const ConstMatrixView& dy,
                       const MatrixView& dx) noexcept {
  kMaxPoolBackward.get()(pool, index, dy, dx);
}
void avg_pool(const Pool& pool, const ConstMatrixView& x, const MatrixView& y) noexcept { kAvgPool.get()(pool, x, y); }
void avg_pool_backward(const Pool& pool, const ConstMatrixView& dy, const MatrixView& dx) noexcept {
  kAvgPoolBackward.get()(pool, dy, dx);
}

}  // namespace weft::kernels
#endif
