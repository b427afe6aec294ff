// SPDX-License-Identifier: Apache-2.0

#include "formats/gguf/internal/gguf_encoders.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

// docs/formats/gguf.md, "Encoders": each operation is one of float32 in the order written, sums in ascending order.
namespace weft::formats::gguf {
namespace {

using Codes256 = std::array<std::uint8_t, 256>;
constexpr std::size_t kMostInGroup = 32;
constexpr float kNothing = 1e-15f;

/// Codes, scale and minimum of a group: x is about scale * code - min.
struct Fit {
  std::array<std::uint8_t, kMostInGroup> codes{};
  float scale = 0.0f, min = 0.0f;
};
struct Search {
  int top;
  float first, step;
  int tries;
  bool is_absolute;  // errors as they are, not squared
};

float error_of(const Fit& fit, float low, Values x, Values weights, bool is_absolute) {
  float sum = 0.0f;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float error = fit.scale * static_cast<float>(fit.codes[i]) + low - x[i];
    sum += weights[i] * (is_absolute ? std::abs(error) : error * error);
  }
  return sum;
}

void round_codes(Fit& fit, float scale, float low, Values x, int top) {
  for (std::size_t i = 0; i < x.size(); ++i)
    fit.codes[i] = static_cast<std::uint8_t>(nearest(scale * (x[i] - low), 0, top));
}

/// Scale and minimum of least weighted error for the codes that a rising series of scales gives.
Fit fit_group(Values x, Values weights, const Search& search) {
  float low = std::min(0.0f, *std::min_element(x.begin(), x.end()));
  const float high = *std::max_element(x.begin(), x.end());
  float sum_w = 0.0f, sum_x = 0.0f;
  for (std::size_t i = 0; i < x.size(); ++i) sum_w += weights[i], sum_x += weights[i] * x[i];
  Fit best;
  if (high == low) {
    best.min = -low;
    return best;
  }
  const float top = static_cast<float>(search.top);
  const float first = top / (high - low);
  best.scale = 1.0f / first;
  round_codes(best, first, low, x, search.top);
  float least = error_of(best, low, x, weights, search.is_absolute);
  for (int t = 0; t <= search.tries; ++t) {
    Fit next;
    round_codes(next, (search.first + search.step * static_cast<float>(t) + top) / (high - low), low, x, search.top);
    float sum_l = 0.0f, sum_l2 = 0.0f, sum_xl = 0.0f;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float code = static_cast<float>(next.codes[i]), weighted = weights[i] * code;
      sum_l += weighted;
      sum_l2 += weighted * code;
      sum_xl += weighted * x[i];
    }
    const float determinant = sum_w * sum_l2 - sum_l * sum_l;
    if (!(determinant > 0.0f)) continue;
    next.scale = (sum_w * sum_xl - sum_x * sum_l) / determinant;
    float min = (sum_l2 * sum_x - sum_l * sum_xl) / determinant;
    if (min > 0.0f) min = 0.0f, next.scale = sum_xl / sum_l2;
    const float error = error_of(next, min, x, weights, search.is_absolute);
    if (error < least) least = error, best = next, low = min;
  }
  best.min = -low;
  return best;
}

/// A group's scale or minimum as a share of the largest one; what is below zero wraps, as a byte does.
unsigned share(float inverse, float value, int most) {
  return std::min(static_cast<unsigned>(nearest(inverse * value, -32'768, 32'767)) & 255u, static_cast<unsigned>(most));
}

struct Groups {
  std::vector<Fit> fits;
  float scale = 0.0f, min = 0.0f;  // the largest ones
};
template <class Weigh>
Groups fit_groups(Values x, std::size_t size, const Search& search, Weigh weigh) {
  Groups groups;
  for (std::size_t at = 0; at < x.size(); at += size) {
    const Values part = x.subspan(at, size);
    std::array<float, kMostInGroup> weights{};
    weigh(part, weights);
    groups.fits.push_back(fit_group(part, Values(weights).first(size), search));
    groups.scale = std::max(groups.scale, groups.fits.back().scale);
    groups.min = std::max(groups.min, groups.fits.back().min);
  }
  return groups;
}

