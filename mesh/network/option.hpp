// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/option_row.hpp"

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// Rows of a layer's options, as its `declare_<type>` lists them:
///   option::number("epsilon", 1e-5, 1e-12, 1, "-", "added to the variance")
/// is all that is written of an option: reader, default, bounds, errors, `weft layers`, JSON Schema and pages follow.
/// Texts are literals.
namespace weft::mesh::option {

/// The JSON text of a number, as short as it reads back.
std::string json_number(double value);

/// Value of an option that is not given: true, 0.5, "linear", needed(), none() or computed("as bias").
struct Default {
  template <std::same_as<bool> T>
  Default(T value) : json(value ? "true" : "false") {}
  template <class T>
  requires(std::integral<T> && !std::same_as<T, bool>) || std::floating_point<T> Default(T value)
      : json(json_number(static_cast<double>(value))) {}
  /// A name of a choice.
  Default(const char* name) : json('"' + std::string(name) + '"') {}
  Default(std::string_view said, bool must_be) : words(said), is_needed(must_be) {}

  std::string json;
  std::string_view words;
  bool is_needed = false;
};
inline Default needed() { return {std::string_view(), true}; }
/// It counts only when it is given.
inline Default none() { return {"none", false}; }
/// It follows from other things, which the words name.
inline Default computed(std::string_view words) { return {words, false}; }

OptionRow flag(std::string_view key, const Default& fallback, std::string_view meaning);
OptionRow number(std::string_view key, const Default& fallback, double low, double high, std::string_view unit,
                 std::string_view meaning);
OptionRow whole(std::string_view key, const Default& fallback, double low, double high, std::string_view unit,
                std::string_view meaning);
/// Whole numbers, `fewest` to `most` of them, or one that stands for all.
OptionRow wholes(std::string_view key, const Default& fallback, double low, double high, std::size_t fewest,
                 std::size_t most, std::string_view unit, std::string_view meaning);
/// Zeros and ones, at least one.
OptionRow bits(std::string_view key, const Default& fallback, std::string_view meaning);
OptionRow numbers(std::string_view key, const Default& fallback, std::string_view unit, std::string_view meaning);
OptionRow choice(std::string_view key, const Default& fallback, std::vector<std::string_view> names,
                 std::string_view meaning);
/// The file's key `out`.
OptionRow out(const Default& fallback, std::string_view unit, std::string_view meaning);
/// `out` of a layer that keeps its input's width: it may only be repeated.
OptionRow same_out();
/// The file's key `layers`, of a container.
OptionRow layers(std::string_view meaning);
/// Key `activation`, one of kernels/activations.def.
OptionRow activation(const Default& fallback, std::string_view meaning = "of each value");
/// Key `init`, one of mesh/layers/init.hpp.
OptionRow init(const Default& fallback, std::string_view meaning = "initial values of the matrices");
/// One of core/dtypes.def.
OptionRow dtype(std::string_view key, const Default& fallback, std::string_view meaning);
/// The row, read only where the layer's `key` is one of the values: "kind=entmax|gumbel". Elsewhere it is refused.
OptionRow only_with(std::string_view condition, OptionRow row);

}  // namespace weft::mesh::option
