// SPDX-License-Identifier: Apache-2.0

// Options that layer types declare (mesh/network/option.hpp) against what their layers do, row by row: kinds, bounds,
// names, defaults, and that a layer reads what it declares. A layer type of the test's own shows that nothing else is
// written.

#include "mesh/layers/metacognition.hpp"
#include "mesh/network/layer_listing.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include "core/json.hpp"

#include "layer_options_rows.hpp"
#include "tests/support/source_path.hpp"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace weft::mesh::layer_options_test {
namespace {

using namespace option_rows;
using namespace testing_support;
using Type = OptionKind;

bool contains(const std::string& text, std::string_view fragment) { return text.find(fragment) != std::string::npos; }

/// A layer that reads the option, with what else it takes for the option's bounds and defaults to show.
Base base_of(const Row& row, std::size_t nth = 0) {
  static const std::map<std::string, Options> kBeside{
      {"embedding.padding_index", {{"vocabulary", 16777216.0}}},
      // Frequencies between those that llama3 leaves alone and those that it divides.
      {"attention.rope_factor", {{"rope_theta", 4e5}}},
      {"attention.rope_low_freq_factor", {{"rope_factor", 8.0}, {"rope_theta", 4e5}}},
      {"attention.rope_high_freq_factor", {{"rope_factor", 8.0}, {"rope_theta", 4e5}}},
      {"attention.rope_original_context", {{"rope_factor", 8.0}, {"rope_theta", 4e5}}},
      {"adaptive_softmax.div_value", {{"cutoffs", 4.0}}},
      {"max_pool.ceil_mode", {{"padding", 0.0}}},
      {"conv_transposed1d.stride", {{"output_padding", 0.0}}},
      {"conv_transposed3d.output_padding", {{"stride", 2.0}}},
  };
  Base base = bases_of(row.layer).at(nth);
  let_read(base, row);
  if (const auto beside = kBeside.find(row.label()); beside != kBeside.end())
    for (const auto& [key, value] : beside->second) base.spec.options[key] = value;
  if (row.key == "groups" && row.layer.starts_with("conv")) base.spec.out = 2 * base.in[0];
  return base;
}

TEST(LayerOptions, SayWhatTheyAre) {
  std::set<std::string> labels;
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.label());
    EXPECT_TRUE(labels.insert(row.label()).second) << "twice";
    EXPECT_FALSE(row.key.empty() || row.unit.empty() || row.meaning.empty());
    const int defaults = row.is_needed + !row.fallback.empty() + !row.fallback_words.empty();
    EXPECT_EQ(defaults, 1) << "needed, a value or words";
    EXPECT_EQ(row.kind == Type::choice, !row.names.empty());
    if (row.kind == Type::choice && row.default_value()) {
      EXPECT_NE(std::find(row.names.begin(), row.names.end(), std::get<std::string>(*row.default_value())),
                row.names.end());
    }
    if (row.only_with.empty()) continue;
    const auto [key, values] = row.condition();
    const auto& known = row_of(row.layer, key).names;
    for (const std::string_view value : values)
      EXPECT_NE(std::find(known.begin(), known.end(), value), known.end()) << value;
  }
}

TEST(LayerOptions, RefuseAValueOfAnotherKind) {
  const OptionValue flag = true, number = 1.0, text = std::string("x"), list = std::vector<double>{1};
  for (const Row& row : rows()) {
    if (!row.is_option()) continue;
    std::vector<OptionValue> wrong;
    switch (row.kind) {
      case Type::flag:
        wrong = {number, text, list};
        break;
      case Type::number:
      case Type::whole:
        wrong = {flag, text, list};
        break;
      case Type::whole_list:
      case Type::number_list:
        wrong = {flag, text};
        if (!row.is_one_for_all) wrong.push_back(number);
        break;
      default:
        wrong = {flag, number, list};
    }
    for (const OptionValue& value : wrong) {
      SCOPED_TRACE(row.label() + ", value " + std::to_string(value.index()));
      expect_error(with(base_of(row), row.key, value).make(), Errc::parse_failed, {"layer." + row.name() + ":"});
    }
  }
}

