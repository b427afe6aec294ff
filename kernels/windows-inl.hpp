// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), the scalar pass too.
// Access of convolutions to their images: planes laid into margins, windows gathered into tiles and scattered back.

#if defined(WEFT_KERNELS_WINDOWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_WINDOWS_INL
#undef WEFT_KERNELS_WINDOWS_INL
#else
#define WEFT_KERNELS_WINDOWS_INL
#endif

#include "kernels/internal/convolve_plan.hpp"
#include "kernels/rows-inl.hpp"
#include "kernels/views.hpp"
#include "kernels/window.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

#if !WEFT_ISA_IS_SCALAR

using detail::kConvolveTile;

HWY_INLINE void copy_floats(const float* from, float* to, std::size_t n) {
  ForEachVector(n, [&](auto load, auto store) HWY_ATTR { store(load(from), to); });
}
HWY_INLINE void zero_floats(float* to, std::size_t n) {
  ForEachVector(n, [&](auto, auto store) HWY_ATTR { store(hn::Zero(FloatTag()), to); });
}

/// Every `stride`-th float.
HWY_INLINE void copy_strided(const float* from, std::size_t stride, float* to, std::size_t n) {
  if (stride == 1) return copy_floats(from, to, n);
  std::size_t i = 0;
  if (stride == 2) {
    const FloatTag d;
    // The second vector ends with the last element: its elements stand in odd lanes.
    for (; i + kVectorLanes <= n; i += kVectorLanes) {
      const FloatVec low = hn::LoadU(d, from + 2 * i), high = hn::LoadU(d, from + 2 * i + kVectorLanes - 1);
      hn::StoreU(hn::ConcatUpperLower(d, hn::ConcatOdd(d, high, high), hn::ConcatEven(d, low, low)), d, to + i);
    }
  }
  for (; i < n; ++i) to[i] = from[i * stride];
}

/// Copies `planes` planes into their margins, which hold zeros and stay.
HWY_INLINE void place_planes(const detail::Margins& m, const Window::Extents& strides, const float* from,
                             std::size_t planes, float* to) {
  struct Range {
    std::size_t first, end;
  };
  // Places of a phase that hold elements.
  const auto range = [&](std::size_t a, std::size_t phase) {
    const auto s = static_cast<std::ptrdiff_t>(strides[a]), p = static_cast<std::ptrdiff_t>(phase);
    const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(m.source[a]) - 1 + m.offset[a] - p;
    const std::ptrdiff_t first = m.offset[a] > p ? (m.offset[a] - p + s - 1) / s : 0;
    const std::ptrdiff_t end = last < 0 ? 0 : std::min(last / s + 1, static_cast<std::ptrdiff_t>(m.extent[a]));
    return Range{static_cast<std::size_t>(first), static_cast<std::size_t>(std::max(first, end))};
  };
  // The element of a phase's place, from the first.
  const auto element = [&](std::size_t a, std::size_t phase, std::size_t place) {
    return static_cast<std::size_t>(static_cast<std::ptrdiff_t>(place * strides[a] + phase) - m.offset[a]);
  };
  const std::size_t plane = Window::product(m.source), row_step = strides[1] * m.source[2];
  for (std::size_t i = 0; i < Window::product(m.phases); ++i, to += Window::product(m.extent)) {
    const Window::Extents phase = Window::split(i, m.phases);
    const Range z = range(0, phase[0]), y = range(1, phase[1]), x = range(2, phase[2]);
    if (x.first == x.end || y.first == y.end) continue;
    const std::size_t count = x.end - x.first;
    for (std::size_t c = 0; c < planes; ++c)
      for (std::size_t k = z.first; k < z.end; ++k) {
        const float* source = from + c * plane +
                              (element(0, phase[0], k) * m.source[1] + element(1, phase[1], y.first)) * m.source[2] +
                              element(2, phase[2], x.first);
        float* target = to + c * m.plane() + m.distance({k, y.first, x.first});
        for (std::size_t j = y.first; j < y.end; ++j, source += row_step, target += m.extent[2])
          copy_strided(source, strides[2], target, count);
      }
  }
}

/// Calls `body(lane, count, element, missing before, there)` for the runs of one tap within a tile: of `count` windows
/// along the last axis, those from `before` on for `there` windows read from the plane, the first of them `element`.
template <class Body>
HWY_INLINE void each_run_of_tap(const Window& w, const detail::Runs& runs, const Window::Extents& steps,
                                const Body& body) {
  const std::size_t stride = w.stride[2];
  for (std::size_t i = 0; i < runs.count; ++i) {
    // A run may go over several rows of windows.
    for (std::size_t done = 0; done < runs.run[i].count;) {
      const Window::Extents p = Window::split(runs.run[i].to + done, w.out);
      const std::size_t count = std::min<std::size_t>(runs.run[i].count - done, w.out[2] - p[2]);
      const std::size_t z = p[0] * w.stride[0] + steps[0], y = p[1] * w.stride[1] + steps[1],
                        x = p[2] * stride + steps[2];
      std::size_t before = count, there = 0, element = 0;
      if (z >= w.padding[0] && z - w.padding[0] < w.in[0] && y >= w.padding[1] && y - w.padding[1] < w.in[1]) {
        before = x >= w.padding[2] ? 0 : std::min(count, (w.padding[2] - x + stride - 1) / stride);
        const std::size_t end = w.in[2] + w.padding[2];  // first x past the plane
        const std::size_t until = x >= end ? 0 : std::min(count, (end - x + stride - 1) / stride);
        there = until > before ? until - before : 0;
        if (there > 0)
          element = ((z - w.padding[0]) * w.in[1] + y - w.padding[1]) * w.in[2] + x + before * stride - w.padding[2];
      }
      body(runs.run[i].lane + done, count, element, before, there);
      done += count;
    }
  }
}

/// gather_windows for at most one tile.
HWY_INLINE void gather_tile(const Window& w, std::size_t group, const float* image, std::size_t first,
                            std::size_t count, float* to, std::size_t to_stride) {
  const detail::Runs runs(w.out, w.out, first, count);
  const std::size_t stride = w.stride[2];
  for (std::size_t t = 0; t < w.taps(); ++t) {
    const float* from = image + group * w.group_channels() * w.plane();
    each_run_of_tap(w, runs, detail::tap_steps(w, t),
                    [&](std::size_t lane, std::size_t n, std::size_t element, std::size_t before, std::size_t there)
                        HWY_ATTR {
                          for (std::size_t c = 0; c < w.group_channels(); ++c) {
                            float* row = to + (c * w.taps() + t) * to_stride + lane;
                            const float* source = from + c * w.plane() + element;
                            if (there < n) zero_floats(row, n);
                            if (stride == 1)
                              copy_floats(source, row + before, there);
                            else
                              for (std::size_t i = 0; i < there; ++i) row[before + i] = source[i * stride];
                          }
                        });
  }
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
