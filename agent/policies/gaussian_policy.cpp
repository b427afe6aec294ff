// SPDX-License-Identifier: Apache-2.0

#include "agent/policies/policy.hpp"

#include "kernels/math.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace weft::agent {
namespace {

// As large as the numbers that an external environment may answer with.
constexpr double kLargestValue = 1e18;

class GaussianPolicy final : public Policy {
 public:
  GaussianPolicy(std::size_t sessions, std::size_t values, double least_deviation)
      : values_(values), least_deviation_(least_deviation), draws_(sessions * values), actions_(sessions * values) {}
  std::size_t width() const noexcept override { return 2 * values_; }

  Result<Action> draw(std::size_t session, std::span<const float> outputs, RandomStream& random) override {
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (!std::isfinite(outputs[i]))
        return fail(Errc::halted, "output of the actor: value " + std::to_string(i) +
                                      " is not finite, so no action can be drawn from it");
    for (std::size_t i = 0; i < values_; ++i) {
      Draw& of = draws_[session * values_ + i];
      const float raw = outputs[values_ + i];
      const float softplus = std::max(raw, 0.0f) + kernels::math::log1p_unit(kernels::math::exp(-std::fabs(raw)));
      of.deviation = least_deviation_ + static_cast<double>(softplus);
      of.slope = kernels::math::sigmoid(raw);
      of.normal = draw_normal(random);
      const double value = static_cast<double>(outputs[i]) + of.deviation * of.normal;
      actions_[session * values_ + i] = static_cast<float>(std::clamp(value, -kLargestValue, kLargestValue));
    }
    return Action{0, std::span(actions_).subspan(session * values_, values_)};
  }

  void find_gradient(std::size_t session, double weight, std::span<float> to) const noexcept override {
    for (std::size_t i = 0; i < values_; ++i) {
      const Draw& of = draws_[session * values_ + i];
      to[i] = static_cast<float>(-(of.normal / of.deviation));
      const double by_deviation = (of.normal * of.normal - 1.0 + weight) / of.deviation;
      to[values_ + i] = static_cast<float>(-(by_deviation * of.slope));
    }
  }

 private:
  struct Draw {
    double normal = 0.0, deviation = 1.0;
    double slope = 0.0;  // of the deviation, by the output that it comes from
  };
  std::size_t values_;
  double least_deviation_;
  std::vector<Draw> draws_;  // [session][value]
  std::vector<float> actions_;
};

}  // namespace

double draw_normal(RandomStream& random) noexcept {
  constexpr float kTwoPi = 6.28318530717958648f;
  const double above_zero = 1.0 - static_cast<double>(random.next_uniform());
  const double radius = std::sqrt(-2.0 * kernels::math::log_binary64(above_zero));
  return radius * static_cast<double>(kernels::math::cos(kTwoPi * random.next_uniform()));
}

std::unique_ptr<Policy> make_gaussian_policy(std::size_t sessions, std::size_t values, double least_deviation) {
  return std::make_unique<GaussianPolicy>(sessions, values, least_deviation);
}

}  // namespace weft::agent
