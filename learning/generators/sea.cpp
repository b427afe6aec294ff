// SPDX-License-Identifier: Apache-2.0

#include "learning/generators/generator.hpp"

namespace weft::learning {
namespace {

/// Three features from 0 to 10; class 1 where the sum of the first two is above a bound, which differs from task to
/// task: 8, 9, 7, 9.5. A tenth of the labels is wrong.
/// @source Street and Kim 2001, "A streaming ensemble algorithm (SEA) for large-scale classification", KDD
class Sea final : public SampleGenerator {
 public:
  explicit Sea(const GeneratorOptions& options) : SampleGenerator(options, {numbered_features(3), 2, 4}) {}

 private:
  void draw(RandomStream& random, std::uint64_t task, std::span<float> x, float& y) override {
    constexpr float kBounds[] = {8.0f, 9.0f, 7.0f, 9.5f};
    for (float& value : x) value = 10.0f * random.next_uniform();
    y = noisy_label(random, x[0] + x[1] > kBounds[task] ? 1 : 0, 2, options().noise.value_or(0.1f));
  }
};

}  // namespace

std::unique_ptr<SampleGenerator> make_sea(const GeneratorOptions& options) { return std::make_unique<Sea>(options); }

}  // namespace weft::learning
