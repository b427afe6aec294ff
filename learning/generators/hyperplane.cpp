// SPDX-License-Identifier: Apache-2.0

#include "learning/generators/generator.hpp"

#include <array>

namespace weft::learning {
namespace {

/// Ten features from 0 to 1; class 1 where their sum, weighted, is at least half of the weights' sum. The first two
/// weights move with each sample by `magnitude`, and turn round with a probability of a tenth. Each task has weights of
/// its own. A twentieth of the labels is wrong.
/// @source Hulten, Spencer and Domingos 2001, "Mining time-changing data streams", KDD
class Hyperplane final : public SampleGenerator {
 public:
  explicit Hyperplane(const GeneratorOptions& options)
      : SampleGenerator(options, {numbered_features(kFeatures), 2, 0}) {}

 private:
  static constexpr std::size_t kFeatures = 10, kMoving = 2;
  static constexpr float kTurns = 0.1f, kMagnitude = 0.001f;

  void begin(std::uint64_t task) {
    // Places of tasks lie behind those of samples.
    RandomStream random(options().seed, (std::uint64_t{1} << 35) + task, RandomPurpose::generator);
    for (float& weight : weights_) weight = random.next_uniform();
    directions_.fill(1.0f);
    task_ = task;
  }

  void draw(RandomStream& random, std::uint64_t task, std::span<float> x, float& y) override {
    if (task != task_) begin(task);
    float sum = 0.0f, whole = 0.0f;
    for (std::size_t i = 0; i < kFeatures; ++i) {
      x[i] = random.next_uniform();
      sum += weights_[i] * x[i];
      whole += weights_[i];
    }
    y = noisy_label(random, sum >= 0.5f * whole ? 1 : 0, 2, options().noise.value_or(0.05f));
    for (std::size_t i = 0; i < kMoving; ++i) {
      weights_[i] += directions_[i] * options().magnitude.value_or(kMagnitude);
      if (random.next_uniform() < kTurns) directions_[i] = -directions_[i];
    }
  }

  std::array<float, kFeatures> weights_{};
  std::array<float, kMoving> directions_{};
  std::uint64_t task_ = UINT64_MAX;
};

}  // namespace

std::unique_ptr<SampleGenerator> make_hyperplane(const GeneratorOptions& options) {
  return std::make_unique<Hyperplane>(options);
}

}  // namespace weft::learning
