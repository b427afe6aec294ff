// SPDX-License-Identifier: Apache-2.0

#include "agent/environments/environment.hpp"

#include <cmath>

namespace weft::agent {
namespace {

/// A bit that is shown in the first step and asked for in the last: 1 for the right answer, else -1.
/// @source Osband et al. 2020, "Behaviour suite for reinforcement learning", arXiv:1908.03568, the environment
///         memory_len
class MemoryChain final : public Environment {
 public:
  explicit MemoryChain(std::uint32_t length)
      : Environment({.observations = 3, .choices = 2, .state = 1}), length_(length) {}

 private:
  void begin(std::span<double> s, RandomStream& random) const override { s[0] = random.next_below(2); }
  Outcome move(std::span<double> s, const Action& action, std::uint64_t step, RandomStream&) const override {
    if (step < length_) return {};
    return {static_cast<double>(action.choice) == s[0] ? 1.0 : -1.0, true, false};
  }
  void observe(std::span<const double> s, std::uint64_t step, std::span<float> to) const override {
    to[0] = static_cast<float>(1.0 - static_cast<double>(step) / length_);
    to[1] = step == length_ ? 1.0f : 0.0f;
    to[2] = step == 0 ? static_cast<float>(2.0 * s[0] - 1.0) : 0.0f;
  }
  bool is_possible(std::span<const double> s) const override { return s[0] == 0.0 || s[0] == 1.0; }

  std::uint32_t length_;
};

}  // namespace

std::unique_ptr<Environment> make_memory_chain(const EnvironmentOptions& options) {
  return std::make_unique<MemoryChain>(options.length);
}

}  // namespace weft::agent
