// SPDX-License-Identifier: Apache-2.0
// Operations along rows and down columns: norms, softmaxes, reductions, losses.

#include "tests/gpu/gpu_testing.hpp"
#include <limits>

namespace weft::gpu {
namespace {

using namespace testing_support;

struct Shape {
  std::size_t rows, cols;
};
// Ends inside, at and past 64 lanes; fewer rows than a group has, and more.
const std::vector<Shape> kShapes = {{1, 1}, {3, 7}, {4, 63}, {5, 64}, {2, 65}, {9, 130}, {1, 1000}};

std::string text(const Shape& s, bool special) {
  return std::to_string(s.rows) + " x " + std::to_string(s.cols) + (special ? ", special" : "");
}

template <class Body>
void for_shapes(const Body& body) {
  for (const Shape& s : kShapes)
    for (const bool special : {false, true}) body(s, special);
}

TEST(StreamRows, ReductionsHaveTheCpusBits) {
  RandomStream random(10, 0, RandomPurpose::test);
  for_shapes([&](const Shape& s, bool special) {
    Comparison c;
    const auto a = c.add(draw_matrix(random, s.rows, s.cols, special)),
               b = c.add(draw_matrix(random, s.rows, s.cols, special));
    const auto sums = c.add(draw(random, s.rows, false)), dots = c.add(draw(random, s.rows, false)),
               budgets = c.add(draw(random, s.rows, false)), places = c.add(draw(random, s.rows, false)),
               columns = c.add(draw(random, s.cols, special)),
               statistics = c.add(kernels::testing_support::Matrix(s.rows, 4));
    c.expect_same(text(s, special), [&](OpStream& stream, const auto& at) {
      stream.row_sums({at.rows(a), at.data(sums)});
      stream.row_dots({at.rows(a), at.rows(b), at.data(dots)});
      stream.link_budget({at.rows(a), at.rows(b), at.data(budgets)});
      stream.row_argmax({at.rows(a), at.template as<std::uint32_t>(places)});
      stream.column_accumulate({at.rows(a), at.data(columns)});
      stream.row_statistics({at.rows(a), 0.5f, at.rows(statistics)});
    });
  });
}

TEST(StreamRows, OfEqualLargestElementsTheFirstIsFound) {
  Comparison c;
  std::vector<float> row(300, 1.0f);
  row[70] = row[130] = row[71] = 2.0f;
  row[3] = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> zeros(300, 0x1p-140f);  // subnormals count as zeros: the first of all
  zeros[0] = -0.0f;
  const auto x = c.add(row), y = c.add(zeros), z = c.add(std::vector<float>(300, std::nanf("")));
  const auto found = c.add(std::vector<float>(3));
  c.expect_same("argmax", [&](OpStream& stream, const auto& at) {
    auto* places = at.template as<std::uint32_t>(found);
    stream.row_argmax({{at.data(x), 1, 300, 300}, places});
    stream.row_argmax({{at.data(y), 1, 300, 300}, places + 1});
    stream.row_argmax({{at.data(z), 1, 300, 300}, places + 2});
  });
}

TEST(StreamRows, NormsHaveTheCpusBits) {
  RandomStream random(11, 0, RandomPurpose::test);
  for_shapes([&](const Shape& s, bool special) {
    for (const bool with_gain : {false, true})
      for (const bool with_bias : {false, true}) {
        Comparison c;
        const auto x = c.add(draw_matrix(random, s.rows, s.cols, special)),
                   dy = c.add(draw_matrix(random, s.rows, s.cols, special)),
                   y = c.add(draw_matrix(random, s.rows, s.cols, false)),
                   dx = c.add(draw_matrix(random, s.rows, s.cols, false));
        const auto gain = c.add(draw(random, s.cols, special)), bias = c.add(draw(random, s.cols, special)),
                   dgain = c.add(draw(random, s.cols, special)), dbias = c.add(draw(random, s.cols, special)),
                   mean = c.add(draw(random, s.rows, false)), scale = c.add(draw(random, s.rows, false));
        c.expect_same(text(s, special), [&](OpStream& stream, const auto& at) {
          const float* g = with_gain ? at.data(gain) : nullptr;
          const float* h = with_bias ? at.data(bias) : nullptr;
          float* dg = with_gain ? at.data(dgain) : nullptr;
          stream.rms_norm({at.rows(x), g, 1e-5f, at.rows(y), at.data(scale)});
          stream.rms_norm_backward({at.rows(x), g, at.data(scale), at.rows(dy), at.rows(dx), dg});
          stream.axpy({1.0f, at.rows(y), at.rows(dx)});
          stream.layer_norm({at.rows(x), g, h, 1e-5f, at.rows(y), at.data(mean), at.data(scale)});
          // In place.
          stream.layer_norm_backward({at.rows(x), g, at.data(mean), at.data(scale), at.rows(dy), at.rows(dy), dg,
                                      with_bias ? at.data(dbias) : nullptr});
          stream.rms_norm({at.rows(x), g, 0.25f, at.rows(x), at.data(scale)});
        });
      }
  });
}

TEST(StreamRows, SoftmaxesHaveTheCpusBits) {
  RandomStream random(12, 0, RandomPurpose::test);
  for_shapes([&](const Shape& s, bool special) {
    for (const float temperature : {1.0f, 0.7f}) {
      Comparison c;
      const auto x = c.add(draw_matrix(random, s.rows, s.cols, special)),
                 dy = c.add(draw_matrix(random, s.rows, s.cols, special)),
                 y = c.add(draw_matrix(random, s.rows, s.cols, false)),
                 dx = c.add(draw_matrix(random, s.rows, s.cols, false)),
                 log_y = c.add(draw_matrix(random, s.rows, s.cols, false)),
                 base = c.add(draw_matrix(random, s.rows, 1, special)),
                 dbase = c.add(draw_matrix(random, s.rows, 1, special));
      c.expect_same(text(s, special), [&](OpStream& stream, const auto& at) {
        stream.softmax({at.rows(x), temperature, at.rows(y)});
        stream.softmax_backward({at.rows(y), at.rows(dy), temperature, at.rows(dx)});
        stream.log_softmax({at.rows(x), temperature == 1.0f ? at.rows(base) : MatrixView{}, at.rows(log_y)});
        stream.axpy({1.0f, at.rows(log_y), at.rows(dx)});
        stream.log_softmax_backward({at.rows(log_y), temperature == 1.0f ? at.rows(base) : MatrixView{}, at.rows(dy),
                                     at.rows(dy), temperature == 1.0f ? at.rows(dbase) : MatrixView{}});
        stream.softmax({at.rows(x), temperature, at.rows(x)});
      });
    }
  });
}

TEST(StreamRows, EntmaxHasTheCpusBits) {
  RandomStream random(15, 0, RandomPurpose::test);
  for (const Shape& s : {Shape{1, 1}, Shape{5, 7}, Shape{3, 130}})
    for (const bool special : {false, true})
      for (const float alpha_minus_one : {1.0f, 0.5f, 0.25f, 2.0f}) {
        Comparison c;
        const auto x = c.add(draw_matrix(random, s.rows, s.cols, special)),
                   dy = c.add(draw_matrix(random, s.rows, s.cols, special)),
                   y = c.add(draw_matrix(random, s.rows, s.cols, false)),
                   dx = c.add(draw_matrix(random, s.rows, s.cols, false));
        c.expect_same(text(s, special) + ", alpha - 1 = " + std::to_string(alpha_minus_one),
                      [&](OpStream& stream, const auto& at) {
                        stream.entmax({at.rows(x), alpha_minus_one, 0.7f, at.rows(y)});
                        stream.entmax_backward({at.rows(y), at.rows(dy), alpha_minus_one, 0.7f, at.rows(dx)});
                        stream.entmax_backward({at.rows(y), at.rows(dy), alpha_minus_one, 1.0f, at.rows(dy)});
                        stream.entmax({at.rows(x), alpha_minus_one, 1.0f, at.rows(x)});
                      });
      }
}

TEST(StreamRows, LossesHaveTheCpusBits) {
  RandomStream random(13, 0, RandomPurpose::test);
  for_shapes([&](const Shape& s, bool special) {
    Comparison c;
    const auto x = c.add(draw_matrix(random, s.rows, s.cols, special)),
               target = c.add(draw_matrix(random, s.rows, s.cols, special)),
               dx = c.add(draw_matrix(random, s.rows, s.cols, false));
    std::vector<float> labels(s.rows);
    for (float& label : labels) label = std::bit_cast<float>(random.next_below(static_cast<std::uint32_t>(s.cols)));
    const auto label = c.add(labels), loss = c.add(draw(random, s.rows, false)),
               squared = c.add(draw(random, s.rows, false));
    c.expect_same(text(s, special), [&](OpStream& stream, const auto& at) {
      stream.cross_entropy({at.rows(x), at.template as<std::uint32_t>(label), at.data(loss), at.rows(dx)});
      stream.value_loss({kernels::Loss::mse, 0.0f, at.rows(dx), at.rows(target), at.data(squared), at.rows(target)});
      stream.value_loss({kernels::Loss::mse, 0.0f, at.rows(x), at.rows(dx), nullptr, at.rows(dx)});
      stream.cross_entropy({at.rows(x), at.template as<std::uint32_t>(label), nullptr, at.rows(x)});
    });
  });
}

TEST(StreamRows, EachLossOfValuesHasTheCpusBits) {
  RandomStream random(15, 0, RandomPurpose::test);
  for (int i = 0; i < kernels::kLossCount; ++i) {
    const auto kind = static_cast<kernels::Loss>(i);
    if (targets_of(kind) != kernels::LossTargets::values) continue;
    for_shapes([&](const Shape& s, bool special) {
      Comparison c;
      const auto x = c.add(draw_matrix(random, s.rows, s.cols, special)),
                 target = c.add(draw_matrix(random, s.rows, s.cols, special)),
                 dx = c.add(draw_matrix(random, s.rows, s.cols, false));
      const auto loss = c.add(draw(random, s.rows, false));
      c.expect_same(std::string(name(kind)) + " " + text(s, special), [&](OpStream& stream, const auto& at) {
        stream.value_loss({kind, 0.75f, at.rows(x), at.rows(target), at.data(loss), at.rows(dx)});
        stream.value_loss({kind, 0.25f, at.rows(x), at.rows(dx), nullptr, at.rows(x)});
      });
    });
  }
}

TEST(StreamRows, AMaximumsErrorGoesToTheFirstThatHoldsIt) {
  RandomStream random(14, 0, RandomPurpose::test);
  for_shapes([&](const Shape& s, bool special) {
    Comparison c;
    const auto one = draw_matrix(random, s.rows, s.cols, special);
    auto other = one;
    for (std::size_t i = 0; i < s.rows; ++i) other.at(i, random.next_below(std::uint32_t(s.cols))) += 1.0f;
    const auto a = c.add(one), b = c.add(other), x = c.add(one),
               left = c.add(draw_matrix(random, s.rows, s.cols, true)), da = c.add(one), db = c.add(one);
    c.expect_same(text(s, special), [&](OpStream& stream, const auto& at) {
      stream.binary({kernels::BinaryOp::max, at.rows(a), at.rows(b), at.rows(x)});
      stream.max_backward({at.rows(a), at.rows(x), at.rows(left), at.rows(da)});
      stream.max_backward({at.rows(b), at.rows(x), at.rows(left), at.rows(db)});
    });
  });
}

TEST(StreamRows, InfinitiesAndNansAreFoundWhereverTheyStand) {
  auto stream = device().make_stream();
  ASSERT_TRUE(stream);
  constexpr std::size_t kRows = 7, kCols = 300, kStride = 310;
  auto buffer = device().memory().allocate(kRows * kStride * sizeof(float), "a matrix");
  ASSERT_TRUE(buffer);
  const MatrixView x{buffer->data(), kRows, kCols, kStride};
  (*stream)->fill({3e38f, {buffer->data(), 1, kRows * kStride, kRows * kStride}});
  EXPECT_TRUE((*stream)->is_finite({x}));
  const float bad[] = {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), std::nanf("")};
  (*stream)->upload(bad, 4, x.row(2) + kCols + 3);  // between two rows: none of the matrix
  EXPECT_TRUE((*stream)->is_finite({x}));
  for (const float& each : bad)
    for (const std::size_t i : {std::size_t{0}, kRows - 1}) {
      float* const at = x.row(i) + (i ? kCols - 1 : 0);
      (*stream)->upload(&each, 4, at);
      EXPECT_FALSE((*stream)->is_finite({x})) << each << " in row " << i;
      (*stream)->fill({0.0f, {at, 1, 1, 1}});
      EXPECT_TRUE((*stream)->is_finite({x}));
    }
  EXPECT_TRUE((*stream)->is_finite({{buffer->data(), 0, 5, 5}}));
}

}  // namespace
}  // namespace weft::gpu
