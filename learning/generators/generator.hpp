// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/philox.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::learning {

enum class GeneratorKind : int {
#define WEFT_GENERATOR(name, meaning) name,
#include "learning/generators/generators.def"
#undef WEFT_GENERATOR
};
std::string_view name(GeneratorKind kind) noexcept;
std::span<const std::string_view> generator_names() noexcept;
std::optional<GeneratorKind> parse_generator(std::string_view text) noexcept;

struct GeneratorOptions {
  GeneratorKind kind = GeneratorKind::sea;
  std::uint64_t seed = 0;
  std::uint64_t change_every = 0;    ///< samples of a task; 0: it stays
  std::uint64_t width = 0;           ///< samples in which the new task replaces the old one, more and more often
  std::uint32_t first = 0;           ///< the task that it begins with
  std::optional<float> noise{};      ///< share of labels (led: segments) that are wrong, or deviation of the value
  std::optional<float> magnitude{};  ///< of the turn of a plane in a sample (hyperplane)
};

struct GeneratorShape {
  std::vector<std::string> features;  ///< their names
  std::uint32_t classes = 0;          ///< 0: a value
  std::uint32_t tasks = 1;            ///< that follow one another, over again; 0: each is a new one
};

/// Stream of labelled samples whose task changes: a sample is a function of seed and number.
/// @thread one at a time
/// @exact  the same samples everywhere: no libm, Philox with the purpose `generator`
class SampleGenerator {
 public:
  virtual ~SampleGenerator() = default;
  const GeneratorShape& shape() const noexcept { return shape_; }
  /// Makes the next sample: its features, and its class or value.
  void next(std::span<float> features, float& target);
  /// Its number, from 0.
  std::uint64_t position() const noexcept { return position_; }
  /// The task that the sample `n` is of, counted on from the first.
  std::uint64_t task_of(std::uint64_t n) const noexcept;

 protected:
  SampleGenerator(const GeneratorOptions& options, GeneratorShape shape)
      : options_(options), shape_(std::move(shape)) {}
  virtual void draw(RandomStream& random, std::uint64_t task, std::span<float> x, float& y) = 0;
  const GeneratorOptions& options() const noexcept { return options_; }

 private:
  GeneratorOptions options_;
  GeneratorShape shape_;
  std::uint64_t position_ = 0;
};

std::unique_ptr<SampleGenerator> make_generator(const GeneratorOptions& options);

#define WEFT_GENERATOR(name, meaning) std::unique_ptr<SampleGenerator> make_##name(const GeneratorOptions& options);
#include "learning/generators/generators.def"
#undef WEFT_GENERATOR

/// "x1" to "xN".
std::vector<std::string> numbered_features(std::size_t count);
/// A label, or with probability `noise` another one of the classes.
float noisy_label(RandomStream& random, std::uint32_t label, std::uint32_t classes, float noise);

}  // namespace weft::learning