/// Codes again, with the scales that the block will have.
void round_group(std::uint8_t* codes, Values x, const Fit& fit, float scale, float min, int top) {
  for (std::size_t i = 0; i < x.size(); ++i)
    codes[i] = scale != 0.0f ? static_cast<std::uint8_t>(nearest((x[i] + min) / scale, 0, top)) : fit.codes[i];
}

/// The first 16 bytes of q4_K and q5_K: d, dmin and eight pairs of 6 bits. Returns the codes.
Codes256 eight_groups(Values x, const Search& search, std::byte* block) {
  const Groups groups = fit_groups(x, 32, search, [](Values part, std::array<float, kMostInGroup>& weights) {
    float sum = 0.0f;
    for (const float value : part) sum += value * value;
    const float mean = std::sqrt(sum / 32.0f);
    for (std::size_t i = 0; i < 32; ++i) weights[i] = mean + std::abs(part[i]);
  });
  const float inverse_scale = groups.scale > 0.0f ? 63.0f / groups.scale : 0.0f;
  const float inverse_min = groups.min > 0.0f ? 63.0f / groups.min : 0.0f;
  const float d = put_half(block, groups.scale / 63.0f), dmin = put_half(block + 2, groups.min / 63.0f);
  std::array<unsigned, 12> packed{};
  Codes256 codes{};
  for (std::size_t j = 0; j < 8; ++j) {
    const unsigned scale = share(inverse_scale, groups.fits[j].scale, 63);
    const unsigned min = share(inverse_min, groups.fits[j].min, 63);
    if (j < 4) {
      packed[j] |= scale;
      packed[j + 4] |= min;
    } else {
      packed[j + 4] |= (scale & 15) | (min & 15) << 4;
      packed[j - 4] |= scale >> 4 << 6;
      packed[j] |= min >> 4 << 6;
    }
    round_group(codes.data() + 32 * j, x.subspan(32 * j, 32), groups.fits[j], d * static_cast<float>(scale),
                dmin * static_cast<float>(min), search.top);
  }
  for (std::size_t i = 0; i < packed.size(); ++i) block[4 + i] = static_cast<std::byte>(packed[i]);
  return codes;
}

void put_half_bytes(std::byte* at, const Codes256& codes) {
  for (std::size_t i = 0; i < 128; ++i) {
    const std::size_t first = 64 * (i / 32) + i % 32;
    at[i] = static_cast<std::byte>((codes[first] & 15) | (codes[first + 32] & 15) << 4);
  }
}

void q4_k(Values x, std::byte* block) {
  put_half_bytes(block + 16, eight_groups(x, {15, -1.0f, 0.1f, 20, false}, block));
}
void q5_k(Values x, std::byte* block) {
  const Codes256 codes = eight_groups(x, {31, -0.5f, 0.1f, 15, false}, block);
  for (std::size_t i = 0; i < 32; ++i) {
    unsigned bits = 0;
    for (std::size_t g = 0; g < 8; ++g) bits |= unsigned{codes[32 * g + i]} >> 4 << g;
    block[16 + i] = static_cast<std::byte>(bits);
  }
  put_half_bytes(block + 48, codes);
}

