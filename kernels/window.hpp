// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>

namespace weft::kernels {

/// Windows that slide over an image of up to three spatial axes (depth, height, width; axes that do not exist have
/// extent 1). Window `p` stands at p[a] * stride[a] - padding[a] on axis a, its tap `t` is t[a] * dilation[a] further;
/// an element outside of the image is 0. Plain numbers: a shader takes them as they are.
///
/// An image is [channels, in...], row-major; windows and taps are numbered row-major too. Columns of a group are
/// (channel, tap), the channel outermost, as in PyTorch's weights.
struct Window {
  static constexpr std::size_t kAxes = 3;
  using Extents = std::array<std::size_t, kAxes>;

  std::size_t channels = 1, groups = 1;
  Extents in{1, 1, 1};   // the image
  Extents out{1, 1, 1};  // windows along each axis
  Extents kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};

  static constexpr std::size_t product(const Extents& e) noexcept { return e[0] * e[1] * e[2]; }
  /// Elements of one channel.
  constexpr std::size_t plane() const noexcept { return product(in); }
  constexpr std::size_t image() const noexcept { return channels * plane(); }
  constexpr std::size_t positions() const noexcept { return product(out); }
  constexpr std::size_t taps() const noexcept { return product(kernel); }
  constexpr std::size_t group_channels() const noexcept { return channels / groups; }
  constexpr std::size_t columns() const noexcept { return group_channels() * taps(); }
  /// Windows that start at every element of the (padded) image.
  constexpr bool is_dense() const noexcept { return stride == Extents{1, 1, 1}; }

  static constexpr Extents split(std::size_t i, const Extents& e) noexcept {
    return {i / (e[1] * e[2]), i / e[2] % e[1], i % e[2]};
  }
  /// Index that tap `t` of window `p` reads within a plane, or `plane()` when it is outside.
  constexpr std::size_t element(const Extents& p, const Extents& t) const noexcept {
    std::size_t at = 0;
    for (std::size_t a = 0; a < kAxes; ++a) {
      const std::size_t i = p[a] * stride[a] + t[a] * dilation[a];
      if (i < padding[a] || i - padding[a] >= in[a]) return plane();
      at = at * in[a] + (i - padding[a]);
    }
    return at;
  }
};

}  // namespace weft::kernels
