// SPDX-License-Identifier: Apache-2.0

#include "learning/generators/generator.hpp"

#include "kernels/float_environment.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <array>

namespace weft::learning {
namespace {

constexpr std::array kNames{
#define WEFT_GENERATOR(name, meaning) std::string_view(#name),
#include "learning/generators/generators.def"
#undef WEFT_GENERATOR
};

}  // namespace

std::string_view name(GeneratorKind kind) noexcept { return kNames[static_cast<std::size_t>(kind)]; }
std::span<const std::string_view> generator_names() noexcept { return kNames; }

std::optional<GeneratorKind> parse_generator(std::string_view text) noexcept {
  const auto found = std::find(kNames.begin(), kNames.end(), text);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<GeneratorKind>(found - kNames.begin());
}

std::unique_ptr<SampleGenerator> make_generator(const GeneratorOptions& options) {
  switch (options.kind) {
#define WEFT_GENERATOR(name, meaning) \
  case GeneratorKind::name:           \
    return make_##name(options);
#include "learning/generators/generators.def"
#undef WEFT_GENERATOR
  }
  WEFT_ASSERT(false, "a generator has a row");
  return nullptr;
}

std::uint64_t SampleGenerator::task_of(std::uint64_t n) const noexcept {
  if (options_.change_every == 0) return options_.first;
  const std::uint64_t changes = n / options_.change_every, since = n % options_.change_every;
  if (changes == 0 || since >= options_.width) return options_.first + changes;
  RandomStream random(options_.seed, n, RandomPurpose::generator);
  random.seek(std::uint64_t{1} << 32);  // beyond what a sample draws
  const bool is_new =
      static_cast<double>(random.next_uniform()) * static_cast<double>(options_.width) < static_cast<double>(since);
  return options_.first + changes - (is_new ? 0 : 1);
}

void SampleGenerator::next(std::span<float> features, float& target) {
  const kernels::FlushSubnormals exact;
  const std::uint64_t task = task_of(position_);
  RandomStream random(options_.seed, position_, RandomPurpose::generator);
  draw(random, shape_.tasks == 0 ? task : task % shape_.tasks, features, target);
  ++position_;
}

std::vector<std::string> numbered_features(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 1; i <= count; ++i) names.push_back("x" + std::to_string(i));
  return names;
}

float noisy_label(RandomStream& random, std::uint32_t label, std::uint32_t classes, float noise) {
  if (random.next_uniform() >= noise) return static_cast<float>(label);
  return static_cast<float>((label + 1 + random.next_below(classes - 1)) % classes);
}

}  // namespace weft::learning
