// SPDX-License-Identifier: Apache-2.0

#include "kernels/unary.hpp"

#include "tests/gpu/gpu_testing.hpp"

namespace weft::gpu {
namespace {

using namespace testing_support;
using kernels::Activation;
using kernels::BinaryOp;

struct Shape {
  std::size_t rows, cols, gap;
};
// Rows apart and rows that touch, single elements, more elements than a group has threads.
const std::vector<Shape> kShapes = {{1, 1, 0}, {1, 257, 3}, {3, 7, 5}, {5, 64, 0}, {17, 130, 1}, {300, 3, 0}};

kernels::testing_support::Matrix matrix(RandomStream& random, const Shape& s) {
  kernels::testing_support::Matrix m(s.rows, s.cols, s.gap);
  const auto values = draw(random, s.rows * s.cols, true);
  for (std::size_t i = 0; i < s.rows; ++i)
    for (std::size_t j = 0; j < s.cols; ++j) m.at(i, j) = values[i * s.cols + j];
  return m;
}

std::string text(const Shape& s) {
  return std::to_string(s.rows) + " x " + std::to_string(s.cols) + " + " + std::to_string(s.gap);
}

TEST(StreamElementwise, EveryActivationHasTheCpusBits) {
  RandomStream random(1, 0, RandomPurpose::test);
  for (int i = 0; i < kernels::kActivationCount; ++i) {
    const auto activation = static_cast<Activation>(i);
    for (const Shape& s : {Shape{3, 7, 5}, Shape{40, 101, 0}}) {
      Comparison c;
      const auto x = c.add(matrix(random, s)), y = c.add(matrix(random, s)), dy = c.add(matrix(random, s)),
                 dx = c.add(matrix(random, s));
      c.expect_same(std::string(kernels::name(activation)) + " " + text(s), [&](OpStream& stream, const auto& at) {
        stream.unary({activation, at.rows(x), at.rows(y)});
        stream.unary_backward({activation, at.rows(x), at.rows(y), at.rows(dy), at.rows(dx)});
        // In place, on both.
        stream.unary_backward({activation, at.rows(x), at.rows(y), at.rows(dy), at.rows(dy)});
        stream.unary({activation, at.rows(x), at.rows(x)});
      });
    }
  }
}

// Not only where normal numbers fall: a walk over the exponents, both signs.
TEST(StreamElementwise, EveryActivationHasTheCpusBitsOnAllScales) {
  std::vector<float> walk;
  for (std::uint32_t bits = 0; bits < 0x7f800000u; bits += 0x3fff1u)
    for (const std::uint32_t sign : {0u, 0x80000000u}) walk.push_back(std::bit_cast<float>(bits | sign));
  for (int i = 0; i < kernels::kActivationCount; ++i) {
    const auto activation = static_cast<Activation>(i);
    Comparison c;
    const auto x = c.add(walk), y = c.add(walk), dx = c.add(std::vector<float>(walk.size(), 1.5f));
    const std::size_t n = walk.size();
    c.expect_same(std::string(kernels::name(activation)), [&](OpStream& stream, const auto& at) {
      const MatrixView from{at.data(x), 1, n, n}, to{at.data(y), 1, n, n}, down{at.data(dx), 1, n, n};
      stream.unary({activation, from, to});
      stream.unary_backward({activation, from, to, down, down});
    });
  }
}

TEST(StreamElementwise, PairsOfOperandsHaveTheCpusBits) {
  RandomStream random(2, 0, RandomPurpose::test);
  for (const Shape& s : kShapes)
    for (const BinaryOp op : {BinaryOp::add, BinaryOp::sub, BinaryOp::mul, BinaryOp::max, BinaryOp::min}) {
      Comparison c;
      const auto a = c.add(matrix(random, s)), b = c.add(matrix(random, s)), y = c.add(matrix(random, s));
      c.expect_same("binary " + std::to_string(static_cast<int>(op)) + " " + text(s),
                    [&](OpStream& stream, const auto& at) {
                      stream.binary({op, at.rows(a), at.rows(b), at.rows(y)});
                      stream.binary({op, at.rows(a), at.rows(y), at.rows(a)});
                    });
    }
}

TEST(StreamElementwise, TheRestHasTheCpusBits) {
  RandomStream random(3, 0, RandomPurpose::test);
  for (const Shape& s : kShapes)
    for (const float alpha : {0.7f, -0x1p-120f, 0x1p-140f, 0x1p100f}) {
      Comparison c;
      const auto x = c.add(matrix(random, s)), y = c.add(matrix(random, s)), z = c.add(matrix(random, s)),
                 u = c.add(matrix(random, s)), v = c.add(matrix(random, s)), by_row = c.add(draw(random, s.rows, true)),
                 by_column = c.add(draw(random, s.cols, true));
      c.expect_same("elementwise " + text(s), [&](OpStream& stream, const auto& at) {
        stream.scale({alpha, at.rows(x), at.rows(y)});
        stream.axpy({alpha, at.rows(x), at.rows(z)});
        stream.copy({at.rows(x), at.rows(u)});
        stream.square_root({at.rows(z), at.rows(v)});
        stream.square_root_backward({at.rows(v), at.rows(x), at.rows(v)});
        stream.axpy({1.0f, at.rows(v), at.rows(y)});
        stream.clamped_log({at.rows(x), at.rows(v)});
        stream.axpy({1.0f, at.rows(v), at.rows(y)});
        stream.clamped_log_backward({at.rows(x), at.rows(u), at.rows(v)});
        stream.axpy({1.0f, at.rows(v), at.rows(z)});
        stream.scale_rows({at.data(by_row), at.rows(x), at.rows(v)});
        stream.gap_residual({at.rows(v), at.data(by_column), at.rows(x), at.rows(x)});
        stream.fill({alpha, at.rows(v)});
      });
    }
}

TEST(StreamElementwise, NothingToDoIsDone) {
  Comparison c;
  const auto x = c.add(std::vector<float>{3.0f});
  c.expect_same("empty", [&](OpStream& stream, const auto& at) {
    stream.fill({1.0f, {at.data(x), 0, 5, 5}});
    stream.scale({2.0f, {at.data(x), 4, 0, 1}, {at.data(x), 4, 0, 1}});
  });
}

}  // namespace
}  // namespace weft::gpu
