// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/fwd.hpp"
#include "mesh/network/layer_options.hpp"

#include "core/option_row.hpp"
#include "core/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::mesh {

/// A layer's options as its type declares them: kinds, bounds, names and defaults are those of the rows. A getter's
/// second argument is the value of an option that is not given, where the row says in words what that is.
/// @error parse_failed, out_of_range, shape_mismatch or unknown_name, naming the layer, the key, what was found and
/// what
///        is expected; internal: the layer type reads what it has not declared
class OptionReader {
 public:
  OptionReader(const Options& options, std::span<const OptionRow> rows, std::string object, LayerContext context = {},
               const std::vector<LayerSpec>* layers = nullptr)
      : options_(options), rows_(rows), object_(std::move(object)), context_(std::move(context)), layers_(layers) {}

  /// Refuses all at once: options that the type does not have, and those that it needs and are not given. `out`: the
  /// width that the file states, or 0.
  /// @error unknown_name, or parse_failed when nothing is unknown
  Status check_names(std::size_t out) const;

  Result<bool> boolean(std::string_view key, std::optional<bool> otherwise = std::nullopt);
  /// A finite number.
  Result<double> number(std::string_view key, std::optional<double> otherwise = std::nullopt);
  Result<std::size_t> integer(std::string_view key, std::optional<std::size_t> otherwise = std::nullopt);
  /// Whole numbers, `count` of them (0: as many as the row allows).
  Result<std::vector<std::size_t>> integers(std::string_view key, std::size_t count,
                                            std::optional<std::vector<std::size_t>> otherwise = std::nullopt);
  /// A list of finite numbers; empty when it is not given.
  Result<std::vector<double>> numbers(std::string_view key);
  /// One of the row's names.
  Result<std::string> text(std::string_view key);
  /// The layers inside a container.
  const std::vector<LayerSpec>& layers();
  /// @error unknown_name: layers to no container; internal: an option was given that the layer type declares and did
  /// not
  ///        read
  Status finish() const;
  const std::string& object() const noexcept { return object_; }
  const LayerContext& context() const noexcept { return context_; }
  std::array<std::uint32_t, 2> noise_key() const noexcept { return context_.noise_key; }

 private:
  /// An option's row, and its value where it is given.
  struct Found {
    const OptionRow* row;
    const OptionValue* value;
  };
  Result<Found> take(std::string_view key);
  const OptionRow* row_of(std::string_view key) const noexcept;
  /// True where the row's condition holds; `if_unclear`: where the option that it depends on has no known value.
  bool counts(const OptionRow& row, bool if_unclear) const;
  std::string unknown_options() const;
  Result<std::string> default_of(const OptionRow& row) const;
  Result<std::size_t> whole(const OptionRow& row, const std::string& place, double number) const;
  Failure wrong_type(std::string_view key, const OptionValue& found, std::string_view expected) const;
  Failure undeclared(std::string_view key, std::string_view what) const;

  const Options& options_;
  std::span<const OptionRow> rows_;
  std::string object_;
  LayerContext context_;
  const std::vector<LayerSpec>* layers_;
  bool has_read_layers_ = false;
  std::map<std::string, bool, std::less<>> read_;
};

}  // namespace weft::mesh
