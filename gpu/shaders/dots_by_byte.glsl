// SPDX-License-Identifier: Apache-2.0
// Sums of four products of bytes, for devices without packed dot products.
#ifndef WEFT_DOTS_BY_BYTE
#define WEFT_DOTS_BY_BYTE
#extension GL_EXT_control_flow_attributes : require

int signed_dot(uint a, uint b) {
  int sum = 0;
  [[unroll]] for (int i = 0; i < 32; i += 8) sum += bitfieldExtract(int(a), i, 8) * bitfieldExtract(int(b), i, 8);
  return sum;
}
// b's bytes are unsigned.
int mixed_dot(uint a, uint b) {
  int sum = 0;
  [[unroll]] for (int i = 0; i < 32; i += 8) sum += bitfieldExtract(int(a), i, 8) * int(bitfieldExtract(b, i, 8));
  return sum;
}

#endif  // WEFT_DOTS_BY_BYTE
