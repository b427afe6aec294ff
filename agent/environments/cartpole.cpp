// SPDX-License-Identifier: Apache-2.0

#include "agent/environments/environment.hpp"

#include "kernels/math.hpp"

#include <cmath>

namespace weft::agent {
namespace {

/// A pole on a cart that is pushed left or right; 1 a step while the pole stands and the cart stays.
/// @source Barto, Sutton and Anderson 1983, "Neuronlike adaptive elements that can solve difficult learning control
///         problems"; numbers and Euler steps as in Gymnasium's CartPole-v1
class CartPole final : public Environment {
 public:
  CartPole() : Environment({.observations = 4, .choices = 2, .limit = 500, .state = 4}) {}

 private:
  static constexpr double kGravity = 9.8, kPole = 0.1, kTotal = 1.1, kHalf = 0.5, kForce = 10.0, kStep = 0.02;
  static constexpr double kAngle = 12.0 * 2.0 * 3.14159265358979323846 / 360.0, kPlace = 2.4;

  void begin(std::span<double> s, RandomStream& random) const override {
    for (double& value : s) value = uniform(random, -0.05, 0.05);
  }
  Outcome move(std::span<double> s, const Action& action, std::uint64_t, RandomStream&) const override {
    const double force = action.choice == 1 ? kForce : -kForce;
    const auto angle = static_cast<float>(s[2]);
    const double cosine = kernels::math::cos(angle), sine = kernels::math::sin(angle);
    const double pushed = (force + kPole * kHalf * s[3] * s[3] * sine) / kTotal;
    const double turn = (kGravity * sine - cosine * pushed) / (kHalf * (4.0 / 3.0 - kPole * cosine * cosine / kTotal));
    const double push = pushed - kPole * kHalf * turn * cosine / kTotal;
    s[0] += kStep * s[1];
    s[1] += kStep * push;
    s[2] += kStep * s[3];
    s[3] += kStep * turn;
    return {1.0, std::fabs(s[0]) > kPlace || std::fabs(s[2]) > kAngle, false};
  }
  void observe(std::span<const double> s, std::uint64_t, std::span<float> to) const override {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(s[i]);
  }
  bool is_possible(std::span<const double> s) const override { return std::fabs(s[2]) < 10.0; }
};

}  // namespace

std::unique_ptr<Environment> make_cartpole(const EnvironmentOptions&) { return std::make_unique<CartPole>(); }

}  // namespace weft::agent
