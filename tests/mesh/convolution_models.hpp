// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "layer_models.hpp"
#include <cstddef>
#include <vector>

/// Convolutions in float64, from signed coordinates.
namespace weft::mesh::models {

/// Of a convolution from `in` (channels and three extents) to `out` channels.
struct Slide {
  int in[4] = {1, 1, 1, 1}, out = 1, kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0};
  int dilation[3] = {1, 1, 1}, output_padding[3] = {0, 0, 0}, groups = 1;

  int windows(int a) const { return (in[a + 1] + 2 * padding[a] - dilation[a] * (kernel[a] - 1) - 1) / stride[a] + 1; }
  int spread(int a) const {
    return (in[a + 1] - 1) * stride[a] - 2 * padding[a] + dilation[a] * (kernel[a] - 1) + output_padding[a] + 1;
  }
};

/// Calls body(window, tap, place) for each window and tap that reads within an image of these extents, row-major.
template <class Body>
void each_meeting(const Slide& s, const int (&image)[3], const int (&windows)[3], const Body& body) {
  const auto inside = [&](int a, int p, int t) {
    const int i = p * s.stride[a] + t * s.dilation[a] - s.padding[a];
    return i >= 0 && i < image[a] ? i : -1;
  };
  int window = 0;
  for (int z = 0; z < windows[0]; ++z)
    for (int y = 0; y < windows[1]; ++y)
      for (int x = 0; x < windows[2]; ++x, ++window) {
        int tap = 0;
        for (int i = 0; i < s.kernel[0]; ++i)
          for (int j = 0; j < s.kernel[1]; ++j)
            for (int k = 0; k < s.kernel[2]; ++k, ++tap) {
              const int at[3] = {inside(0, z, i), inside(1, y, j), inside(2, x, k)};
              if (at[0] >= 0 && at[1] >= 0 && at[2] >= 0)
                body(window, tap, (at[0] * image[1] + at[1]) * image[2] + at[2]);
            }
      }
}

inline Model convolution(Slide s, bool is_transposed, bool has_bias, Activation activation) {
  return [=](const std::vector<Vector>& p, const Vector& x, const Vector&) {
    const int given[3] = {s.in[1], s.in[2], s.in[3]};
    int made[3];
    for (int a = 0; a < 3; ++a) made[a] = is_transposed ? s.spread(a) : s.windows(a);
    const int from = given[0] * given[1] * given[2], to = made[0] * made[1] * made[2];
    const int taps = s.kernel[0] * s.kernel[1] * s.kernel[2];
    const int in_group = s.in[0] / s.groups, out_group = s.out / s.groups;
    Outcome outcome;
    outcome.y.resize(static_cast<std::size_t>(s.out * to));
    for (int o = 0; o < s.out; ++o)
      for (int c = 0; c < in_group; ++c) {
        const int channel = o / out_group * in_group + c;
        const auto add = [&](int y, int tap, int read) {
          // [out, in / groups, taps], or [in, out / groups, taps].
          const int row = is_transposed ? channel * out_group + o % out_group : o * in_group + c;
          outcome.y[static_cast<std::size_t>(o * to + y)] +=
              p[0][static_cast<std::size_t>(row * taps + tap)] * x[static_cast<std::size_t>(channel * from + read)];
        };
        if (is_transposed)
          each_meeting(s, made, given, [&](int window, int tap, int place) { add(place, tap, window); });
        else
          each_meeting(s, given, made, [&](int window, int tap, int place) { add(window, tap, place); });
      }
    for (std::size_t i = 0; i < outcome.y.size(); ++i)
      outcome.y[i] = activate(activation, outcome.y[i] + (has_bias ? p[1][i / static_cast<std::size_t>(to)] : 0.0));
    return outcome;
  };
}

}  // namespace weft::mesh::models
