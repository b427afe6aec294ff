// SPDX-License-Identifier: Apache-2.0
// kernels::Window and kernels::Pool, as gpu/stream_window.cpp fills them in.
#ifndef WEFT_WINDOW
#define WEFT_WINDOW

#include "memory.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Geometry {
#include "window_geometry.inc"
};

uint volume(uint e[3]) { return e[0] * e[1] * e[2]; }
uvec3 split(uint i, uint e[3]) { return uvec3(i / (e[1] * e[2]), i / e[2] % e[1], i % e[2]); }

// Index that tap t of window p reads within a plane; the plane's size when that is outside.
uint element_of(Geometry g, uvec3 p, uvec3 t) {
  uint at = 0;
  [[unroll]] for (uint a = 0; a < 3; ++a) {
    uint i = p[a] * g.stride[a] + t[a] * g.dilation[a];
    if (i < g.padding[a] || i - g.padding[a] >= g.image[a]) return volume(g.image);
    at = at * g.image[a] + (i - g.padding[a]);
  }
  return at;
}

// The elements of window p on an axis: (first, count, step, count with padding).
uvec4 bin_of(Geometry g, uint a, uint p) {
  uint n = g.image[a], pad = g.padding[a], step_ = g.dilation[a];
  if (g.adaptive != 0u) {
    uint m = g.windows[a], first = p * n / m, count = ((p + 1) * n + m - 1) / m - first;
    return uvec4(first, count, 1, count);
  }
  uint begin = p * g.stride[a];
  uint missing = begin >= pad ? 0 : (pad - begin + step_ - 1) / step_;
  uint end = min((n + pad - begin + step_ - 1) / step_, g.kernel[a]);
  uint full = min((n + 2 * pad - begin + step_ - 1) / step_, g.kernel[a]);
  return uvec4(begin + missing * step_ - pad, end > missing ? end - missing : 0, step_, full);
}
// The windows on an axis that may hold element i: from x to before y.
uvec2 windows_around(Geometry g, uint a, uint i) {
  uint n = g.image[a], m = g.windows[a];
  if (g.adaptive != 0u) return uvec2(i * m / n, min(m, ((i + 1) * m + n - 1) / n));
  uint reach = (g.kernel[a] - 1) * g.dilation[a], at = i + g.padding[a];
  uint first = at <= reach ? 0 : (at - reach + g.stride[a] - 1) / g.stride[a];
  return uvec2(first, min(m, at / g.stride[a] + 1));
}
bool holds(uvec4 bin, uint i) {
  return i >= bin.x && (i - bin.x) % bin.z == 0 && (i - bin.x) / bin.z < bin.y;
}

#endif  // WEFT_WINDOW