// A value at the bound may be refused for another reason (65536 taps over nine values), never for the bound.
TEST(LayerOptions, EndAtTheirBounds) {
  for (const Row& row : rows()) {
    const bool is_list = row.kind == Type::whole_list, is_whole = is_list || row.kind == Type::whole;
    if (row.is_width() || !(row.is_one_for_all || row.kind == Type::whole || row.kind == Type::number)) continue;
    const Base base = base_of(row);
    const auto inside = [&](OptionValue value) {
      const auto made = with(base, row.key, std::move(value)).make();
      EXPECT_TRUE(made || !contains(made.error().text(), "is outside")) << made.error().text();
    };
    const auto outside = [&](OptionValue value, std::string_view fragment) {
      const auto made = with(base, row.key, std::move(value)).make();
      expect_error(made, Errc::out_of_range, {"layer." + row.name(), fragment});
    };
    const double low = row.low, high = row.high, inf = std::numeric_limits<double>::infinity();
    const double below = is_whole ? low - 1 : std::nextafter(low, -inf);
    const double above = is_whole ? high + 1 : std::nextafter(high, inf);
    SCOPED_TRACE(row.label());
    inside(low);
    inside(high);
    outside(below, "is outside [");
    outside(above, "is outside [");
    if (is_whole) outside(low + 0.5, "is not a whole number");
    if (!is_list) outside(inf, "");
    if (!is_list) continue;
    std::vector<double> list(row.fewest, low);
    if (row.layer.ends_with("_pool")) list.resize(base.in.size() - 1, low);
    if (row.label() == "parallel.places") list.resize(3 * base.spec.layers.size(), low);
    list.back() = above;
    outside(list, "[" + std::to_string(list.size() - 1) + "]: ");
    list.back() = high;
    inside(list);
    list.resize(row.most > 8 ? 0 : row.most + 1, low);
    EXPECT_FALSE(with(base, row.key, list).make()) << list.size() << " numbers";
  }
}

TEST(LayerOptions, KnowTheirNamesAndNoOthers) {
  for (const Row& row : rows()) {
    if (row.kind != Type::choice) continue;
    SCOPED_TRACE(row.label());
    const auto made = with(base_of(row), row.key, std::string("no such name")).make();
    expect_error(made, Errc::unknown_name, {"layer." + row.name() + ":", "no such name"});
    const std::set<std::string> names(row.names.begin(), row.names.end());
    EXPECT_EQ(listed(made.error().text(), "known are "), names);
    for (const std::string& name : names) {
      Base base = with(base_of(row), row.key, name);
      tidy(base);
      const auto named = base.make();
      EXPECT_TRUE(named || named.error().code() != Errc::unknown_name) << named.error().text();
    }
  }
}

/// All that can be seen of a layer: its sizes, what it starts with, and what it computes, forward and back.
std::vector<double> look_of(const Base& base) {
  const auto made = base.make();
  if (!made) {
    ADD_FAILURE() << made.error().text();
    return {};
  }
  const auto& layer = *made;
  std::vector<double> seen{layer->multiply_adds()};
  const auto add = [&](auto... sizes) { (seen.push_back(static_cast<double>(sizes)), ...); };
  for (const Shape& shape : {layer->in_shape(), layer->out_shape()}) {
    add(shape.size());
    for (const std::size_t extent : shape) add(extent);
  }
  add(layer->cache_size(), layer->scratch_size(), layer->workspace_size(), layer->state_size(),
      layer->vocabulary_size(), layer->needs_preactivation(), layer->weight_matrix(), layer->parameters().size());
  for (const ParameterSpec& parameter : layer->parameters()) {
    add(parameter.out, parameter.in, parameter.decays);
    for (const char c : parameter.name) add(static_cast<unsigned char>(c));
    std::vector<float> values(parameter.out * std::max<std::size_t>(parameter.in, 1));
    RandomStream random(7, 1, RandomPurpose::test);
    parameter.init(random, values);
    seen.insert(seen.end(), values.begin(), values.end());
  }
  if (const WatchRule* rule = watch_rule(*layer))
    add(static_cast<int>(rule->statistic), rule->above, rule->below, static_cast<int>(rule->action),
        static_cast<int>(rule->encoding.dtype), rule->min_ticks, rule->cooldown, rule->horizon);
  goldens::Sequence run(base.spec, base.in, 2, 3);
  run.training_rows = run.sample_rows = 2;
  run.forward(0, 3);
  run.backward();
  for (const auto* values : {&run.y, &run.state, &run.dx, &run.dstate})
    for (const std::uint32_t word : bits(*values)) add(word);
  for (std::size_t i = 0; i < layer->parameters().size(); ++i)
    for (const std::uint32_t word : bits(run.gradient(i))) add(word);
  return seen;
}

