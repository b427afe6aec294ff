// SPDX-License-Identifier: Apache-2.0
// Tables behind a convolution's geometry (gpu/stream_window.cpp): where each window begins in a plane, and which of its
// taps lie inside; where each column stands behind that beginning, and its tap.
#ifndef WEFT_WINDOW_TABLES
#define WEFT_WINDOW_TABLES

#include "window.glsl"
#include "window_operands.inc"
WEFT_WINDOW_TABLE_NUMBERS(WEFT_NUMBER)

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer WindowTable { uvec4 at[]; };
WindowTable window_table(uint64_t geometry) { return WindowTable(geometry + kTablesAt); }
Words column_table(uint64_t geometry, uint positions) { return Words(geometry + kTablesAt + positions * 16ul); }

// A window: the element of its first tap, from the plane's first on, perhaps negative; bits of taps in the image.
struct WindowPlace {
  int begin;
  uvec2 taps;
};
WindowPlace window_place(WindowTable table, uint p) {
  uvec4 entry = table.at[p];
  return WindowPlace(int(entry.x), entry.yz);
}
// A column: elements behind the window's first tap, and its tap.
int offset_of(uint column) { return int(column) >> kTapBits; }
bool has_tap(uvec2 taps, uint column) {
  uint tap = column & (1u << kTapBits) - 1u;
  return ((tap < 32 ? taps.x : taps.y) >> (tap & 31u) & 1u) != 0u;
}

#endif  // WEFT_WINDOW_TABLES
