// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), the scalar pass too.
// How convolutions reach their images: planes laid into margins, windows gathered into tiles and scattered back.

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

/// Copies `planes` planes into their margins, which hold zeros and stay.
HWY_INLINE void place_planes(const detail::Margins& m, const float* from, std::size_t planes, float* to) {
  std::size_t low[3], high[3];
  for (std::size_t a = 0; a < 3; ++a) {
    low[a] = m.offset[a] < 0 ? static_cast<std::size_t>(-m.offset[a]) : 0;
    const auto end = static_cast<std::ptrdiff_t>(m.extent[a]) - m.offset[a];
    high[a] = end < 0 ? 0 : std::min(m.source[a], static_cast<std::size_t>(end));
    if (low[a] >= high[a]) return;
  }
  const std::size_t n = high[2] - low[2];
  for (std::size_t c = 0; c < planes; ++c, from += Window::product(m.source), to += m.plane())
    for (std::size_t z = low[0]; z < high[0]; ++z)
      for (std::size_t y = low[1]; y < high[1]; ++y) {
        const auto row = (static_cast<std::ptrdiff_t>(z) + m.offset[0]) * static_cast<std::ptrdiff_t>(m.extent[1]) +
                         static_cast<std::ptrdiff_t>(y) + m.offset[1];
        const auto at =
            row * static_cast<std::ptrdiff_t>(m.extent[2]) + static_cast<std::ptrdiff_t>(low[2]) + m.offset[2];
        copy_floats(from + (z * m.source[1] + y) * m.source[2] + low[2], to + at, n);
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

/// Adds columns [k, k + rows) of one tile to the image, the last first: for every element windows then come in
/// ascending order.
HWY_INLINE void scatter_tile(const Window& w, const detail::Runs& runs, const float* from, std::size_t k,
                             std::size_t rows, float* group_image) {
  const std::size_t stride = w.stride[2], taps = w.taps();
  for (std::size_t r = rows; r-- > 0;) {
    float* plane = group_image + (k + r) / taps * w.plane();
    each_run_of_tap(
        w, runs, detail::tap_steps(w, (k + r) % taps),
        [&](std::size_t lane, std::size_t, std::size_t element, std::size_t before, std::size_t there) HWY_ATTR {
          const float* part = from + r * kConvolveTile + lane + before;
          float* to = plane + element;
          if (stride == 1)
            ForEachVector(there, [&](auto load, auto store) HWY_ATTR { store(hn::Add(load(to), load(part)), to); });
          else
            for (std::size_t i = 0; i < there; ++i) to[i * stride] += part[i];
        });
  }
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