/// Other values than `value` that the row has, not far away.
std::vector<OptionValue> others(const Row& row, const OptionValue& value) {
  std::vector<OptionValue> all;
  if (const bool* flag = std::get_if<bool>(&value)) all = {!*flag};
  if (const double* number = std::get_if<double>(&value)) {
    if (row.kind == Type::number) {
      for (const double other : {*number * 1.25, *number * 0.75, *number + 0.5})
        if (other != *number && other >= row.low && other <= row.high) all.emplace_back(other);
    } else {
      all = {*number + 1, *number + 2};
    }
  }
  if (const auto* text = std::get_if<std::string>(&value))
    for (const std::string_view name : row.names)
      if (name != *text) all.emplace_back(std::string(name));
  return all;
}

TEST(LayerOptions, LeftAwayAreTheirDefaults) {
  for (const Row& row : rows()) {
    const auto value = row.default_value();
    if (!row.is_option() || !value) continue;
    SCOPED_TRACE(row.label());
    bool is_compared = false, is_seen = false;
    for (std::size_t nth = 0; nth < bases_of(row.layer).size(); ++nth) {
      Base left_away = without(base_of(row, nth), row.key), given = with(left_away, row.key, *value);
      tidy(left_away);
      tidy(given);
      if (!left_away.make()) continue;
      is_compared = true;
      const auto look = look_of(left_away);
      EXPECT_EQ(look_of(given), look);
      // And that a wrong default would have shown.
      for (const OptionValue& other : others(row, *value)) {
        Base changed = with(left_away, row.key, other);
        tidy(changed);
        if (row.label() == "attention.rope_scaling") changed.spec.options["rope_factor"] = 2.0;
        is_seen = is_seen || (changed.make() && look_of(changed) != look);
      }
    }
    EXPECT_TRUE(is_compared) << "no layer of tests/conformance/layers.json can do without it";
    EXPECT_TRUE(is_seen) << "another value makes the same layer: what would a wrong default look like?";
  }
}

/// Defaults that are words, on the first layer of tests/conformance/layers.json.
std::optional<OptionValue> worded_default(const Row& row, const Base& base) {
  const auto option = [&](const char* key) { return base.spec.options.at(key); };
  const bool is_sequence = base.in.size() > 1;
  if (row.label() == "attention.kv_heads") return option("heads");
  if (row.label() == "attention.scale")
    return 1 / std::sqrt(static_cast<double>(base.in.back()) / std::get<double>(option("heads")));
  if (row.label() == "attention.causal") return base.spec.options.contains("context");
  if (row.label() == "attention.out_bias") return true;
  if (row.key == "stateful") return !is_sequence;
  if (row.label() == "mixture_of_softmaxes.hidden") return static_cast<double>(base.in.back());
  if (row.label() == "kmeans.clusters") return static_cast<double>(base.spec.out);
  if (row.key == "stride") return option("kernel");
  if (row.label() == "select.step") return std::vector<double>{1.0};
  return std::nullopt;
}

TEST(LayerOptions, HaveTheDefaultsThatWordsSay) {
  for (const Row& row : rows()) {
    if (!row.is_option() || row.is_needed || row.default_value() || row.fallback_words == "none") continue;
    SCOPED_TRACE(row.label() + ": " + std::string(row.fallback_words));
    const Base left_away = without(base_of(row), row.key);
    const auto value = worded_default(row, left_away);
    ASSERT_TRUE(value) << "say in worded_default what that is";
    EXPECT_EQ(look_of(with(left_away, row.key, *value)), look_of(left_away));
  }
  // Those of two words: a context makes attention causal, a sequence starts anew, and biases go together.
  Base attention = bases_of("attention").at(1);
  EXPECT_EQ(look_of(with(attention, "causal", true)), look_of(without(attention, "causal")));
  attention.spec.options["bias"] = false;
  EXPECT_EQ(look_of(with(attention, "out_bias", false)), look_of(attention));
  EXPECT_NE(look_of(with(attention, "out_bias", true)), look_of(attention));
  for (const char* type : {"rnn", "lstm", "gru"}) {
    const Base sequence = without(bases_of(type).at(1), "stateful");
    EXPECT_EQ(look_of(with(sequence, "stateful", false)), look_of(sequence)) << type;
    EXPECT_NE(look_of(with(sequence, "stateful", true)), look_of(sequence)) << type;
  }
}

TEST(LayerOptions, AreMissedWhereTheyAreNeeded) {
  for (const Row& row : rows()) {
    if (!row.is_needed) continue;
    SCOPED_TRACE(row.label());
    Base base = base_of(row);
    base.spec.options.erase(row.name());
    if (row.is_width()) base.spec.out = 0;
    if (row.kind == Type::layers) base.spec.layers.clear();
    const auto made = base.make();
    ASSERT_FALSE(made);
    EXPECT_TRUE(contains(made.error().text(), "layer." + row.name() + ": needed and not given")) << made.error().text();
  }
}

