// SPDX-License-Identifier: Apache-2.0

#include "agent/environments/environment.hpp"

#include "kernels/math.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace weft::agent {
namespace {

/// Two links that hang from a bar, with a torque at the joint between them; -1 a step until the tip is a link's length
/// above the bar.
/// @source Sutton 1996, "Generalization in reinforcement learning: successful examples using sparse coarse coding"; the
///         equations of Sutton and Barto's book, numbers and one Runge-Kutta step as in Gymnasium's Acrobot-v1
class Acrobot final : public Environment {
 public:
  Acrobot() : Environment({.observations = 6, .choices = 3, .limit = 500, .state = 4}) {}

 private:
  using State = std::array<double, 4>;  // both angles, both speeds
  static constexpr double kPi = 3.14159265358979323846, kGravity = 9.8, kStep = 0.2, kHalf = 0.5;

  static double sine(double angle) noexcept { return kernels::math::sin(static_cast<float>(angle)); }
  static double cosine(double angle) noexcept { return kernels::math::cos(static_cast<float>(angle)); }

  /// Derivatives; masses, lengths and moments of inertia are 1.
  static State slope(const State& s, double torque) noexcept {
    const double cosine2 = cosine(s[1]), sine2 = sine(s[1]);
    const double d1 = kHalf * kHalf + (1.0 + kHalf * kHalf + 2.0 * kHalf * cosine2) + 1.0 + 1.0;
    const double d2 = kHalf * kHalf + kHalf * cosine2 + 1.0;
    // cos(angle - pi / 2) is sin(angle).
    const double phi2 = kHalf * kGravity * sine(s[0] + s[1]);
    const double phi1 =
        -kHalf * s[3] * s[3] * sine2 - 2.0 * kHalf * s[3] * s[2] * sine2 + (kHalf + 1.0) * kGravity * sine(s[0]) + phi2;
    const double second =
        (torque + d2 / d1 * phi1 - kHalf * s[2] * s[2] * sine2 - phi2) / (kHalf * kHalf + 1.0 - d2 * d2 / d1);
    return {s[2], s[3], -(d2 * second + phi1) / d1, second};
  }
  static State along(const State& s, const State& slope, double time) noexcept {
    State at;
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = s[i] + time * slope[i];
    return at;
  }
  static double wrapped(double angle) noexcept {
    while (angle > kPi) angle -= 2.0 * kPi;
    while (angle < -kPi) angle += 2.0 * kPi;
    return angle;
  }

  void begin(std::span<double> s, RandomStream& random) const override {
    for (double& value : s) value = uniform(random, -0.1, 0.1);
  }
  Outcome move(std::span<double> s, const Action& action, std::uint64_t, RandomStream&) const override {
    const double torque = static_cast<double>(action.choice) - 1.0;
    const State from{s[0], s[1], s[2], s[3]};
    const State k1 = slope(from, torque), k2 = slope(along(from, k1, kStep / 2.0), torque),
                k3 = slope(along(from, k2, kStep / 2.0), torque), k4 = slope(along(from, k3, kStep), torque);
    for (std::size_t i = 0; i < s.size(); ++i)
      s[i] = from[i] + kStep / 6.0 * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]);
    s[0] = wrapped(s[0]);
    s[1] = wrapped(s[1]);
    s[2] = std::clamp(s[2], -4.0 * kPi, 4.0 * kPi);
    s[3] = std::clamp(s[3], -9.0 * kPi, 9.0 * kPi);
    const bool is_up = -cosine(s[0]) - cosine(s[1] + s[0]) > 1.0;
    return {is_up ? 0.0 : -1.0, is_up, false};
  }
  void observe(std::span<const double> s, std::uint64_t, std::span<float> to) const override {
    for (std::size_t i = 0; i < 2; ++i) {
      to[2 * i] = static_cast<float>(cosine(s[i]));
      to[2 * i + 1] = static_cast<float>(sine(s[i]));
      to[4 + i] = static_cast<float>(s[2 + i]);
    }
  }
  bool is_possible(std::span<const double> s) const override {
    return std::fabs(s[0]) <= kPi && std::fabs(s[1]) <= kPi && std::fabs(s[2]) <= 4.0 * kPi &&
           std::fabs(s[3]) <= 9.0 * kPi;
  }
};

}  // namespace

std::unique_ptr<Environment> make_acrobot(const EnvironmentOptions&) { return std::make_unique<Acrobot>(); }

}  // namespace weft::agent
