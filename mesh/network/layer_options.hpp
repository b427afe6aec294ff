// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/fwd.hpp"

#include "core/coord.hpp"
#include "core/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace weft::mesh {

/// One setting of a layer as the network file or the builder gave it.
using OptionValue = std::variant<bool, double, std::string, std::vector<double>>;

/// The settings that a layer type reads for itself (activation, bias, epsilon, ...), by name.
using Options = std::map<std::string, OptionValue, std::less<>>;

/// Properties of the surrounding network that a layer's factory may use.
struct LayerContext {
  /// The Philox key of what the layer draws while it runs: of the network's seed and its own place.
  std::array<std::uint32_t, 2> noise_key{};
  /// Containers around it.
  unsigned depth = 0;
  /// The layer at a place of the grid, for a container that computes with its weights. Null: there is no grid.
  std::function<Result<std::shared_ptr<const Layer>>(Coord)> find_tied;
};

/// Reads a layer's options one by one and then refuses those that nobody read.
/// @error parse_failed or invalid_argument, naming the layer, the key, what was found and what is expected
class OptionReader {
 public:
  OptionReader(const Options& options, std::string object, LayerContext context = {},
               const std::vector<LayerSpec>* layers = nullptr)
      : options_(options), object_(std::move(object)), context_(std::move(context)), layers_(layers) {}

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
  /// The layers inside a container.
  const std::vector<LayerSpec>& layers();
  /// @error unknown_name when an option was given that this layer type does not have, or layers to no container
  Status finish() const;
  const std::string& object() const noexcept { return object_; }
  const LayerContext& context() const noexcept { return context_; }
  std::array<std::uint32_t, 2> noise_key() const noexcept { return context_.noise_key; }

 private:
  const OptionValue* take(std::string_view key);
  Result<std::size_t> whole(const std::string& place, double number, std::size_t low, std::size_t high) const;
  Failure wrong_type(std::string_view key, const OptionValue& found, std::string_view expected) const;

  const Options& options_;
  std::string object_;
  LayerContext context_;
  const std::vector<LayerSpec>* layers_;
  bool has_read_layers_ = false;
  std::map<std::string, bool, std::less<>> read_;
};

}  // namespace weft::mesh