TEST(LayerOptions, OfTheWidthAreWhatTheRowSays) {
  for (const std::string& type : types()) {
    SCOPED_TRACE(type);
    Base base = bases_of(type).front();
    const auto own = rows_of(type);
    const auto row = std::find_if(own.begin(), own.end(), [](const Row& r) { return r.key == "out"; });
    if (row == own.end()) {
      base.spec.out = must(base.make())->out_shape().back();
      expect_error(base.make(), Errc::shape_mismatch, {"layer.out:", "leave 'out' away"});
      continue;
    }
    if (row->is_needed) continue;
    if (row->layer == "kmeans") base.spec.options["clusters"] = static_cast<double>(base.spec.out);
    base.spec.out = 0;
    const auto left_away = look_of(base);
    const Shape made = must(base.make())->out_shape();
    const bool is_of_channels = type.ends_with("_pool");
    base.spec.out = is_of_channels ? made.front() : made.back();
    EXPECT_EQ(row->fallback_words == "the input's channels", is_of_channels);
    EXPECT_TRUE(row->fallback_words != "the input's width" || made.back() == base.in.back());
    EXPECT_TRUE(!is_of_channels || made.front() == base.in.front());
    EXPECT_EQ(look_of(base), left_away);
    if (!row->meaning.starts_with("only")) continue;
    ++base.spec.out;
    expect_error(base.make(), Errc::shape_mismatch, {"layer.out:"});
  }
}

TEST(LayerOptions, AreAllThatALayerReads) {
  for (const std::string& type : types()) {
    std::vector<Base> variants = bases_of(type);
    for (const Row& row : rows_of(type))
      if (row.kind == Type::choice && row.only_with.empty())
        for (const std::string_view name : row.names)
          variants.push_back(with(bases_of(type).front(), row.key, std::string(name)));
    for (const char* scaling : {"none", "linear", "ntk", "llama3"})
      if (type == "attention") variants.push_back(with(bases_of(type).front(), "rope_scaling", std::string(scaling)));
    for (Base& base : variants) {
      tidy(base);
      std::set<std::string> wanted;
      for (const Row& row : rows_of(type))
        if (row.is_option() && is_read(row, base.spec.options)) wanted.insert(row.name());
      if (wanted.empty()) wanted.insert("none");
      std::string label = type;
      for (const auto& [key, value] : base.spec.options)
        if (const auto* text = std::get_if<std::string>(&value)) label += " " + key + "=" + *text;
      SCOPED_TRACE(label);
      const auto made = with(base, "zzzz", true).make();
      expect_error(made, Errc::unknown_name, {"layer.zzzz: this layer type has no such option"});
      EXPECT_EQ(listed(made.error().text(), "it has "), wanted);
    }
  }
}

TEST(LayerOptions, HoldLayersOnlyInContainers) {
  for (const std::string& type : types()) {
    const auto own = rows_of(type);
    if (std::any_of(own.begin(), own.end(), [](const Row& r) { return r.kind == Type::layers; })) continue;
    SCOPED_TRACE(type);
    Base base = bases_of(type).front();
    base.spec.layers.push_back(bases_of("identity").front().spec);
    expect_error(base.make(), Errc::unknown_name, {"layer.layers:"});
  }
}

/// Values between -limit and limit: a layer of the test's own, whose options are nowhere but here.
class Clamp final : public Layer {
 public:
  Clamp(std::size_t width, float most, bool turns_back, bool saturates)
      : Layer(width, width), limit(most), reflects(turns_back), is_soft(saturates) {}
  void forward(kernels::OpStream&, const ForwardArgs&) const override {}
  void backward(kernels::OpStream&, const BackwardArgs&) const override {}
  const float limit;
  const bool reflects, is_soft;
};

void register_clamp() {
  static const Status done = register_layer(
      "test_clamp",
      [](const Shape& in, std::size_t, OptionReader& options) -> Result<std::unique_ptr<Layer>> {
        WEFT_TRY(const double limit, options.number("limit"));
        WEFT_TRY(const std::string edge, options.text("edge"));
        bool reflects = false;
        if (edge == "soft") {
          WEFT_TRY(reflects, options.boolean("reflect"));
        }
        WEFT_CHECK(options.integer("steps"));
        return std::unique_ptr<Layer>(new Clamp(in.back(), static_cast<float>(limit), reflects, edge == "soft"));
      },
      {"in",
       "in",
       {option::number("limit", 2.5, 0.5, 8, "values", "largest size that goes through"),
        option::whole("steps", option::needed(), 1, 64, "-", "of the search"),
        option::choice("edge", "hard", {"hard", "soft"}, "at the limit"),
        option::only_with("edge=soft", option::flag("reflect", true, "whether what is above comes back"))},
       "y = min(max(x, -limit), limit)"});
  must(done);
}

