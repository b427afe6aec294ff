// SPDX-License-Identifier: Apache-2.0
// IEEE binary64 on integers, as x86 computes it with subnormals flushed: round to nearest even, tiny after rounding. So
// it needs no binary64 of the device, whose division would have to be mended and whose subnormals stay. Numbers are
// their bits. This text is C++ too: tests/gpu/binary64_test.cpp compares it with the CPU.
#ifndef WEFT_BINARY64
#define WEFT_BINARY64

#define kSign64 0x8000000000000000ul
#define kInfinity64 0x7ff0000000000000ul
#define kNan64 0x7ff8000000000000ul
#define kOne64 0x3ff0000000000000ul

int exponent64(uint64_t x) { return int(uint(x >> 52)) & 0x7ff; }
uint64_t significand64(uint64_t x) { return (x & 0xffffffffffffful) | 0x10000000000000ul; }
bool is_nan64(uint64_t x) { return (x & ~kSign64) > kInfinity64; }
uint64_t flushed64(uint64_t x) { return exponent64(x) == 0 ? x & kSign64 : x; }
int top_bit64(uint64_t x) {
  uint high = uint(x >> 32);
  return high != 0u ? 32 + int(findMSB(high)) : int(findMSB(uint(x)));
}

// m 2^(e - 63) with bit 63 of m set, and bit 0 standing for all that is below: rounded once.
uint64_t packed64(uint64_t sign, int e, uint64_t m) {
  uint64_t kept = m >> 11, rest = m & 0x7fful;
  if (rest > 0x400ul || (rest == 0x400ul && (kept & 1ul) != 0ul)) ++kept;
  if (kept == 0x20000000000000ul) {
    kept >>= 1;
    ++e;
  }
  if (e > 1023) return sign | kInfinity64;
  if (e < -1022) return sign;
  return sign | uint64_t(uint(e + 1023)) << 52 | (kept & 0xffffffffffffful);
}

// An integer of sign and magnitude.
uint64_t integer64(uint64_t sign, uint64_t magnitude) {
  if (magnitude == 0ul) return sign;
  int top = top_bit64(magnitude);
  return packed64(sign, top, magnitude << (63 - top));
}
uint64_t widened(uint word) {
  uint64_t sign = uint64_t(word >> 31) << 63;
  uint e = word >> 23 & 0xffu, rest = word & 0x7fffffu;
  if (e == 0u) return sign;
  if (e == 255u) return rest != 0u ? kNan64 : sign | kInfinity64;
  return sign | uint64_t(e + 896u) << 52 | uint64_t(rest) << 29;
}
// To binary32, as its bits.
uint narrowed(uint64_t x) {
  uint sign = uint(x >> 63) << 31;
  if (is_nan64(x)) return 0x7fc00000u;
  int e = exponent64(x) - 896;
  if (e < 0) return sign;
  uint64_t m = significand64(x), rest = m & 0x1ffffffful;
  uint kept = uint(m >> 29);
  if (rest > 0x10000000ul || (rest == 0x10000000ul && (kept & 1u) != 0u)) ++kept;
  if (kept == 0x1000000u) {
    kept >>= 1;
    ++e;
  }
  if (e >= 255) return sign | 0x7f800000u;
  if (e <= 0) return sign;
  return sign | uint(e) << 23 | (kept & 0x7fffffu);
}

// 128 bits, the upper half first.
struct Wide {
  uint64_t high, low;
};
Wide product128(uint64_t a, uint64_t b) {
  uint64_t mask = 0xfffffffful, al = a & mask, ah = a >> 32, bl = b & mask, bh = b >> 32;
  uint64_t low = al * bl, x = al * bh, y = ah * bl;
  uint64_t middle = (low >> 32) + (x & mask) + (y & mask);
  Wide p;
  p.low = middle << 32 | (low & mask);
  p.high = ah * bh + (x >> 32) + (y >> 32) + (middle >> 32);
  return p;
}
Wide shifted_left(Wide v, int n) {
  Wide s = v;
  if (n >= 64) {
    s.high = v.low << (n - 64);
    s.low = 0ul;
  } else if (n > 0) {
    s.high = v.high << n | v.low >> (64 - n);
    s.low = v.low << n;
  }
  return s;
}
// Bits shifted out stay in bit 0.
Wide shifted_right(Wide v, int n) {
  Wide s = v;
  uint64_t lost = 0ul;
  if (n >= 128) {
    lost = v.high | v.low;
    s.high = s.low = 0ul;
  } else if (n >= 64) {
    lost = v.low | (n > 64 ? v.high << (128 - n) : 0ul);
    s.low = v.high >> (n - 64);
    s.high = 0ul;
  } else if (n > 0) {
    lost = v.low << (64 - n);
    s.low = v.low >> n | v.high << (64 - n);
    s.high = v.high >> n;
  }
  if (lost != 0ul) s.low |= 1ul;
  return s;
}
bool is_below(Wide a, Wide b) { return a.high < b.high || (a.high == b.high && a.low < b.low); }

