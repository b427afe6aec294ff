// SPDX-License-Identifier: Apache-2.0

#include "goldens.hpp"
#include "testing.hpp"
#include <cmath>
#include <limits>

namespace weft::mesh::sign_test {
namespace {

using namespace testing_support;

TEST(Sign, IsExactFromTheSmallestNormalNumberOnAndHasNoSlope) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x{0.0f, -0.0f,   0x1p-126f, -0x1p-126f, 0x1p-100f, -0x1p-30f,  1e-9f,     0.75f,     -1.0f,
                             9.0f, -100.0f, 0x1p100f,  -0x1p127f,  kInfinity, -kInfinity, 0x1p-140f, -0x1p-149f};
  LayerSpec spec;
  spec.type = "sign";
  goldens::Sequence run(spec, {x.size()}, 1, 1);
  run.x = x;
  run.forward(0, 1);
  run.backward();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float magnitude = std::fabs(x[i]);
    EXPECT_EQ(run.y[i], magnitude < 0x1p-126f ? 0.0f : x[i] > 0 ? 1.0f : -1.0f) << x[i];
    EXPECT_EQ(run.dx[i], 0.0f);
  }
  run.x[3] = std::numeric_limits<float>::quiet_NaN();
  run.forward(0, 1);
  EXPECT_TRUE(std::isnan(run.y[3]));
}

TEST(Sign, IsZeroWithinAZoneAndAtItsEnds) {
  const std::vector<float> x{0.5f, -0.5f, std::nextafter(0.5f, 1.0f), std::nextafter(-0.5f, -1.0f), 0.25f, 0.0f, 3.0f};
  const std::vector<float> want{0.0f, 0.0f, 1.0f, -1.0f, 0.0f, 0.0f, 1.0f};
  goldens::Sequence run(goldens::layer("sign", {{"zone", 0.5}}), {x.size()}, 1, 1);
  run.x = x;
  run.forward(0, 1);
  EXPECT_EQ(run.y, want);
}

}  // namespace
}  // namespace weft::mesh::sign_test