Result<std::unique_ptr<Layer>> make_clamp(Options options) {
  register_clamp();
  LayerSpec spec;
  spec.type = "test_clamp";
  spec.options = std::move(options);
  return make_layer(spec, 4, "layers[2]");
}

TEST(LayerOptions, DeclaredOnceAreReadWithTheirDefaultsAndBounds) {
  const auto plain = must(make_clamp({{"steps", 3.0}}));
  const auto& clamp = dynamic_cast<const Clamp&>(*plain);
  EXPECT_EQ(clamp.limit, 2.5f);
  EXPECT_FALSE(clamp.is_soft || clamp.reflects);
  const auto soft = must(make_clamp({{"steps", 3.0}, {"edge", std::string("soft")}, {"limit", 8.0}}));
  EXPECT_EQ(dynamic_cast<const Clamp&>(*soft).limit, 8.0f);
  EXPECT_TRUE(dynamic_cast<const Clamp&>(*soft).reflects);
  expect_error(make_clamp({{"steps", 65.0}}), Errc::out_of_range, {"layers[2].steps: 65 is outside [1, 64]"});
  expect_error(make_clamp({{"steps", 1.0}, {"edge", std::string("sotf")}}), Errc::unknown_name,
               {"layers[2].edge: no edge 'sotf'; known are hard, soft; did you mean 'soft'?"});
}

TEST(LayerOptions, UnknownAndMissingOnesAreNamedTogether) {
  expect_error(make_clamp({{"stpes", 3.0}, {"reflect", false}, {"limit", 1.0}}), Errc::unknown_name,
               {"layers[2].stpes: this layer type has no such option; did you mean 'steps'?",
                "layers[2].reflect: this layer type has no such option unless edge is one of: soft",
                "it has edge, limit, steps", "layers[2].steps: needed and not given (of the search)"});
  expect_error(make_clamp({}), Errc::parse_failed, {"layers[2].steps: needed and not given"});
}

TEST(LayerOptions, DeclaredOnceAreListed) {
  register_clamp();
  Json listed;
  for (Json& layer : layer_listing())
    if (layer["type"].text() == "test_clamp") listed = std::move(layer);
  EXPECT_EQ(listed["formula"].text(), "y = min(max(x, -limit), limit)");
  EXPECT_TRUE(listed["is_registered"].get<bool>());
  ASSERT_EQ(listed["options"].size(), 4u);
  const Json& limit = listed["options"][0];
  EXPECT_EQ(limit["key"].text(), "limit");
  EXPECT_EQ(limit["low"], 0.5);
  EXPECT_EQ(limit["high"], 8);
  EXPECT_EQ(limit["default"], 2.5);
  EXPECT_EQ(limit["unit"].text(), "values");
  EXPECT_TRUE(listed["options"][1]["needed"].get<bool>());
  EXPECT_EQ(listed["options"][3]["only_with"].text(), "edge=soft");
}

TEST(LayerOptions, DeclaredOnceAreInTheSchema) {
  register_clamp();
  const auto file = std::filesystem::path(testing::TempDir()) / "layer_listing.json";
  {
    std::ofstream out(file);
    for (const Json& layer : layer_listing()) out << layer.dump() << '\n';
  }
  const std::string schema_file = file.string() + ".schema";
  const std::string command =
      "python3 -B " + source_path("tools/make_network_schema.py") + " --layers " + file.string() + " > " + schema_file;
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  std::ifstream in(schema_file);
  std::stringstream text;
  text << in.rdbuf();
  const Json made = must(parse_json(text.str(), schema_file)), &own = made["options_test_clamp"];
  EXPECT_EQ(own["properties"]["limit"], must(parse_json(R"({"type": "number", "minimum": 0.5, "maximum": 8,
                                                             "default": 2.5})",
                                                        "")));
  EXPECT_EQ(own["properties"]["edge"], must(parse_json(R"({"enum": ["hard", "soft"], "default": "hard"})", "")));
  EXPECT_EQ(own["required"], must(parse_json(R"(["steps"])", "")));
  EXPECT_EQ(own["dependentSchemas"]["reflect"],
            must(parse_json(R"({"required": ["edge"], "properties": {"edge": {"enum": ["soft"]}}})", "")));
  EXPECT_EQ(made["layer_test_clamp"]["properties"]["type"]["const"].text(), "test_clamp");
}

}  // namespace
}  // namespace weft::mesh::layer_options_test
