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

/// A plane laid into a larger (or cut to a smaller) one, so that windows of stride 1 read at fixed distances from their
/// place and never ask whether an element exists. On the last axis, the margin after a row is the one before the next.
struct Margins {
  Margins(const Window::Extents& from, const Window::Extents& all,
          const std::array<std::ptrdiff_t, Window::kAxes>& before, std::size_t reach) noexcept
      : source(from), extent(all), offset(before) {
    const std::ptrdiff_t after = static_cast<std::ptrdiff_t>(all[2]) - before[2] - static_cast<std::ptrdiff_t>(from[2]);
    if (before[2] < 0 || after < 0) return;
    // Windows along a row stay within it: there are extent - reach of them.
    shared = std::min(reach, static_cast<std::size_t>(std::min(before[2], after)));
    extent[2] -= shared;
  }
  Window::Extents source, extent;
  std::array<std::ptrdiff_t, Window::kAxes> offset;  // of the source's first element
  std::size_t shared = 0;                            // what the last row reads past its plane

  bool are_none() const noexcept { return source == extent && offset == decltype(offset){}; }
  /// Floats of `planes` planes, one behind the other, and of what tiles read past them.
  std::size_t size(std::size_t planes) const noexcept { return planes * plane() + shared + kConvolveTile; }
  std::size_t plane() const noexcept { return Window::product(extent); }
  std::size_t distance(const Window::Extents& at) const noexcept {
    return (at[0] * extent[1] + at[1]) * extent[2] + at[2];
  }
};

inline Window::Extents reach(const Window& w) noexcept {
  Window::Extents e;
  for (std::size_t a = 0; a < Window::kAxes; ++a) e[a] = (w.kernel[a] - 1) * w.dilation[a];
  return e;
}
/// The image as windows read it, or their positions as the image gathers from them.
inline Margins image_margins(const Window& w) noexcept {
  Window::Extents extent = reach(w);
  std::array<std::ptrdiff_t, Window::kAxes> offset;
  for (std::size_t a = 0; a < Window::kAxes; ++a) {
    extent[a] += w.out[a];
    offset[a] = static_cast<std::ptrdiff_t>(w.padding[a]);
  }
  return {w.in, extent, offset, reach(w)[2]};
}
inline Margins position_margins(const Window& w) noexcept {
  Window::Extents extent = reach(w);
  std::array<std::ptrdiff_t, Window::kAxes> offset;
  for (std::size_t a = 0; a < Window::kAxes; ++a) {
    offset[a] = static_cast<std::ptrdiff_t>(extent[a]) - static_cast<std::ptrdiff_t>(w.padding[a]);
    extent[a] += w.in[a];
  }
  return {w.out, extent, offset, reach(w)[2]};
}
inline Window::Extents tap_steps(const Window& w, std::size_t tap) noexcept {
  Window::Extents t = Window::split(tap, w.kernel);
  for (std::size_t a = 0; a < Window::kAxes; ++a) t[a] *= w.dilation[a];
  return t;
}

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
