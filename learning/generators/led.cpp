// SPDX-License-Identifier: Apache-2.0

#include "learning/generators/generator.hpp"

#include <array>
#include <utility>

namespace weft::learning {
namespace {

/// A digit on seven segments, each wrong with a probability of a tenth, and 17 features that mean nothing. Task k has
/// its first 2 k - 1 segments in the places of as many of those (task 0 none).
/// @source Breiman, Friedman, Olshen and Stone 1984, "Classification and regression trees", section 2.6.1
class Led final : public SampleGenerator {
 public:
  explicit Led(const GeneratorOptions& options) : SampleGenerator(options, {numbered_features(24), 10, 5}) {}

 private:
  void draw(RandomStream& random, std::uint64_t task, std::span<float> x, float& y) override {
    // Top, upper left and right, middle, lower left and right, bottom.
    constexpr std::array<std::string_view, 10> kDigits{"1110111", "0010010", "1011101", "1011011", "0111010",
                                                       "1101011", "1101111", "1010010", "1111111", "1111011"};
    constexpr std::size_t kSegments = 7;
    const std::uint32_t digit = random.next_below(10);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const bool is_lit = i < kSegments ? kDigits[digit][i] == '1' : random.next_below(2) == 1;
      const bool is_wrong = i < kSegments && random.next_uniform() < options().noise.value_or(0.1f);
      x[i] = is_lit != is_wrong ? 1.0f : 0.0f;
    }
    const std::size_t moved = task == 0 ? 0 : 2 * task - 1;
    for (std::size_t i = 0; i < moved; ++i) std::swap(x[i], x[kSegments + i]);
    y = static_cast<float>(digit);
  }
};

}  // namespace

std::unique_ptr<SampleGenerator> make_led(const GeneratorOptions& options) { return std::make_unique<Led>(options); }

}  // namespace weft::learning
