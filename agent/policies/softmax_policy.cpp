// SPDX-License-Identifier: Apache-2.0

#include "agent/policies/policy.hpp"

#include "kernels/math.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace weft::agent {
namespace {

class SoftmaxPolicy final : public Policy {
 public:
  SoftmaxPolicy(std::size_t sessions, std::size_t choices)
      : width_(choices), probabilities_(sessions * choices), logarithms_(sessions * choices), taken_(sessions) {}
  std::size_t width() const noexcept override { return width_; }

  Result<Action> draw(std::size_t session, std::span<const float> logits, RandomStream& random) override {
    double* const probabilities = probabilities_.data() + session * width_;
    double* const logarithms = logarithms_.data() + session * width_;
    const float largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0.0;
    for (std::size_t j = 0; j < width_; ++j)
      sum += probabilities[j] = static_cast<double>(kernels::math::exp(logits[j] - largest));
    const double log_sum = kernels::math::log(static_cast<float>(sum));
    for (std::size_t j = 0; j < width_; ++j) {
      probabilities[j] /= sum;
      logarithms[j] = static_cast<double>(logits[j] - largest) - log_sum;
    }
    double left = random.next_uniform();
    std::uint32_t choice = 0;
    while (choice + 1 < width_ && left >= probabilities[choice]) left -= probabilities[choice++];
    taken_[session] = choice;
    return Action{choice, {}};
  }

  /// By the logits: log p(a) has the slope [j is a] - p, H(p) has -p (log p + H).
  void find_gradient(std::size_t session, double weight, std::span<float> to) const noexcept override {
    const double* const probabilities = probabilities_.data() + session * width_;
    const double* const logarithms = logarithms_.data() + session * width_;
    double entropy = 0.0;
    for (std::size_t j = 0; j < width_; ++j) entropy -= probabilities[j] * logarithms[j];
    for (std::size_t j = 0; j < width_; ++j) {
      const double taken = (j == taken_[session] ? 1.0 : 0.0) - probabilities[j];
      const double spread = -probabilities[j] * (logarithms[j] + entropy);
      to[j] = static_cast<float>(-(taken + weight * spread));
    }
  }

 private:
  std::size_t width_;
  std::vector<double> probabilities_, logarithms_;  // [session][width]
  std::vector<std::uint32_t> taken_;                // by session
};

}  // namespace

std::unique_ptr<Policy> make_softmax_policy(std::size_t sessions, std::size_t choices) {
  return std::make_unique<SoftmaxPolicy>(sessions, choices);
}

}  // namespace weft::agent
