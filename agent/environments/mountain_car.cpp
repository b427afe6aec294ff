// SPDX-License-Identifier: Apache-2.0

#include "agent/environments/environment.hpp"

#include "kernels/math.hpp"

#include <algorithm>
#include <cmath>

namespace weft::agent {
namespace {

/// A car too weak for the hill before it; -1 a step until it is up.
/// @source Moore 1990, "Efficient memory-based learning for robot control"; numbers as in Gymnasium's MountainCar-v0
class MountainCar final : public Environment {
 public:
  MountainCar() : Environment({.observations = 2, .choices = 3, .limit = 200, .state = 2}) {}

 private:
  static constexpr double kLeft = -1.2, kRight = 0.6, kGoal = 0.5, kFastest = 0.07;

  void begin(std::span<double> s, RandomStream& random) const override {
    s[0] = uniform(random, -0.6, -0.4);
    s[1] = 0.0;
  }
  Outcome move(std::span<double> s, const Action& action, std::uint64_t, RandomStream&) const override {
    const double slope = kernels::math::cos(static_cast<float>(3.0 * s[0]));
    s[1] += (static_cast<double>(action.choice) - 1.0) * 0.001 + slope * -0.0025;
    s[1] = std::clamp(s[1], -kFastest, kFastest);
    s[0] = std::clamp(s[0] + s[1], kLeft, kRight);
    if (s[0] == kLeft && s[1] < 0.0) s[1] = 0.0;
    return {-1.0, s[0] >= kGoal && s[1] >= 0.0, false};
  }
  void observe(std::span<const double> s, std::uint64_t, std::span<float> to) const override {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(s[i]);
  }
  bool is_possible(std::span<const double> s) const override {
    return s[0] >= kLeft && s[0] <= kRight && std::fabs(s[1]) <= kFastest;
  }
};

}  // namespace

std::unique_ptr<Environment> make_mountain_car(const EnvironmentOptions&) { return std::make_unique<MountainCar>(); }

}  // namespace weft::agent