void q2_k(Values x, std::byte* block) {
  const Groups groups =
      fit_groups(x, 16, {3, -0.5f, 0.1f, 15, true}, [](Values part, std::array<float, kMostInGroup>& weights) {
        for (std::size_t i = 0; i < 16; ++i) weights[i] = std::abs(part[i]);
      });
  const float inverse_scale = groups.scale > 0.0f ? 15.0f / groups.scale : 0.0f;
  const float inverse_min = groups.min > 0.0f ? 15.0f / groups.min : 0.0f;
  const float d = put_half(block + 80, groups.scale / 15.0f), dmin = put_half(block + 82, groups.min / 15.0f);
  Codes256 codes{};
  for (std::size_t j = 0; j < 16; ++j) {
    const Fit& fit = groups.fits[j];
    const auto scale = static_cast<unsigned>(nearest(inverse_scale * fit.scale, 0, 15));
    const auto min = static_cast<unsigned>(nearest(inverse_min * fit.min, 0, 15));
    block[j] = static_cast<std::byte>(scale | min << 4);
    round_group(codes.data() + 16 * j, x.subspan(16 * j, 16), fit, d * static_cast<float>(scale),
                dmin * static_cast<float>(min), 3);
  }
  put_two_bits(block + 16, codes);
}

/// A group without minimum: codes around 0, the scale of least error weighted by x^2.
struct Centred {
  std::array<int, 16> codes{};
  float scale = 0.0f;
};
/// A group of zeros: all bits 0, whose codes are the least.
Centred nothing(int least) {
  Centred group;
  group.codes.fill(least);
  return group;
}
struct Sums {
  float xl = 0.0f, l2 = 0.0f;
};
Sums round_centred(std::array<int, 16>& codes, Values x, float scale, int least, int most) {
  Sums sums;
  for (std::size_t i = 0; i < x.size(); ++i) {
    codes[i] = nearest(scale * x[i], least, most);
    const float code = static_cast<float>(codes[i]), weight = x[i] * x[i];
    sums.xl += weight * x[i] * code;
    sums.l2 += weight * code * code;
  }
  return sums;
}

Centred six_bit_group(Values x) {
  const float most = largest(x);
  Centred found;
  if (std::abs(most) < kNothing) return nothing(-32);
  Sums sums = round_centred(found.codes, x, -32.0f / most, -32, 31);
  found.scale = sums.l2 != 0.0f ? sums.xl / sums.l2 : 0.0f;
  float best = found.scale * sums.xl;
  for (int t = -9; t <= 9; ++t) {
    if (t == 0) continue;
    std::array<int, 16> codes{};
    sums = round_centred(codes, x, -(32.0f + 0.1f * static_cast<float>(t)) / most, -32, 31);
    if (sums.l2 > 0.0f && sums.xl * sums.xl > best * sums.l2) {
      found.scale = sums.xl / sums.l2;
      best = found.scale * sums.xl;
      found.codes = codes;
    }
  }
  return found;
}

/// The scale of the largest magnitude.
template <class Group>
float largest_scale(const std::array<Group, 16>& groups) {
  float found = 0.0f;
  for (const Group& group : groups)
    if (std::abs(group.scale) > std::abs(found)) found = group.scale;
  return found;
}

void q6_k(Values x, std::byte* block) {
  std::memset(block, 0, 210);
  std::array<Centred, 16> groups;
  for (std::size_t j = 0; j < 16; ++j) groups[j] = six_bit_group(x.subspan(16 * j, 16));
  const float most = largest_scale(groups);
  if (std::abs(most) < kNothing) return;
  const float inverse = -128.0f / most;
  const float d = put_half(block + 208, 1.0f / inverse);
  Codes256 codes{};
  for (std::size_t j = 0; j < 16; ++j) {
    const int scale = nearest(inverse * groups[j].scale, -128, 127);
    block[192 + j] = static_cast<std::byte>(scale & 255);
    const float step = d * static_cast<float>(scale);
    for (std::size_t i = 0; i < 16; ++i) {
      const int code = step != 0.0f ? nearest(x[16 * j + i] / step, -32, 31) : groups[j].codes[i];
      codes[16 * j + i] = static_cast<std::uint8_t>(code + 32);
    }
  }
  for (std::size_t half = 0; half < 2; ++half)
    for (std::size_t l = 0; l < 32; ++l) {
      const std::uint8_t* const at = codes.data() + 128 * half + l;
      block[64 * half + l] = static_cast<std::byte>((at[0] & 15) | (at[64] & 15) << 4);
      block[64 * half + 32 + l] = static_cast<std::byte>((at[32] & 15) | (at[96] & 15) << 4);
      block[128 + 32 * half + l] =
          static_cast<std::byte>(at[0] >> 4 | at[32] >> 4 << 2 | at[64] >> 4 << 4 | at[96] >> 4 << 6);
    }
}

