// SPDX-License-Identifier: Apache-2.0

#include "kernels/norm.hpp"

#include "comparing.hpp"
#include <functional>

namespace weft::kernels::norm_test {
namespace {

using namespace testing_support;
using Row = std::vector<double>;
constexpr float kEpsilon = 1e-5f;

struct Operands {
  Matrix x, dy, gain, bias;
};
Operands operands(RandomStream& random, std::size_t rows, std::size_t cols) {
  Operands o{random_matrix(random, rows, cols, 2.0f), random_matrix(random, rows, cols), random_matrix(random, 1, cols),
             random_matrix(random, 1, cols)};
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) o.x.at(i, j) += 0.5f;
  return o;
}
Row row(const Matrix& m, std::size_t i) {
  Row r(m.cols());
  for (std::size_t j = 0; j < m.cols(); ++j) r[j] = static_cast<double>(m.at(i, j));
  return r;
}

// The formulas in binary64; `centred` for layer norm.
Row reference(const Row& x, const Row& gain, const Row& bias, bool centred) {
  const auto n = static_cast<double>(x.size());
  double mean = 0, squares = 0;
  if (centred)
    for (const double v : x) mean += v / n;
  for (const double v : x) squares += (v - mean) * (v - mean) / n;
  Row y(x.size());
  for (std::size_t j = 0; j < x.size(); ++j)
    y[j] = (x[j] - mean) / std::sqrt(squares + static_cast<double>(kEpsilon)) * gain[j] + bias[j];
  return y;
}

// The slope of sum(dy y) against each x, by central differences of the reference.
Row difference(const Row& x, const Row& gain, const Row& bias, const Row& dy, bool centred) {
  constexpr double kStep = 1e-5;
  Row dx(x.size());
  for (std::size_t j = 0; j < x.size(); ++j) {
    Row up = x, down = x;
    up[j] += kStep, down[j] -= kStep;
    const Row y_up = reference(up, gain, bias, centred), y_down = reference(down, gain, bias, centred);
    for (std::size_t i = 0; i < x.size(); ++i) dx[j] += dy[i] * (y_up[i] - y_down[i]) / (2 * kStep);
  }
  return dx;
}

TEST(Norm, FollowsTheFormulasForward) {
  const FlushSubnormals flush;
  RandomStream random(51, 0, RandomPurpose::test);
  for (const std::size_t cols : kSizes) {
    const Operands o = operands(random, 3, cols);
    Matrix rms(3, cols), layer(3, cols);
    float scale[3], mean[3], deviation[3];
    rms_norm(o.x.view(), o.gain.view().data, kEpsilon, rms.view(), scale);
    layer_norm(o.x.view(), o.gain.view().data, o.bias.view().data, kEpsilon, layer.view(), mean, deviation);
    EXPECT_TRUE(rms.gaps_intact() && layer.gaps_intact());
    const Row gain = row(o.gain, 0), bias = row(o.bias, 0), none(cols, 0.0);
    for (std::size_t i = 0; i < 3; ++i) {
      const Row want = reference(row(o.x, i), gain, none, false), want_layer = reference(row(o.x, i), gain, bias, true);
      for (std::size_t j = 0; j < cols; ++j) {
        ASSERT_NEAR(static_cast<double>(rms.at(i, j)), want[j], 1e-6 * std::fabs(want[j])) << cols;
        // x - mean cancels; with one or two columns it is all that is left, times 1 / sqrt(epsilon).
        const double lost =
            4e-7 * (std::fabs(static_cast<double>(o.x.at(i, j))) + 1) * static_cast<double>(deviation[i]);
        ASSERT_NEAR(static_cast<double>(layer.at(i, j)), want_layer[j],
                    lost * std::fabs(gain[j]) + 1e-6 * (std::fabs(want_layer[j]) + std::fabs(bias[j])))
            << cols;
      }
    }
  }
}

TEST(Norm, BackwardIsTheSlopeOfTheFormula) {
  const FlushSubnormals flush;
  RandomStream random(52, 0, RandomPurpose::test);
  for (const std::size_t cols : {3u, 10u, 64u, 65u, 131u}) {
    const Operands o = operands(random, 2, cols);
    Matrix y(2, cols), dx(2, cols), dx_layer(2, cols);
    float scale[2], mean[2], deviation[2];
    std::vector<float> dgain(cols, 0.5f), dgain_layer(cols, 0.5f), dbias(cols, 0.25f);
    const float *gain = o.gain.view().data, *bias = o.bias.view().data;
    rms_norm(o.x.view(), gain, kEpsilon, y.view(), scale);
    rms_norm_backward(o.x.view(), gain, scale, o.dy.view(), dx.view(), dgain.data());
    layer_norm(o.x.view(), gain, bias, kEpsilon, y.view(), mean, deviation);
    layer_norm_backward(o.x.view(), gain, mean, deviation, o.dy.view(), dx_layer.view(), dgain_layer.data(),
                        dbias.data());
    EXPECT_TRUE(dx.gaps_intact() && dx_layer.gaps_intact());
    const Row g = row(o.gain, 0), b = row(o.bias, 0), ones(cols, 1.0), none(cols, 0.0);
    Row want_gain(cols, 0.5), want_gain_layer(cols, 0.5), want_bias(cols, 0.25);
    for (std::size_t i = 0; i < 2; ++i) {
      const Row x = row(o.x, i), dy = row(o.dy, i);
      const Row want = difference(x, g, none, dy, false), want_layer = difference(x, g, b, dy, true);
      const Row normal = reference(x, ones, none, false), normal_layer = reference(x, ones, none, true);
      for (std::size_t j = 0; j < cols; ++j) {
        ASSERT_NEAR(static_cast<double>(dx.at(i, j)), want[j], 5e-6 * static_cast<double>(scale[i]));
        ASSERT_NEAR(static_cast<double>(dx_layer.at(i, j)), want_layer[j], 5e-6 * static_cast<double>(deviation[i]));
        want_gain[j] += dy[j] * normal[j];
        want_gain_layer[j] += dy[j] * normal_layer[j];
        want_bias[j] += dy[j];
      }
    }
    for (std::size_t j = 0; j < cols; ++j) {
      ASSERT_NEAR(static_cast<double>(dgain[j]), want_gain[j], 5e-6);
      ASSERT_NEAR(static_cast<double>(dgain_layer[j]), want_gain_layer[j], 5e-6);
      ASSERT_NEAR(static_cast<double>(dbias[j]), want_bias[j], 1e-6);
    }
  }
}

TEST(Norm, ARowOfOneValueHasNoDeviation) {
  const FlushSubnormals flush;
  const std::vector<float> x(7, 3.0f);
  std::vector<float> y(7);
  float mean = 0, deviation = 0;
  layer_norm({x.data(), 1, 7, 7}, nullptr, nullptr, 0.25f, {y.data(), 1, 7, 7}, &mean, &deviation);
  EXPECT_EQ(mean, 3.0f);
  EXPECT_EQ(deviation, 2.0f);  // 1 / sqrt(1/4)
  for (const float v : y) EXPECT_EQ(v, 0.0f);
}

}  // namespace
}  // namespace weft::kernels::norm_test
