// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/cpu_stream.hpp"
#include "kernels/isa.hpp"
#include "kernels/linear.hpp"

#include "core/aligned_buffer.hpp"
#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace weft::kernels::testing_linear {

/// Values of an operand: finite numbers near 1, or those mixed with every kind of float that breaks kernels.
enum class Fill { plain, special };

inline float draw(RandomStream& random, Fill fill) {
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static constexpr std::array kSpecial = {0.0f,          -0.0f,           kInfinity,        -kInfinity,
                                          std::nanf(""), 0x1p-127f,       -0x1p-149f,       0x1p-126f,
                                          -0x1p-126f,    0x1.fffffep127f, -0x1.fffffep127f, 0x1p-63f,
                                          -0x1p-64f,     1e30f,           -1e-30f,          0x1.000002p-126f};
  // Rare for infinities, or every sum would end as NaN and prove nothing.
  if (fill == Fill::special && random.next_below(4) == 0) {
    const auto i = random.next_below(kSpecial.size());
    const float x = kSpecial[i];
    if (std::isfinite(x) || random.next_below(40) == 0) return x;
  }
  return random.next_normal();
}

/// A row-major matrix whose rows stand further apart than they are long; what lies between must stay as it is.
struct Matrix {
  static constexpr float kUntouched = 12345.0f;
  Matrix(std::size_t r, std::size_t c, std::size_t gap = 3)
      : rows(r), cols(c), stride(c + gap), data(r * (c + gap), kUntouched) {}
  void fill(RandomStream& random, Fill how) {
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j) at(i, j) = draw(random, how);
  }
  float& at(std::size_t i, std::size_t j) { return data[i * stride + j]; }
  float at(std::size_t i, std::size_t j) const { return data[i * stride + j]; }
  ConstMatrixView view() const { return {data.data(), rows, cols, stride}; }
  MatrixView view() { return {data.data(), rows, cols, stride}; }
  ConstMatrixView row_view(std::size_t i) const { return {data.data() + i * stride, 1, cols, stride}; }
  std::size_t rows, cols, stride;
  std::vector<float> data;
};

struct PanelMatrix {
  PanelMatrix(std::size_t o, std::size_t i) : out(o), in(i), data(panels_size(o, i)) {}
  void fill(RandomStream& random, Fill how) {
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t k = 0; k < in; ++k) at(o, k) = draw(random, how);
  }
  float& at(std::size_t o, std::size_t k) { return data[panel_index(in, o, k)]; }
  float at(std::size_t o, std::size_t k) const { return data[panel_index(in, o, k)]; }
  ConstPanels view() const { return {data.data(), out, in}; }
  Panels view() { return {data.data(), out, in}; }
  std::size_t out, in;
  AlignedBuffer<float> data;
};

/// Equal bits, or NaN both: kernels promise a NaN, the commit step makes it the canonical one.
inline bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

template <class A, class B>
testing::AssertionResult same_bits(const A& a, const B& b) {
  if (std::size(a) != std::size(b)) return testing::AssertionFailure() << "sizes differ";
  for (std::size_t i = 0; i < std::size(a); ++i)
    if (!same(a[i], b[i]))
      return testing::AssertionFailure() << "element " << i << ": " << a[i] << " against " << b[i] << std::hexfloat
                                         << " (" << a[i] << ", " << b[i] << ")";
  return testing::AssertionSuccess();
}

struct Size {
  std::size_t batch, out, in;
  friend std::ostream& operator<<(std::ostream& out_stream, const Size& s) {
    return out_stream << "batch " << s.batch << ", out " << s.out << ", in " << s.in;
  }
};

/// Primes, ones, neighbours of the chunk and panel sizes, nothing at all, and tile edges of every ISA.
inline std::vector<Size> sizes() {
  std::vector<Size> all = {{1, 1, 1},    {1, 64, 64},     {1, 63, 65},   {1, 65, 63},   {1, 10, 64},   {1, 16, 257},
                           {1, 17, 0},   {1, 0, 5},       {0, 5, 5},     {3, 5, 0},     {1, 33, 1000}, {1, 1000, 33},
                           {1, 48, 300}, {1, 1000, 1000}, {2, 64, 64},   {5, 97, 101},  {13, 31, 64},  {14, 16, 129},
                           {15, 47, 63}, {64, 65, 127},   {29, 130, 7},  {7, 1000, 64}, {6, 80, 200},  {4, 113, 66},
                           {97, 40, 17}, {200, 19, 70},   {1, 129, 128}, {1, 113, 512}};
  RandomStream random(2024, 0, RandomPurpose::test);
  for (int i = 0; i < 20; ++i)
    all.push_back({1 + random.next_below(34), 1 + random.next_below(150), 1 + random.next_below(200)});
  return all;
}

/// Runs a test on one instruction set after the other, and leaves the best one active.
class OnEachIsa : public testing::Test {
 protected:
  void TearDown() override { ASSERT_TRUE(set_active_isa(best_isa())); }

  /// `run()` gives a kernel's output; it must be the scalar path's on every ISA, computed by that ISA's own code.
  template <class Run>
  void expect_same_on_all(const std::string& what, const Run& run) {
    ASSERT_TRUE(set_active_isa(Isa::scalar));
    const auto expected = run();
    ASSERT_EQ(last_isa_run(), Isa::scalar) << what;
    for (const Isa isa : available_isas()) {
      ASSERT_TRUE(set_active_isa(isa));
      const auto got = run();
      EXPECT_EQ(last_isa_run(), general_isa(isa)) << what;
      EXPECT_TRUE(same_bits(got, expected)) << what << " on " << name(isa);
    }
  }
};

/// Runs tasks backwards on the calling thread, so that nothing can lean on their order.
struct Backwards {
  std::size_t tasks = 0;
  void operator()(std::size_t count, ParallelFor::Body body, void* context) {
    tasks += count;
    for (std::size_t i = count; i-- > 0;) body(context, i);
  }
};

/// Runs an operation in parts, as on five threads of a pool.
template <class Op, class Threads>
void run_in_parts(const Op& op, Threads& threads) {
  ParallelOptions parallel{ParallelFor(threads)};
  parallel.threads = 5;
  parallel.grain_size = 0;
  CpuStream stream;
  stream.set_parallel(&parallel);
  stream.run(op);
}
/// The same; returns how many parts there were (0: it stayed whole).
template <class Op>
std::size_t run_in_parts(const Op& op) {
  Backwards threads;
  run_in_parts(op, threads);
  return threads.tasks;
}

/// Error bound of `terms` roundings on sums whose absolute values add up to `magnitude` (Higham 2002, lemma 3.1),
/// plus what flushing may lose per step.
inline double bound(std::size_t terms, double magnitude) {
  const double u = 0x1p-24, n = static_cast<double>(terms);
  return n * u / (1 - n * u) * magnitude + n * 0x1p-126;
}

}  // namespace weft::kernels::testing_linear
