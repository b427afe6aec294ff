// SPDX-License-Identifier: Apache-2.0
// Philox 4x32-10 (core/philox.hpp): four random words of a counter and a key.
#ifndef WEFT_PHILOX
#define WEFT_PHILOX

uvec4 philox(uvec4 c, uvec2 k) {
  for (uint round_ = 0; round_ < 10; ++round_) {
    uint high0, low0, high1, low1;
    umulExtended(0xD2511F53u, c.x, high0, low0);
    umulExtended(0xCD9E8D57u, c.z, high1, low1);
    c = uvec4(high1 ^ c.y ^ k.x, low1, high0 ^ c.w ^ k.y, low0);
    k += uvec2(0x9E3779B9u, 0xBB67AE85u);
  }
  return c;
}

#endif  // WEFT_PHILOX
