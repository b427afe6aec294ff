// SPDX-License-Identifier: Apache-2.0

#include "agent/environments/environment.hpp"

#include "kernels/math.hpp"

#include <algorithm>
#include <cmath>

namespace weft::agent {
namespace {

/// A pendulum to be swung up by a torque, which is a value from -2 to 2; the reward falls with angle, speed and torque.
/// @source numbers and steps as in Gymnasium's Pendulum-v1
class Pendulum final : public Environment {
 public:
  Pendulum() : Environment({.observations = 3, .values = 1, .limit = 200, .state = 2}) {}

 private:
  static constexpr double kPi = 3.14159265358979323846, kFastest = 8.0, kTorque = 2.0, kStep = 0.05, kGravity = 10.0;

  static double upright(double angle) noexcept {
    while (angle > kPi) angle -= 2.0 * kPi;
    while (angle < -kPi) angle += 2.0 * kPi;
    return angle;
  }

  void begin(std::span<double> s, RandomStream& random) const override {
    s[0] = uniform(random, -kPi, kPi);
    s[1] = uniform(random, -1.0, 1.0);
  }
  Outcome move(std::span<double> s, const Action& action, std::uint64_t, RandomStream&) const override {
    const double torque = std::clamp(static_cast<double>(action.values[0]), -kTorque, kTorque);
    const double angle = upright(s[0]);
    const double cost = angle * angle + 0.1 * s[1] * s[1] + 0.001 * torque * torque;
    const double sine = kernels::math::sin(static_cast<float>(s[0]));
    s[1] = std::clamp(s[1] + (3.0 * kGravity / 2.0 * sine + 3.0 * torque) * kStep, -kFastest, kFastest);
    s[0] += s[1] * kStep;
    return {-cost, false, false};
  }
  void observe(std::span<const double> s, std::uint64_t, std::span<float> to) const override {
    to[0] = kernels::math::cos(static_cast<float>(s[0]));
    to[1] = kernels::math::sin(static_cast<float>(s[0]));
    to[2] = static_cast<float>(s[1]);
  }
  bool is_possible(std::span<const double> s) const override {
    return std::fabs(s[0]) < 1000.0 && std::fabs(s[1]) <= kFastest;
  }
};

}  // namespace

std::unique_ptr<Environment> make_pendulum(const EnvironmentOptions&) { return std::make_unique<Pendulum>(); }

}  // namespace weft::agent
