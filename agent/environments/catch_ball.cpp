// SPDX-License-Identifier: Apache-2.0

#include "agent/environments/environment.hpp"

#include <algorithm>
#include <cmath>

namespace weft::agent {
namespace {

/// A ball that falls through a grid of 10 rows and 5 columns, and a paddle on its lowest row: 1 when they meet, else
/// -1.
/// @source Osband et al. 2020, "Behaviour suite for reinforcement learning", arXiv:1908.03568, the environment catch
class Catch final : public Environment {
 public:
  Catch() : Environment({.observations = kRows * kColumns, .choices = 3, .state = 3}) {}

 private:
  static constexpr std::size_t kRows = 10, kColumns = 5;

  // The ball's row and column, the paddle's column.
  void begin(std::span<double> s, RandomStream& random) const override {
    s[0] = 0.0;
    s[1] = random.next_below(kColumns);
    s[2] = kColumns / 2;
  }
  Outcome move(std::span<double> s, const Action& action, std::uint64_t, RandomStream&) const override {
    s[2] = std::clamp(s[2] + static_cast<double>(action.choice) - 1.0, 0.0, kColumns - 1.0);
    s[0] = std::min(s[0] + 1.0, kRows - 1.0);
    const bool is_down = s[0] == kRows - 1.0;
    return {!is_down ? 0.0 : s[1] == s[2] ? 1.0 : -1.0, is_down, false};
  }
  void observe(std::span<const double> s, std::uint64_t, std::span<float> to) const override {
    std::fill(to.begin(), to.end(), 0.0f);
    to[static_cast<std::size_t>(s[0]) * kColumns + static_cast<std::size_t>(s[1])] = 1.0f;
    to[(kRows - 1) * kColumns + static_cast<std::size_t>(s[2])] = 1.0f;
  }
  bool is_possible(std::span<const double> s) const override {
    const auto is_index = [](double value, std::size_t count) {
      return value >= 0.0 && value < static_cast<double>(count) && value == std::floor(value);
    };
    return is_index(s[0], kRows) && is_index(s[1], kColumns) && is_index(s[2], kColumns);
  }
};

}  // namespace

std::unique_ptr<Environment> make_catch_ball(const EnvironmentOptions&) { return std::make_unique<Catch>(); }

}  // namespace weft::agent
