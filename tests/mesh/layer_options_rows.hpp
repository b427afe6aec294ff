// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include "kernels/activation.hpp"

#include "core/dtype.hpp"

#include "goldens.hpp"
#include "tests/support/source_path.hpp"
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

/// The rows of mesh/layers/layer_options.def as data, and layers to try them on: those of
/// tests/conformance/layers.json.
namespace weft::mesh::option_rows {

struct Kind {
  enum class Type { flag, number, whole, whole_list, number_list, bit_list, choice, width, layers };
  Type type;
  double low = 0, high = 0;
  std::size_t fewest = 0, most = 0;
  std::vector<std::string> names;  // of a choice
};

/// Values of the column `kind`.
namespace kinds {
inline const Kind flag{Kind::Type::flag, 0, 0, 0, 0, {}}, number_list{Kind::Type::number_list, 0, 0, 0, 0, {}},
    bit_list{Kind::Type::bit_list, 0, 0, 0, 0, {}}, width{Kind::Type::width, 0, 0, 0, 0, {}},
    layers{Kind::Type::layers, 0, 0, 0, 0, {}};
inline Kind number(double low, double high) { return {Kind::Type::number, low, high, 0, 0, {}}; }
inline Kind whole(double low, double high) { return {Kind::Type::whole, low, high, 0, 0, {}}; }
inline Kind whole_list(double low, double high, std::size_t fewest, std::size_t most) {
  return {Kind::Type::whole_list, low, high, fewest, most, {}};
}
template <class... Names>
Kind choice(Names... names) {
  return {Kind::Type::choice, 0, 0, 0, 0, {names...}};
}
template <class Name>
Kind names_of(int count) {
  Kind kind{Kind::Type::choice, 0, 0, 0, 0, {}};
  for (int i = 0; i < count; ++i) kind.names.emplace_back(name(static_cast<Name>(i)));
  return kind;
}
inline const Kind activation = names_of<kernels::Activation>(kernels::kActivationCount),
                  dtype = names_of<Dtype>(kDtypeCount),
                  init =
                      choice("xavier", "he", "normal", "uniform", "zero", "orthogonal", "xavier_normal", "he_uniform");
}  // namespace kinds

struct Row {
  std::string layer, key;
  Kind kind;
  std::string otherwise, unit, meaning, only_with;

  std::string label() const { return layer + "." + key; }
  bool is_needed() const { return otherwise == "needed"; }
  /// One of the settings that the layer reads for itself: not `out`, not the layers inside.
  bool is_option() const { return kind.type != Kind::Type::width && kind.type != Kind::Type::layers; }
  /// The default, when it is a value.
  std::optional<OptionValue> default_value() const {
    using Type = Kind::Type;
    if (kind.type == Type::flag && (otherwise == "true" || otherwise == "false")) return otherwise == "true";
    if (kind.type == Type::number || kind.type == Type::whole || kind.type == Type::whole_list) {
      char* end = nullptr;
      const double value = std::strtod(otherwise.c_str(), &end);
      if (end != otherwise.c_str() && *end == '\0') return value;
    }
    if (kind.type == Type::choice && std::find(kind.names.begin(), kind.names.end(), otherwise) != kind.names.end())
      return otherwise;
    return std::nullopt;
  }
  std::string condition_key() const { return only_with.substr(0, only_with.find('=')); }
  std::vector<std::string> condition_values() const {
    std::vector<std::string> values;
    std::istringstream text(only_with.substr(only_with.find('=') + 1));
    for (std::string value; std::getline(text, value, '|');) values.push_back(value);
    return values;
  }
};

inline const std::vector<Row>& rows() {
  using namespace kinds;
  static const std::vector<Row> all{
#define WEFT_SHAPES(layer, input, output)
#define WEFT_OPTION(layer, key, kind, otherwise, unit, meaning, only_with) \
  {#layer, #key, kind, otherwise, unit, meaning, only_with},
#include "mesh/layers/layer_options.def"
#undef WEFT_OPTION
#undef WEFT_SHAPES
  };
  return all;
}

inline std::vector<Row> rows_of(const std::string& layer) {
  std::vector<Row> own;
  for (const Row& row : rows())
    if (row.layer == layer) own.push_back(row);
  return own;
}

inline const Row& row_of(const std::string& layer, const std::string& key) {
  for (const Row& row : rows())
    if (row.layer == layer && row.key == key) return row;
  WEFT_ASSERT(false, "no row " + layer + "." + key);
  std::abort();
}

inline std::vector<std::string> types() {
  return {
#define WEFT_LAYER(type, meaning) #type,
#include "mesh/layers/layers.def"
#undef WEFT_LAYER
  };
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
  for (const auto& row : all.at(layer)) {
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

/// True when the layer reads the option beside the others that it has.
inline bool is_read(const Row& row, const Options& options) {
  if (row.only_with.empty()) return true;
  const Row& by = row_of(row.layer, row.condition_key());
  if (!is_read(by, options)) return false;
  const auto found = options.find(by.key);
  const std::string* given = found == options.end() ? &by.otherwise : std::get_if<std::string>(&found->second);
  const auto values = row.condition_values();
  return given && std::find(values.begin(), values.end(), *given) != values.end();
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
        options.erase(row.key);
      else if (row.is_needed() && !options.contains(row.key))
        options[row.key] = example_of(row, base);
    }
}

/// Makes the layer one that reads the option.
inline void let_read(Base& base, const Row& row) {
  if (is_read(row, base.spec.options)) return;
  const Row& by = row_of(row.layer, row.condition_key());
  let_read(base, by);
  base.spec.options[by.key] = row.condition_values().front();
  tidy(base);
}

inline Base with(Base base, const std::string& key, OptionValue value) {
  base.spec.options[key] = std::move(value);
  return base;
}
inline Base without(Base base, const std::string& key) {
  base.spec.options.erase(key);
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
