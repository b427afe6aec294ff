// SPDX-License-Identifier: Apache-2.0

#include "agent/environments/environment.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace weft::agent {
namespace {

/// A point on a plane of 64 by 64 places is to go after a target, and, a number of steps later, to get away from it,
/// and so on by turns, of which the agent is told nothing: 1 for the right action, else 0. Right is the action along
/// the longer of both distances, the horizontal one where they are equal: towards the target, or away from it. In a
/// step: the point moves by two places; the target by one, to a side that is drawn, or stays. An episode has 32 steps;
/// a target that is reached is put elsewhere.
/// @source original here, after the protocol of adaptation that docs/benchmarks.md describes
class Chase final : public Environment {
 public:
  explicit Chase(std::uint64_t every)
      : Environment({.observations = 8, .choices = 4, .state = kNumbers}), every_(every) {}

 private:
  static constexpr double kSide = 64.0, kStride = 2.0;
  static constexpr std::uint64_t kLimit = 32;
  // 1 to get away; steps until the end of the turn; then both places.
  enum : std::size_t { kAway, kLeft, kX, kY, kTargetX, kTargetY, kNumbers };
  enum : std::uint32_t { kToLeft, kToRight, kUp, kDown };

  static double drawn(RandomStream& random) { return random.next_below(static_cast<std::uint32_t>(kSide)); }
  static void put_target(std::span<double> s, RandomStream& random) {
    do {
      s[kTargetX] = drawn(random);
      s[kTargetY] = drawn(random);
    } while (s[kTargetX] == s[kX] && s[kTargetY] == s[kY]);
  }
  static std::uint32_t right_action(std::span<const double> s) {
    const double dx = s[kTargetX] - s[kX], dy = s[kTargetY] - s[kY];
    const bool away = s[kAway] == 1.0;
    if (std::fabs(dx) >= std::fabs(dy)) return (dx > 0.0) != away ? kToRight : kToLeft;
    return (dy > 0.0) != away ? kDown : kUp;
  }
  static void go(double& x, double& y, std::uint32_t side, double stride) {
    x = std::clamp(x + (side == kToRight ? stride : side == kToLeft ? -stride : 0.0), 0.0, kSide - 1.0);
    y = std::clamp(y + (side == kDown ? stride : side == kUp ? -stride : 0.0), 0.0, kSide - 1.0);
  }

  void begin(std::span<double> s, RandomStream& random) const override {
    s[kAway] = static_cast<double>(step_of_agent() / every_ % 2);
    s[kLeft] = static_cast<double>(every_ - step_of_agent() % every_);
    s[kX] = drawn(random);
    s[kY] = drawn(random);
    put_target(s, random);
  }
  Outcome move(std::span<double> s, const Action& action, std::uint64_t step, RandomStream& random) const override {
    const double reward = action.choice == right_action(s) ? 1.0 : 0.0;
    go(s[kX], s[kY], action.choice, kStride);
    go(s[kTargetX], s[kTargetY], random.next_below(5), 1.0);  // 4: it stays
    if (s[kTargetX] == s[kX] && s[kTargetY] == s[kY]) put_target(s, random);
    if (s[kLeft] -= 1.0; s[kLeft] == 0.0) {
      s[kAway] = 1.0 - s[kAway];
      s[kLeft] = static_cast<double>(every_);
    }
    return {reward, false, step + 1 >= kLimit};
  }
  void observe(std::span<const double> s, std::uint64_t, std::span<float> to) const override {
    const double dx = s[kTargetX] - s[kX], dy = s[kTargetY] - s[kY];
    const double numbers[] = {s[kX], s[kY], s[kTargetX], s[kTargetY], dx, dy, std::fabs(dx), std::fabs(dy)};
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(numbers[i] / kSide);
  }
  bool is_possible(std::span<const double> s) const override {
    const auto is_whole = [](double value, double low, double high) {
      return value >= low && value <= high && value == std::floor(value);
    };
    return is_whole(s[kAway], 0.0, 1.0) && is_whole(s[kLeft], 1.0, static_cast<double>(every_)) &&
           std::all_of(s.begin() + kX, s.end(), [&](double at) { return is_whole(at, 0.0, kSide - 1.0); }) &&
           (s[kX] != s[kTargetX] || s[kY] != s[kTargetY]);
  }

  std::uint64_t every_;
};

}  // namespace

std::unique_ptr<Environment> make_chase(const EnvironmentOptions& options) {
  return std::make_unique<Chase>(options.every);
}

}  // namespace weft::agent
