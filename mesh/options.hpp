// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace weft::mesh {

/// One setting of a layer as the network file or the builder gave it.
using OptionValue = std::variant<bool, double, std::string, std::vector<double>>;

/// The settings that a layer type reads for itself (activation, bias, epsilon, ...), by name.
using Options = std::map<std::string, OptionValue, std::less<>>;

/// Reads a layer's options one by one and then refuses those that nobody read.
/// @error parse_failed or invalid_argument, naming the layer, the key, what was found and what is expected
class OptionReader {
 public:
  OptionReader(const Options& options, std::string object, std::array<std::uint32_t, 2> noise_key = {})
      : options_(options), object_(std::move(object)), noise_key_(noise_key) {}

  Result<bool> boolean(std::string_view key, bool otherwise);
  /// A finite number in [low, high].
  Result<double> number(std::string_view key, double otherwise, double low, double high);
  /// A whole number in [low, high].
  Result<std::size_t> integer(std::string_view key, std::size_t otherwise, std::size_t low, std::size_t high);
  /// Whole numbers in [low, high], `count` of them (0: any number, at least one). One number alone stands for all.
  Result<std::vector<std::size_t>> integers(std::string_view key, std::vector<std::size_t> otherwise, std::size_t count,
                                            std::size_t low, std::size_t high);
  /// A list of finite numbers; empty when it is not given.
  Result<std::vector<double>> numbers(std::string_view key);
  Result<std::string> text(std::string_view key, std::string_view otherwise);
  /// @error unknown_name when an option was given that this layer type does not have
  Status finish() const;
  const std::string& object() const noexcept { return object_; }
  /// The Philox key of what the layer draws while it runs: of the network's seed and its own place.
  std::array<std::uint32_t, 2> noise_key() const noexcept { return noise_key_; }

 private:
  const OptionValue* take(std::string_view key);
  Result<std::size_t> whole(const std::string& place, double number, std::size_t low, std::size_t high) const;
  Failure wrong_type(std::string_view key, const OptionValue& found, std::string_view expected) const;

  const Options& options_;
  std::string object_;
  std::array<std::uint32_t, 2> noise_key_;
  std::map<std::string, bool, std::less<>> read_;
};

}  // namespace weft::mesh