// v 2^scale, v not 0.
uint64_t rounded128(uint64_t sign, int scale, Wide v) {
  int top = v.high != 0ul ? 64 + top_bit64(v.high) : top_bit64(v.low);
  Wide s = shifted_left(v, 127 - top);
  return packed64(sign, scale + top, s.high | (s.low != 0ul ? 1ul : 0ul));
}

uint64_t fused64(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t sign = (a ^ b) & kSign64, sign_c = c & kSign64;
  int ea = exponent64(a), eb = exponent64(b), ec = exponent64(c);
  if (ea == 0x7ff || eb == 0x7ff || ec == 0x7ff) {
    if (is_nan64(a) || is_nan64(b) || is_nan64(c)) return kNan64;
    if (ea != 0x7ff && eb != 0x7ff) return c;
    if (ea == 0 || eb == 0 || (ec == 0x7ff && sign != sign_c)) return kNan64;
    return sign | kInfinity64;
  }
  if (ea == 0 || eb == 0) return ec != 0 ? c : sign & sign_c;
  // Both as numbers from 2^124 on, below 2^126, so that a sum fits; 2^20 and more below the last digit.
  Wide p = shifted_left(product128(significand64(a), significand64(b)), 20);
  int scale = ea + eb - 2170;
  if (ec == 0) return rounded128(sign, scale, p);
  Wide q;
  q.high = significand64(c) << 8;
  q.low = 0ul;
  int scale_c = ec - 1147;
  if (scale > scale_c) {
    q = shifted_right(q, scale - scale_c);
  } else {
    p = shifted_right(p, scale_c - scale);
    scale = scale_c;
  }
  Wide s;
  if (sign == sign_c) {
    s.low = p.low + q.low;
    s.high = p.high + q.high + (s.low < p.low ? 1ul : 0ul);
    return rounded128(sign, scale, s);
  }
  if (is_below(p, q)) {
    Wide swap = p;
    p = q;
    q = swap;
    sign = sign_c;
  }
  s.low = p.low - q.low;
  s.high = p.high - q.high - (p.low < q.low ? 1ul : 0ul);
  if ((s.high | s.low) == 0ul) return 0ul;
  return rounded128(sign, scale, s);
}
// -0 added to a product leaves its zeros their sign.
uint64_t mul64(uint64_t a, uint64_t b) { return fused64(a, b, kSign64); }
uint64_t add64(uint64_t a, uint64_t b) { return fused64(a, kOne64, b); }
uint64_t negated64(uint64_t x) { return x ^ kSign64; }

uint64_t divide64(uint64_t a, uint64_t b) {
  uint64_t sign = (a ^ b) & kSign64;
  int ea = exponent64(a), eb = exponent64(b);
  if (is_nan64(a) || is_nan64(b) || (ea == 0 && eb == 0) || (ea == 0x7ff && eb == 0x7ff)) return kNan64;
  if (ea == 0x7ff || eb == 0) return sign | kInfinity64;
  if (ea == 0 || eb == 0x7ff) return sign;
  uint64_t rest = significand64(a), by = significand64(b), quotient = 0ul;
  // 56 digits, the first of 2^0: 53 are kept, and the remainder is what is below them.
  for (int i = 0; i < 56; ++i) {
    quotient <<= 1;
    if (rest >= by) {
      rest -= by;
      quotient |= 1ul;
    }
    rest <<= 1;
  }
  int top = top_bit64(quotient);
  return packed64(sign, ea - eb + top - 55, quotient << (63 - top) | (rest != 0ul ? 1ul : 0ul));
}
// By a whole number below 2^10, not 0.
uint64_t divide64_by(uint64_t a, uint by) {
  int e = exponent64(a);
  if (e == 0) return a & kSign64;
  if (e == 0x7ff) return a;
  uint64_t m = significand64(a) << 11, quotient = m / uint64_t(by);
  int top = top_bit64(quotient);
  return packed64(a & kSign64, e - 1023 + top - 63,
                  quotient << (63 - top) | (quotient * uint64_t(by) != m ? 1ul : 0ul));
}

#endif  // WEFT_BINARY64
