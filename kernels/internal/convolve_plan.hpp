// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/window.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::kernels::detail {

/// Windows of one tile.
inline constexpr std::size_t kConvolveTile = 64;

constexpr std::size_t whole_lines(std::size_t floats) noexcept { return (floats + 15) / 16 * 16; }

/// Floats of so many segments (convolve.cpp).
constexpr std::size_t segment_floats(std::size_t count) noexcept { return whole_lines(8 * count); }

/// A plane laid into a larger (or cut to a smaller) one, so that windows read at fixed distances from their place and
/// never ask whether an element exists. On the last axis, the margin after a row is the one before the next. Where
/// windows are a stride apart, every stride-th element stands beside the next: a plane then is one of `phases` each.
struct Margins {
  Window::Extents source, extent, phases{1, 1, 1};
  std::array<std::ptrdiff_t, Window::kAxes> offset;  // of the source's first element, before it is split into phases
  std::size_t shared = 0;                            // what the last row reads past its plane

  bool are_none() const noexcept {
    return source == extent && phases == Window::Extents{1, 1, 1} && offset == decltype(offset){};
  }
  /// Floats of `planes` planes, one behind the other, and of what tiles read past them.
  std::size_t size(std::size_t planes) const noexcept { return planes * plane() + shared + kConvolveTile; }
  std::size_t plane() const noexcept { return Window::product(phases) * Window::product(extent); }
  std::size_t distance(const Window::Extents& at) const noexcept {
    return (at[0] * extent[1] + at[1]) * extent[2] + at[2];
  }
  /// Takes what rows of the last axis need not have twice. Windows along a row stay within it: there are extent -
  /// reach.
  void share(std::size_t reach) noexcept {
    const std::ptrdiff_t after =
        static_cast<std::ptrdiff_t>(extent[2]) - offset[2] - static_cast<std::ptrdiff_t>(source[2]);
    if (offset[2] < 0 || after < 0) return;
    shared = std::min(reach, static_cast<std::size_t>(std::min(offset[2], after)));
    extent[2] -= shared;
  }
};

/// The image as windows read it.
inline Margins image_margins(const Window& w) noexcept {
  Margins m{w.in, w.out, {}, {}};
  for (std::size_t a = 0; a < Window::kAxes; ++a) {
    const std::size_t reach = (w.kernel[a] - 1) * w.dilation[a];
    m.extent[a] += reach / w.stride[a];
    m.phases[a] = std::min(w.stride[a], reach + 1);
    m.offset[a] = static_cast<std::ptrdiff_t>(w.padding[a]);
  }
  if (w.stride[2] == 1) m.share((w.kernel[2] - 1) * w.dilation[2]);
  return m;
}
/// Distance from a window's place to the element that a tap reads.
inline std::size_t tap_distance(const Window& w, const Margins& m, std::size_t tap) noexcept {
  Window::Extents t = Window::split(tap, w.kernel), phase;
  for (std::size_t a = 0; a < Window::kAxes; ++a) {
    phase[a] = t[a] * w.dilation[a] % w.stride[a];
    t[a] = t[a] * w.dilation[a] / w.stride[a];
  }
  const std::size_t index = (phase[0] * m.phases[1] + phase[1]) * m.phases[2] + phase[2];
  return index * Window::product(m.extent) + m.distance(t);
}
inline Window::Extents tap_steps(const Window& w, std::size_t tap) noexcept {
  Window::Extents t = Window::split(tap, w.kernel);
  for (std::size_t a = 0; a < Window::kAxes; ++a) t[a] *= w.dilation[a];
  return t;
}

/// The windows as the image gathers from them. Element i of an axis is met by taps of one phase only, (i + padding) %
/// stride, and by window (i + padding) / stride at most: places of a phase are these numbers.
inline Margins position_margins(const Window& w) noexcept {
  Margins m{w.out, {}, {1, 1, 1}, {}};
  for (std::size_t a = 0; a < Window::kAxes; ++a) {
    const std::size_t reach = (w.kernel[a] - 1) * w.dilation[a] / w.stride[a], first = w.padding[a] / w.stride[a];
    m.extent[a] = (w.in[a] - 1 + w.padding[a]) / w.stride[a] - first + 1 + reach;
    m.offset[a] = static_cast<std::ptrdiff_t>(reach) - static_cast<std::ptrdiff_t>(first);
  }
  m.share((w.kernel[2] - 1) * w.dilation[2] / w.stride[2]);
  return m;
}
/// The elements of one phase: on each axis `count`, `stride` apart from `element` on, whose first place is `place`.
struct Phase {
  Phase(const Window& w, const Window::Extents& of) noexcept : phase(of) {
    for (std::size_t a = 0; a < Window::kAxes; ++a) {
      const std::size_t s = w.stride[a], pad = w.padding[a], last = w.in[a] - 1 + pad;
      const std::size_t low = of[a] >= pad ? 0 : (pad - of[a] + s - 1) / s;
      count[a] = last < of[a] ? 0 : std::max((last - of[a]) / s + 1, low) - low;
      place[a] = low - pad / s;
      element[a] = count[a] > 0 ? low * s + of[a] - pad : 0;
    }
  }
  bool is_empty() const noexcept { return Window::product(count) == 0; }
  Window::Extents phase, count, place, element;
};

/// Consecutive lanes that are consecutive elements.
struct Run {
  std::uint32_t lane, count;
  std::size_t to;
};
/// Of lanes [first, first + count), count <= kConvolveTile, of a grid `extent`: those that lie within `inner`, and
/// their row-major places there.
struct Runs {
  Runs(const Window::Extents& extent, const Window::Extents& inner, std::size_t first, std::size_t lanes) noexcept {
    for (std::size_t row = first / extent[2]; row * extent[2] < first + lanes; ++row) {
      const std::size_t y = row % extent[1], z = row / extent[1];
      if (y >= inner[1] || z >= inner[0]) continue;
      const std::size_t begin = std::max(first, row * extent[2]),
                        end = std::min(first + lanes, row * extent[2] + inner[2]);
      if (begin >= end) continue;
      const std::size_t to = (z * inner[1] + y) * inner[2] + begin - row * extent[2];
      if (count > 0 && run[count - 1].lane + run[count - 1].count == begin - first)
        run[count - 1].count += static_cast<std::uint32_t>(end - begin);
      else
        run[count++] = {static_cast<std::uint32_t>(begin - first), static_cast<std::uint32_t>(end - begin), to};
    }
  }
  std::size_t first() const noexcept { return run[0].to; }
  std::size_t size() const noexcept { return count == 0 ? 0 : run[count - 1].to + run[count - 1].count - run[0].to; }
  std::array<Run, kConvolveTile> run;
  std::size_t count = 0;
};

/// Places from 0 to the last one of `inner` within a grid `extent`.
inline std::size_t grid_lanes(const Window::Extents& extent, const Window::Extents& inner) noexcept {
  return ((inner[0] - 1) * extent[1] + inner[1] - 1) * extent[2] + inner[2];
}

}  // namespace weft::kernels::detail
