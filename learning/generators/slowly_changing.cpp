// SPDX-License-Identifier: Apache-2.0

#include "learning/generators/generator.hpp"

#include <array>
#include <bit>

namespace weft::learning {
namespace {

/// Twenty bits, and a value that a network of 100 threshold units makes of them and of a constant 1: a unit is on where
/// at least 15 of its 21 inputs are as it wants them (0.7 of them), and adds 1 or -1. Fifteen bits stay through a task;
/// from one task to the next one of them flips. The others are drawn anew for each sample.
/// @source Dohare et al. 2024, "Loss of plasticity in deep continual learning", Nature 632, methods
class SlowlyChanging final : public SampleGenerator {
 public:
  explicit SlowlyChanging(const GeneratorOptions& options)
      : SampleGenerator(options, {numbered_features(kBits), 0, 0}) {
    RandomStream random = behind_samples(0);
    for (std::uint32_t& unit : wanted_)
      for (std::size_t i = 0; i <= kBits; ++i) unit |= random.next_below(2) << i;
    for (float& weight : weights_) weight = random.next_below(2) == 1 ? 1.0f : -1.0f;
    for (std::size_t i = 0; i < kSlow; ++i) slow_ |= random.next_below(2) << i;
  }

 private:
  static constexpr std::size_t kBits = 20, kSlow = 15, kUnits = 100;
  static constexpr int kLeast = 15;

  RandomStream behind_samples(std::uint64_t place) const {
    return {options().seed, (std::uint64_t{1} << 35) + place, RandomPurpose::generator};
  }
  void flip(std::uint64_t task) { slow_ ^= 1u << behind_samples(task).next_below(kSlow); }

  void draw(RandomStream& random, std::uint64_t task, std::span<float> x, float& y) override {
    while (task_ < task) flip(++task_);
    while (task_ > task) flip(task_--);  // a new task replaces the old one little by little
    std::uint32_t bits = slow_ | 1u << kBits;
    for (std::size_t i = kSlow; i < kBits; ++i) bits |= random.next_below(2) << i;
    for (std::size_t i = 0; i < kBits; ++i) x[i] = static_cast<float>(bits >> i & 1u);
    constexpr std::uint32_t kAll = (2u << kBits) - 1;
    y = 0.0f;
    for (std::size_t unit = 0; unit < kUnits; ++unit)
      if (std::popcount(~(bits ^ wanted_[unit]) & kAll) >= kLeast) y += weights_[unit];
    y += options().noise.value_or(0.0f) * random.next_normal();
  }

  std::array<std::uint32_t, kUnits> wanted_{};
  std::array<float, kUnits> weights_{};
  std::uint32_t slow_ = 0;
  std::uint64_t task_ = 0;
};

}  // namespace

std::unique_ptr<SampleGenerator> make_slowly_changing(const GeneratorOptions& options) {
  return std::make_unique<SlowlyChanging>(options);
}

}  // namespace weft::learning
