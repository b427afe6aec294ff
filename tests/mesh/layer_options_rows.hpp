// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include "core/option_row.hpp"

#include "goldens.hpp"
#include "tests/support/source_path.hpp"
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

/// The options that layer types declare, and layers to try them on: those of tests/conformance/layers.json.
namespace weft::mesh::option_rows {

struct Row : OptionRow {
  std::string layer;

  std::string label() const { return layer + "." + std::string(key); }
  std::string name() const { return std::string(key); }
  bool is_width() const { return key == "out"; }
  /// One of the settings that the layer reads for itself: not `out`, not the layers inside.
  bool is_option() const { return !is_width() && kind != OptionKind::layers; }
  bool is_list() const { return kind == OptionKind::whole_list || kind == OptionKind::number_list; }
  /// The default, when it is a value.
  std::optional<OptionValue> default_value() const {
    if (fallback.empty()) return std::nullopt;
    if (kind == OptionKind::flag) return fallback == "true";
    if (kind == OptionKind::choice) return fallback.substr(1, fallback.size() - 2);
    return std::strtod(fallback.c_str(), nullptr);
  }
  OptionCondition condition() const { return parse_condition(only_with); }
};

inline std::vector<std::string> types() {
  return {
#define WEFT_LAYER(type, formula) #type,
#include "mesh/layers/layers.def"
#undef WEFT_LAYER
  };
}

inline std::vector<Row> rows_of(const std::string& layer) {
  const LayerDeclaration* const declared = layer_declaration(layer);
  WEFT_ASSERT(declared, "no layer type " + layer);
  std::vector<Row> own;
  for (const OptionRow& row : declared->options) own.push_back({row, layer});
  return own;
}

inline const std::vector<Row>& rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> of_all;
    for (const std::string& type : types())
      for (Row& row : rows_of(type)) of_all.push_back(std::move(row));
    return of_all;
  }();
  return all;
}

inline const Row& row_of(const std::string& layer, std::string_view key) {
  for (const Row& row : rows())
    if (row.layer == layer && row.key == key) return row;
  WEFT_ASSERT(false, "no row " + layer + "." + std::string(key));
  std::abort();
}

/// A layer that can be made.
struct Base {
  LayerSpec spec;
  Shape in;
  Result<std::unique_ptr<Layer>> make() const { return make_layer(spec, in, "layer"); }
};

inline std::vector<Base> bases_of(const std::string& layer) {
  static const Json all = [] {
    const std::string path = source_path("tests/conformance/layers.json");
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return testing_support::must(parse_json(text.str(), path));
  }();
  std::vector<Base> bases;
  for (const Json& row : all[layer]) {
    Json own = row["layer"];
    own["type"] = layer;
    bases.push_back({goldens::layer_of(own), row["in"].get<Shape>()});
    if (layer == "metacognition") bases.back().in = {8};  // an even width, for swap
  }
  return bases;
}

/// A value of an option that has no default.
inline OptionValue example_of(const Row& row, const Base& base) {
  const auto ones = [](std::size_t n) { return std::vector<double>(n, 1.0); };
  if (row.label() == "softmax.axes") return std::vector<double>{0};
  if (row.label() == "softmax.mask") return ones(base.in.back());
  if (row.label() == "softmax.branches") return static_cast<double>(base.in.back());
  if (row.label() == "metacognition.to") return std::string("int8");
  if (row.label() == "parallel.grid") return std::vector<double>{1, 2, 2};
  if (row.label() == "parallel.places") return std::vector<double>{0, 0, 0, 0, 0, 1, 0, 1, 1};
  WEFT_ASSERT(false, row.label() + " has no example: add one");
  std::abort();
}

/// True where the layer reads the option beside the others that it has.
inline bool is_read(const Row& row, const Options& options) {
  if (row.only_with.empty()) return true;
  const auto [key, values] = row.condition();
  const Row& by = row_of(row.layer, key);
  if (!is_read(by, options)) return false;
  const auto found = options.find(key);
  const OptionValue given = found == options.end() ? *by.default_value() : found->second;
  const std::string* const name = std::get_if<std::string>(&given);
  return name && std::find(values.begin(), values.end(), *name) != values.end();
}

/// Takes out what is read no longer, and adds what is needed now.
inline void tidy(Base& base) {
  Options& options = base.spec.options;
  if (base.spec.type == "kmeans" && base.spec.out != 0 && options.contains("output")) {
    options.emplace("clusters", static_cast<double>(base.spec.out));
    base.spec.out = 0;
  }
  for (int pass = 0; pass < 2; ++pass)
    for (const Row& row : rows_of(base.spec.type)) {
      if (!row.is_option()) continue;
      if (!is_read(row, options))
        options.erase(row.name());
      else if (row.is_needed && !options.contains(row.key))
        options[row.name()] = example_of(row, base);
    }
}

/// Makes the layer one that reads the option.
inline void let_read(Base& base, const Row& row) {
  if (is_read(row, base.spec.options)) return;
  const auto [key, values] = row.condition();
  let_read(base, row_of(row.layer, key));
  base.spec.options[std::string(key)] = std::string(values.front());
  tidy(base);
}

inline Base with(Base base, std::string_view key, OptionValue value) {
  base.spec.options[std::string(key)] = std::move(value);
  return base;
}
inline Base without(Base base, std::string_view key) {
  base.spec.options.erase(std::string(key));
  return base;
}

/// Names after "known are" or "it has" in an error's text.
inline std::set<std::string> listed(const std::string& text, const std::string& after) {
  std::set<std::string> names;
  const std::size_t at = text.find(after);
  if (at == std::string::npos) return names;
  const std::string list = text.substr(at + after.size(), text.find(';', at) - at - after.size());
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    const std::size_t first = word.find_first_not_of(' ');
    names.insert(word.substr(first));
  }
  return names;
}

}  // namespace weft::mesh::option_rows
