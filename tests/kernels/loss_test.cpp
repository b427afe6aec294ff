// SPDX-License-Identifier: Apache-2.0

#include "kernels/loss.hpp"

#include "core/json.hpp"

#include "comparing.hpp"
#include "tests/support/source_path.hpp"
#include <algorithm>
#include <fstream>
#include <sstream>

namespace weft::kernels::loss_test {
namespace {

using namespace testing_support;

double cross_entropy_reference(const std::vector<double>& x, std::size_t label) {
  double largest = x[0], sum = 0;
  for (const double v : x) largest = std::fmax(largest, v);
  for (const double v : x) sum += std::exp(v - largest);
  return std::log(sum) + largest - x[label];
}

TEST(Loss, CrossEntropyFollowsTheFormulaAndItsSlope) {
  const FlushSubnormals flush;
  RandomStream random(71, 0, RandomPurpose::test);
  for (const std::size_t cols : kSizes) {
    const Matrix x = random_matrix(random, 3, cols, 4.0f);
    std::uint32_t labels[3];
    for (std::uint32_t& label : labels) label = random.next_below(static_cast<std::uint32_t>(cols));
    Matrix dx(3, cols);
    float loss[3];
    cross_entropy(x.view(), labels, loss, dx.view());
    EXPECT_TRUE(dx.gaps_intact());
    for (std::size_t i = 0; i < 3; ++i) {
      std::vector<double> in(cols);
      for (std::size_t j = 0; j < cols; ++j) in[j] = static_cast<double>(x.at(i, j));
      const double want = cross_entropy_reference(in, labels[i]);
      ASSERT_NEAR(static_cast<double>(loss[i]), want, 1e-6 * (1 + want)) << cols;
      for (std::size_t j = 0; j < cols; ++j) {
        constexpr double kStep = 1e-5;
        std::vector<double> up = in, down = in;
        up[j] += kStep, down[j] -= kStep;
        const double slope =
            (cross_entropy_reference(up, labels[i]) - cross_entropy_reference(down, labels[i])) / (2 * kStep);
        ASSERT_NEAR(static_cast<double>(dx.at(i, j)), slope, 2e-6) << cols;
      }
    }
  }
}

std::vector<Loss> value_losses() {
  std::vector<Loss> all;
  for (int i = 0; i < kLossCount; ++i)
    if (targets_of(static_cast<Loss>(i)) == LossTargets::values) all.push_back(static_cast<Loss>(i));
  return all;
}

Json goldens() {
  std::stringstream text;
  text << std::ifstream(source_path("tests/data/losses.json")).rdbuf();
  return parse_json(text.str(), "losses.json").value();
}

// tools/make_loss_goldens.py
TEST(Loss, OfValuesAndItsSlopeAreThoseOfPyTorch) {
  const FlushSubnormals flush;
  std::vector<Loss> seen;
  for (const Json& golden : goldens()) {
    const Loss kind = parse_loss(golden["loss"].text()).value();
    if (targets_of(kind) != LossTargets::values) continue;
    seen.push_back(kind);
    const std::size_t rows = golden["rows"].get<std::size_t>(), cols = golden["cols"].get<std::size_t>();
    const auto of = [&](const char* key) { return golden[key].get<std::vector<double>>(); };
    Matrix x(rows, cols), target(rows, cols), dx(rows, cols);
    for (std::size_t i = 0; i < rows * cols; ++i) {
      x.at(i / cols, i % cols) = static_cast<float>(of("x")[i]);
      target.at(i / cols, i % cols) = static_cast<float>(of("target")[i]);
    }
    std::vector<float> loss(rows);
    value_loss(kind, golden["delta"].get<float>(), x.view(), target.view(), loss.data(), dx.view());
    EXPECT_TRUE(dx.gaps_intact());
    const auto slopes = of("dx");
    for (std::size_t i = 0; i < rows; ++i) {
      EXPECT_NEAR(loss[i], of("losses")[i], 2e-6 * (0.1 + of("losses")[i])) << name(kind);
      for (std::size_t j = 0; j < cols; ++j) {
        const double want = slopes[i * cols + j];
        // A difference and a quotient, each rounded once; of logits, of two numbers near 1.
        const double room = kind == Loss::binary_cross_entropy ? 0x1p-22 / static_cast<double>(cols) : 0;
        ASSERT_NEAR(dx.at(i, j), want, 2.001 * 0x1p-24 * std::fabs(want) + room) << name(kind) << " " << j;
      }
    }
  }
  for (const Loss kind : value_losses())
    EXPECT_NE(std::find(seen.begin(), seen.end(), kind), seen.end()) << "no golden of " << name(kind);
}

TEST(Loss, OfEqualValuesHasNoSlope) {
  const FlushSubnormals flush;
  for (const Loss kind : {Loss::mse, Loss::mae, Loss::huber}) {
    const float x[3] = {1.5f, -2.0f, 0.0f};
    float loss = 1, dx[3] = {1, 1, 1};
    value_loss(kind, 1.0f, {x, 1, 3, 3}, {x, 1, 3, 3}, &loss, {dx, 1, 3, 3});
    EXPECT_EQ(loss, 0.0f) << name(kind);
    for (const float v : dx) EXPECT_EQ(v, 0.0f) << name(kind);
  }
}

TEST(Loss, OfSureLogitsStaysFiniteAndOfNansIsOne) {
  const FlushSubnormals flush;
  const float x[2] = {1000.0f, -1000.0f}, wrong[2] = {0, 1}, right[2] = {1, 0};
  float loss = 0, dx[2];
  value_loss(Loss::binary_cross_entropy, 1.0f, {x, 1, 2, 2}, {wrong, 1, 2, 2}, &loss, {dx, 1, 2, 2});
  EXPECT_EQ(loss, 1000.0f);
  EXPECT_EQ(dx[0], 0.5f);
  EXPECT_EQ(dx[1], -0.5f);
  value_loss(Loss::binary_cross_entropy, 1.0f, {x, 1, 2, 2}, {right, 1, 2, 2}, &loss, {dx, 1, 2, 2});
  EXPECT_EQ(loss, 0.0f);
  const float nan[1] = {std::numeric_limits<float>::quiet_NaN()};
  for (const Loss kind : value_losses()) {
    value_loss(kind, 1.0f, {nan, 1, 1, 1}, {right, 1, 1, 1}, &loss, {dx, 1, 1, 1});
    EXPECT_TRUE(std::isnan(loss) && std::isnan(dx[0])) << name(kind) << ": divergence is seen by its NaN";
  }
}

// As it was when it was the only loss of values.
TEST(Loss, OfSquaresIsTheSumByLanesOverTheWidth) {
  const FlushSubnormals flush;
  RandomStream random(74, 0, RandomPurpose::test);
  const Matrix x = random_matrix(random, 2, 131), target = random_matrix(random, 2, 131);
  Matrix dx(2, 131);
  float loss[2];
  value_loss(Loss::mse, 0.0f, x.view(), target.view(), loss, dx.view());
  for (std::size_t i = 0; i < 2; ++i) {
    float lane[64] = {};
    for (std::size_t j = 0; j < 131; ++j) {
      const float d = x.at(i, j) - target.at(i, j);
      lane[j % 64] = std::fma(d, d, lane[j % 64]);
      EXPECT_EQ(dx.at(i, j), 2.0f * d / 131.0f);
    }
    for (std::size_t half = 32; half != 0; half /= 2)
      for (std::size_t k = 0; k < half; ++k) lane[k] += lane[k + half];
    EXPECT_EQ(loss[i], lane[0] / 131.0f);
  }
}

TEST(Loss, ASureRightAnswerCostsNothing) {
  const FlushSubnormals flush;
  const float x[3] = {-200.0f, 0.0f, -200.0f};
  const std::uint32_t label = 1;
  float loss = 1, dx[3];
  cross_entropy({x, 1, 3, 3}, &label, &loss, {dx, 1, 3, 3});
  EXPECT_EQ(loss, 0.0f);
  for (const float v : dx) EXPECT_EQ(v, 0.0f);
}

}  // namespace
}  // namespace weft::kernels::loss_test