Centred three_bit_group(Values x) {
  const float most = largest(x);
  Centred found;
  if (std::abs(most) < kNothing) return nothing(-4);
  Sums sums = round_centred(found.codes, x, -4.0f / most, -4, 3);
  for (int round = 0; round < 5; ++round) {
    bool has_changed = false;
    for (std::size_t i = 0; i < 16; ++i) {
      const float weight = x[i] * x[i], code = static_cast<float>(found.codes[i]);
      float xl = sums.xl - weight * x[i] * code;
      if (!(xl > 0.0f)) continue;
      float l2 = sums.l2 - weight * code * code;
      const int next = nearest(x[i] * l2 / xl, -4, 3);
      if (next == found.codes[i]) continue;
      xl += weight * x[i] * static_cast<float>(next);
      l2 += weight * static_cast<float>(next) * static_cast<float>(next);
      if (l2 > 0.0f && xl * xl * sums.l2 > sums.xl * sums.xl * l2) {
        found.codes[i] = next;
        sums = {xl, l2};
        has_changed = true;
      }
    }
    if (!has_changed) break;
  }
  found.scale = sums.l2 > 0.0f ? sums.xl / sums.l2 : 0.0f;
  return found;
}

void q3_k(Values x, std::byte* block) {
  std::memset(block, 0, 110);
  std::array<Centred, 16> groups;
  std::array<int, 16> scales{};
  for (std::size_t j = 0; j < 16; ++j) groups[j] = three_bit_group(x.subspan(16 * j, 16));
  float d = 0.0f;
  if (const float most = largest_scale(groups); most != 0.0f) {
    const float inverse = -32.0f / most;
    d = put_half(block + 108, 1.0f / inverse);
    std::array<unsigned, 12> packed{};
    for (std::size_t j = 0; j < 16; ++j) {
      scales[j] = nearest(inverse * groups[j].scale, -32, 31);
      const auto code = static_cast<unsigned>(scales[j] + 32);
      packed[j % 8] |= (code & 15) << (4 * (j / 8));
      packed[8 + j % 4] |= code >> 4 << (2 * (j / 4));
    }
    for (std::size_t i = 0; i < packed.size(); ++i) block[96 + i] = static_cast<std::byte>(packed[i]);
  } else {
    scales.fill(-32);
  }
  Codes256 codes{};
  for (std::size_t i = 0; i < 256; ++i) {
    const float step = d * static_cast<float>(scales[i / 16]);
    const int code = step != 0.0f ? nearest(x[i] / step, -4, 3) : groups[i / 16].codes[i % 16];
    codes[i] = static_cast<std::uint8_t>(code + 4);
  }
  for (std::size_t l = 0; l < 32; ++l) {
    unsigned bits = 0;
    for (std::size_t g = 0; g < 8; ++g) bits |= unsigned{codes[32 * g + l]} >> 2 << g;
    block[l] = static_cast<std::byte>(bits);
  }
  for (std::uint8_t& code : codes) code &= 3;
  put_two_bits(block + 32, codes);
}

constexpr Encoder kKEncoders[] = {{"q2_K", q2_k}, {"q3_K", q3_k}, {"q4_K", q4_k}, {"q5_K", q5_k}, {"q6_K", q6_k}};

}  // namespace

std::span<const Encoder> k_encoders() noexcept { return kKEncoders; }

}  // namespace weft::formats::gguf
