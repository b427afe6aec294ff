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
        const double slack = kind == Loss::binary_cross_entropy ? 0x1p-22 / static_cast<double>(cols) : 0;
        ASSERT_NEAR(dx.at(i, j), want, 2.001 * 0x1p-24 * std::fabs(want) + slack) << name(kind) << " " << j;
      }
    }
  }
  for (const Loss kind : value_losses())
    EXPECT_NE(std::find(seen.begin(), seen.end(), kind), seen.end()) << "no golden of " << name(kind);
}

}  // namespace
}  // namespace weft::kernels::loss_test
