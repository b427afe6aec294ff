// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/weight.hpp"

#include "core/aligned_buffer.hpp"
#include "core/encoding.hpp"
#include "core/numeric.hpp"
#include "core/philox.hpp"

#include "tests/kernels/coded_weights.hpp"
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

/// Fixtures of quantized weights: arrays with sentinels behind them, and ways to fill a master weight.
namespace weft::kernels::testing_codec {

using namespace testing_coded;

/// Arrays of a weight, filled with what no encoder leaves behind, and sentinels past their ends.
class QuantizedWeight {
 public:
  QuantizedWeight(const Encoding& encoding, std::size_t out, std::size_t in)
      : encoding_(encoding), out_(out), in_(in), bytes_(weight_bytes(encoding, out, in)) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      starts_[i] = at;
      at += (sizes()[i] + 127) / 64 * 64;
    }
    memory_ = AlignedBuffer<std::uint8_t>(at);
    std::memset(memory_.data(), kSentinel, at);
  }

  Weight view() {
    return {array(0),
            bytes_.scales ? array(1) : nullptr,
            bytes_.zero_points ? array(2) : nullptr,
            out_,
            in_,
            encoding_.dtype,
            encoding_.granularity};
  }
  ConstWeight view() const { return const_cast<QuantizedWeight*>(this)->view(); }
  /// All three arrays; lengths as weight_bytes() says.
  std::vector<std::uint8_t> contents() const {
    std::vector<std::uint8_t> all;
    for (std::size_t i = 0; i < 3; ++i)
      all.insert(all.end(), memory_.data() + starts_[i], memory_.data() + starts_[i] + sizes()[i]);
    return all;
  }
  bool sentinels_intact() const {
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t end = i == 2 ? memory_.size() : starts_[i + 1];
      for (std::size_t j = starts_[i] + sizes()[i]; j < end; ++j)
        if (memory_[j] != kSentinel) return false;
    }
    return true;
  }

 private:
  static constexpr std::uint8_t kSentinel = 0xa5;
  std::array<std::size_t, 3> sizes() const { return {bytes_.codes, bytes_.scales, bytes_.zero_points}; }
  void* array(std::size_t i) { return memory_.data() + starts_[i]; }

  Encoding encoding_;
  std::size_t out_, in_;
  WeightBytes bytes_;
  std::array<std::size_t, 3> starts_{};
  AlignedBuffer<std::uint8_t> memory_;
};

struct Master {
  Master(std::size_t o, std::size_t i) : out(o), in(i), data(panels_size(o, i)) {}
  float& at(std::size_t o, std::size_t k) { return data[panel_index(in, o, k)]; }
  float at(std::size_t o, std::size_t k) const { return data[panel_index(in, o, k)]; }
  ConstPanels view() const { return {data.data(), out, in}; }
  std::size_t out, in;
  AlignedBuffer<float> data;
};

enum class Fill { normal, tiny, huge, zero, constant, positive, negative, sparse, mixed };
inline constexpr Fill kFills[] = {Fill::normal,   Fill::tiny,     Fill::huge,   Fill::zero, Fill::constant,
                                  Fill::positive, Fill::negative, Fill::sparse, Fill::mixed};

inline float draw(RandomStream& random, Fill fill) {
  const float x = random.next_normal();
  switch (fill) {
    case Fill::normal:
      return x * 0.05f;
    case Fill::tiny:  // subnormals among them, which count as zeros
      return x * 1e-38f;
    case Fill::huge:
      return x * 0.8e37f;
    case Fill::zero:
      return x < 0 ? -0.0f : 0.0f;
    case Fill::constant:
      return -0.7f;
    case Fill::positive:
      return std::fabs(x) + 0.25f;
    case Fill::negative:
      return -std::fabs(x) * 3.0f;
    case Fill::sparse:
      return random.next_below(8) == 0 ? x : 0.0f;
    case Fill::mixed:
      return std::ldexp(x, static_cast<int>(random.next_below(60)) - 30);
  }
  return x;
}

inline Master random_master(RandomStream& random, std::size_t out, std::size_t in, Fill fill) {
  Master master(out, in);
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t k = 0; k < in; ++k) master.at(o, k) = draw(random, fill);
  return master;
}

struct Shape2 {
  std::size_t out, in;
};
/// Ones, primes, and neighbours of panel, block, chunk and word sizes.
inline std::vector<Shape2> shapes() {
  return {{1, 1},   {1, 0},   {0, 5},   {3, 2},    {7, 31},   {16, 32},  {17, 33},  {15, 63},
          {64, 64}, {65, 65}, {63, 97}, {13, 101}, {31, 127}, {80, 129}, {1, 1000}, {1000, 3}};
}

}  // namespace weft::kernels::testing_codec
