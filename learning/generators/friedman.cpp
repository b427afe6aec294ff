// SPDX-License-Identifier: Apache-2.0

#include "learning/generators/generator.hpp"

#include "kernels/math.hpp"

namespace weft::learning {
namespace {

/// Ten features from 0 to 1, of which five make the value; which of them does what differs between the two tasks.
///   y = 10 sin(pi a b) + 20 (c - 1/2)^2 + 10 d + 5 e + noise
/// @source Friedman 1991, "Multivariate adaptive regression splines", Annals of Statistics 19, equation 61; the second
///         task: Ikonomovska, Gama and Dzeroski 2011, "Learning model trees from evolving data streams", DMKD 23
class Friedman final : public SampleGenerator {
 public:
  explicit Friedman(const GeneratorOptions& options) : SampleGenerator(options, {numbered_features(10), 0, 2}) {}

 private:
  void draw(RandomStream& random, std::uint64_t task, std::span<float> x, float& y) override {
    constexpr float kPi = 3.14159265f;
    constexpr std::size_t kPlaces[2][5] = {{0, 1, 2, 3, 4}, {3, 4, 1, 0, 2}};
    for (float& value : x) value = random.next_uniform();
    const auto of = [&](std::size_t i) { return x[kPlaces[task][i]]; };
    const float middle = of(2) - 0.5f;
    y = 10.0f * kernels::math::sin(kPi * of(0) * of(1)) + 20.0f * middle * middle + 10.0f * of(3) + 5.0f * of(4);
    y += options().noise.value_or(1.0f) * random.next_normal();
  }
};

}  // namespace

std::unique_ptr<SampleGenerator> make_friedman(const GeneratorOptions& options) {
  return std::make_unique<Friedman>(options);
}

}  // namespace weft::learning
