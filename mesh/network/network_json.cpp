// SPDX-License-Identifier: Apache-2.0

#include "mesh/network/network_json.hpp"

#include "mesh/network/network_repeat.hpp"

#include "kernels/narrow_rows.hpp"

#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "core/near_word.hpp"

#include <algorithm>
#include <utility>

namespace weft::mesh {
namespace {

constexpr std::uint32_t kVersion = 2;

const std::vector<std::string_view> kCombines{"concat", "add", "avg", "max", "gate"};
const std::vector<std::string_view> kPolicies{"halt", "hold", "restart", "isolate"};
const std::vector<std::string_view> kInnerPolicies{"halt", "hold", "restart"};

Result<Coord> read_coord(const JsonValue& value) {
  WEFT_TRY(const auto parts, value.array(4, 4));
  Coord at;
  WEFT_TRY(at.z, parts[0].u32());
  WEFT_TRY(at.y, parts[1].u32());
  WEFT_TRY(at.x, parts[2].u32());
  WEFT_TRY(at.l, parts[3].u32());
  return at;
}

Result<GridShape> read_grid(JsonReader grid) {
  GridShape shape;
  WEFT_TRY(shape.z, grid.u32_or("z", 1));
  WEFT_TRY(shape.y, grid.u32_or("y", 1));
  WEFT_TRY(shape.x, grid.u32_or("x", 1));
  WEFT_TRY(shape.layers, grid.u32_or("layers", 1));
  WEFT_CHECK(grid.finish());
  return shape;
}

/// Sources of a layer; `relative` null: one inside a container, which has no place to count from.
Result<std::vector<Source>> read_sources(const JsonValue& value, std::vector<WrittenSource>* relative) {
  std::vector<Source> sources;
  bool is_relative = false;
  WEFT_TRY(const auto items, value.array(1, 65536));
  for (const JsonValue& item : items) {
    if (item.is_string()) {
      WEFT_TRY(std::string port, item.string());
      if (port.empty()) return item.unexpected("the name of an input");
      sources.emplace_back(std::move(port));
    } else if (item.is_array()) {
      WEFT_TRY(const Coord at, read_coord(item));
      sources.emplace_back(at);
    } else if (item.is_object() && relative) {
      is_relative = true;
      for (Source& source : sources) relative->emplace_back().absolute = std::move(source);
      sources.clear();
      WEFT_TRY(relative->emplace_back(), read_relative_source(item));
    } else {
      return item.unexpected("the name of an input or a place [z,y,x,layer]");
    }
  }
  if (is_relative)
    for (Source& source : std::exchange(sources, {})) relative->emplace_back().absolute = std::move(source);
  return sources;
}

Result<Shape> read_shape(const JsonValue& value) {
  WEFT_TRY(const auto extents, value.array(1, 8));
  Shape shape;
  for (const JsonValue& extent : extents) {
    WEFT_TRY(const std::uint32_t size, extent.u32(1));
    shape.push_back(size);
  }
  return shape;
}

Status read_options(JsonReader& reader, LayerSpec& layer) {
  static const std::vector<std::string_view> kOwn{
      "at",   "type",    "out",    "view",       "name",       "layers",           "shape",
      "from", "combine", "dtype",  "policy",     "neighbours", "granularity",      "activations",
      "qat",  "device",  "repeat", "rate_scale", "freeze",     "activation_dtype", "gradient_dtype"};
  for (const std::string& key : reader.keys()) {
    if (std::find(kOwn.begin(), kOwn.end(), key) != kOwn.end()) continue;
    const JsonValue value = *reader.find(key);
    if (value.is_bool()) {
      WEFT_TRY(const bool flag, value.boolean());
      layer.options.emplace(key, flag);
    } else if (value.is_number()) {
      WEFT_TRY(const double number, value.f64());
      layer.options.emplace(key, number);
    } else if (value.is_string()) {
      WEFT_TRY(std::string text, value.string());
      layer.options.emplace(key, std::move(text));
    } else if (value.is_array()) {
      WEFT_TRY(const auto items, value.array(0, 1u << 24));
      std::vector<double> numbers;
      for (const JsonValue& item : items) {
        WEFT_TRY(const double number, item.f64());
        numbers.push_back(number);
      }
      layer.options.emplace(key, std::move(numbers));
    } else {
      return value.unexpected("true, false, a number, a text or a list of numbers");
    }
  }
  return {};
}

/// Origin of a layer's place: its own key, the container that it is in, or its number in a chain.
enum class LayerPlace { own, inside, chain };

// A layer inside a container has a name where a sibling reads it, and a place only to share the weights there.
Status read_place(JsonReader& reader, LayerPlace place, LayerEntry* entry, const GridShape& grid, LayerSpec& layer) {
  const bool is_inside = place == LayerPlace::inside;
  const auto repeat = reader.find("repeat");
  if (repeat && !entry) return repeat->unexpected("no repetition, since the container stands once", Errc::unsupported);
  if (repeat) {
    if (const auto at = reader.find("at")) return at->unexpected("no place, since 'repeat' says where it stands");
    WEFT_TRY(entry->places, read_repeat(*repeat, grid));
  } else if (place == LayerPlace::own || (is_inside && layer.type == "shared")) {
    WEFT_TRY(const JsonValue at, reader.value("at"));
    WEFT_TRY(layer.at, read_coord(at));
  } else if (const auto at = reader.find("at")) {
    return at->unexpected("no place, since the container has it", Errc::unsupported);
  }
  if (is_inside) {
    WEFT_TRY(layer.name, reader.string_or("name", "", 256));
  } else if (const auto name = reader.find("name")) {
    return name->unexpected("no name, since 'at' says which layer it is", Errc::unsupported);
  }
  return {};
}

/// Numeric types, and how weights learn in them.
Status read_numbers(JsonReader& reader, LayerSpec& layer) {
  if (const auto found = reader.find("dtype")) {
    WEFT_TRY(const std::string dtype, found->string());
    const auto parsed = parse_dtype(dtype);
    if (!parsed) return found->unexpected("a numeric type such as float32");
    layer.dtype = *parsed;
  }
  if (const auto granularity = reader.find("granularity")) {
    WEFT_TRY(layer.granularity,
             granularity->one_of(parse_granularity, {"tensor", "channel", "block32", "block32_f16"}));
  }
  if (const auto found = reader.find("activations")) {
    WEFT_TRY(layer.activations, found->one_of(parse_activations, {"int8", "float", "int8_row"}));
  }
  const auto& values = kernels::value_dtype_names();
  const auto parse = [&](std::string_view text) -> std::optional<Dtype> {
    if (std::find(values.begin(), values.end(), text) == values.end()) return std::nullopt;
    return parse_dtype(text);
  };
  WEFT_TRY(layer.activation_dtype, reader.one_of_or("activation_dtype", Dtype::float32, parse, values));
  WEFT_TRY(layer.gradient_dtype, reader.one_of_or("gradient_dtype", Dtype::float32, parse, values));
  if (const auto found = reader.find("qat")) {
    WEFT_TRY(layer.quantization_aware, found->boolean());
  }
  WEFT_TRY(layer.rate_scale, reader.f32_or("rate_scale", 1.0f, 1e-6f, 1e6f));
  WEFT_TRY(layer.is_frozen, reader.boolean_or("freeze", false));
  return {};
}

/// `entry` null: a layer inside a container or in a chain, which is not repeated.
Result<LayerSpec> read_layer(const JsonValue& value, LayerPlace place, LayerEntry* entry = nullptr,
                             const GridShape& grid = {}) {
  WEFT_TRY(JsonReader reader, value.object());
  LayerSpec layer;
  WEFT_TRY(layer.type, reader.string("type", 64));
  WEFT_CHECK(read_place(reader, place, entry, grid, layer));
  if (const auto inside = reader.find("layers")) {
    WEFT_TRY(const auto items, inside->array(1, 65536));
    for (const JsonValue& item : items) {
      WEFT_TRY(auto read, read_layer(item, LayerPlace::inside));
      layer.layers.push_back(std::move(read));
    }
  }
  WEFT_TRY(const std::uint32_t out, reader.u32_or("out", 0));
  if (out == 0 && reader.find("out"))
    return reader.find("out")->unexpected("a width of at least 1", Errc::out_of_range);
  layer.out = out;
  if (const auto view = reader.find("view")) {
    WEFT_TRY(layer.view, read_shape(*view));
  }
  if (const auto shape = reader.find("shape")) {
    WEFT_TRY(layer.shape, read_shape(*shape));
  }
  if (const auto from = reader.find("from")) {
    WEFT_TRY(layer.from, read_sources(*from, entry ? &entry->sources : nullptr));
  }
  if (const auto neighbours = reader.find("neighbours")) {
    WEFT_TRY(layer.neighbours, neighbours->one_of(parse_neighbourhood, {"none", "von_neumann", "moore"}));
  }
  WEFT_TRY(layer.combine, reader.one_of_or("combine", Combine::concat, parse_combine, kCombines));
  WEFT_CHECK(read_numbers(reader, layer));
  if (const auto policy = reader.find("policy")) {
    WEFT_TRY(layer.policy,
             policy->one_of(actors::parse_policy, place == LayerPlace::inside ? kInnerPolicies : kPolicies));
  }
  if (const auto device = reader.find("device")) {
    WEFT_TRY(layer.device, device->one_of(parse_placement, {"cpu", "vulkan"}));
  }
  WEFT_CHECK(read_options(reader, layer));
  WEFT_CHECK(reader.finish());
  return layer;
}

/// Keys that a file lacks and keys that no network has, all at once; one missing key alone is told by its own reader.
Status check_needed_keys(const JsonReader& reader) {
  static const std::vector<std::string_view> kKnown{"weft",     "name",   "grid",         "layers",      "chain",
                                                    "seed",     "inputs", "outputs",      "supervision", "device",
                                                    "learning", "stream", "reinforcement"};
  const std::vector<std::string> keys = reader.keys();
  const auto lacks = [&](const char* key) { return std::find(keys.begin(), keys.end(), key) == keys.end(); };
  std::string missing, unknown;
  std::size_t count = 0;
  for (const char* key : {"weft", "grid", "layers"}) {
    if (!lacks(key) || (std::string_view(key) != "weft" && !lacks("chain"))) continue;
    missing.append(count++ ? ", \"" : "\"").append(key).append("\"");
  }
  for (const std::string& key : keys)
    if (std::find(kKnown.begin(), kKnown.end(), key) == kKnown.end())
      unknown += "; unknown key '" + key + "'" + did_you_mean(key, kKnown);
  if (count == 0 || (count == 1 && unknown.empty())) return {};
  return fail(Errc::not_found, (count > 1 ? "keys " : "key ") + missing + (count > 1 ? " are" : " is") + " missing" +
                                   unknown + "; the shortest network is {\"weft\": 2, \"inputs\": {\"x\": [4]}, " +
                                   "\"chain\": [{\"type\": \"dense\", \"out\": 3}]}");
}

Status read_cells(JsonReader& reader, NetworkSpec& spec) {
  WEFT_TRY(JsonReader grid, reader.object("grid"));
  WEFT_TRY(spec.grid, read_grid(std::move(grid)));
  WEFT_TRY(const auto layers, reader.array("layers", 1, 1u << 24));
  std::vector<LayerEntry> entries;
  for (const JsonValue& layer : layers) {
    LayerEntry& entry = entries.emplace_back();
    entry.path = layer.path();
    WEFT_TRY(entry.layer, read_layer(layer, LayerPlace::own, &entry, spec.grid));
  }
  WEFT_TRY(spec.layers, expand_layers(std::move(entries), spec.grid));
  return {};
}

// The short form of layers one behind the other: a cell each along x, the first reading the only input.
Status read_chain(const JsonReader& network, const JsonValue& chain, NetworkSpec& spec) {
  JsonReader keys = network;
  for (const char* key : {"grid", "layers"})
    if (const auto found = keys.find(key))
      return found->unexpected("no such key beside 'chain', which says where its layers stand", Errc::unsupported);
  WEFT_TRY(const auto items, chain.array(1, 65536));
  for (const JsonValue& item : items) {
    WEFT_TRY(JsonReader layer, item.object());
    for (const char* key : {"at", "from", "neighbours", "combine", "repeat"})
      if (const auto found = layer.find(key))
        return found->unexpected("no such key in a chain, where a layer reads the one before it; write grid and layers",
                                 Errc::unsupported);
    WEFT_TRY(auto read, read_layer(item, LayerPlace::chain));
    read.at = {0, 0, static_cast<std::uint32_t>(spec.layers.size()), 0};
    spec.layers.push_back(std::move(read));
  }
  spec.grid = {1, 1, static_cast<std::uint32_t>(spec.layers.size()), 1};
  return {};
}

// A restart that failed too often is no answer to itself.
std::optional<actors::Policy> parse_escalation(std::string_view text) noexcept {
  const auto policy = actors::parse_policy(text);
  return policy == actors::Policy::restart ? std::nullopt : policy;
}

Result<actors::SupervisionRule> read_supervision(JsonReader reader) {
  actors::SupervisionRule rule;
  WEFT_TRY(rule.policy, reader.one_of_or("policy", rule.policy, actors::parse_policy, kPolicies));
  WEFT_TRY(rule.max_restarts, reader.u32_or("max_restarts", rule.max_restarts, 0, actors::Supervisor::kMaxRestarts));
  WEFT_TRY(rule.window, reader.u64_or("window", rule.window));
  WEFT_TRY(rule.escalation,
           reader.one_of_or("escalation", rule.escalation, parse_escalation, {"halt", "hold", "isolate"}));
  WEFT_CHECK(reader.finish());
  return rule;
}

Result<std::string> section(JsonReader& reader, std::string_view key) {
  const auto found = reader.find(key);
  if (!found) return std::string();
  if (!found->is_object()) return found->unexpected("an object");
  return write_json(found->raw());
}

Json coord_json(Coord at) { return Json::array({at.z, at.y, at.x, at.l}); }

Json layer_json(const LayerSpec& layer, bool is_inside = false) {
  Json out{{"type", layer.type}};
  if (!is_inside || layer.type == "shared") out["at"] = coord_json(layer.at);
  if (!layer.name.empty()) out["name"] = layer.name;
  for (const LayerSpec& inner : layer.layers) out["layers"].push_back(layer_json(inner, true));
  if (layer.out) out["out"] = layer.out;
  if (!layer.view.empty()) out["view"] = layer.view;
  if (!layer.shape.empty()) out["shape"] = layer.shape;
  if (layer.neighbours != Neighbourhood::none) out["neighbours"] = name(layer.neighbours);
  if (!layer.from.empty()) {
    Json from = Json::array();
    for (const Source& source : layer.from)
      from.push_back(source.is_port() ? Json(source.port) : coord_json(source.at));
    out["from"] = std::move(from);
  }
  if (layer.combine != Combine::concat) out["combine"] = name(layer.combine);
  // A layer inside a container says float32 too, where the container says another type.
  const auto is_said = [&](const auto& key, auto otherwise) { return is_inside ? key.is_stated() : key != otherwise; };
  if (is_said(layer.dtype, Dtype::float32)) out["dtype"] = name(layer.dtype);
  if (layer.granularity) out["granularity"] = name(*layer.granularity);
  if (is_said(layer.activations, Activations::int8)) out["activations"] = name(layer.activations);
  if (layer.activation_dtype != Dtype::float32) out["activation_dtype"] = name(layer.activation_dtype);
  if (layer.gradient_dtype != Dtype::float32) out["gradient_dtype"] = name(layer.gradient_dtype);
  if (is_said(layer.quantization_aware, false)) out["qat"] = bool{layer.quantization_aware};
  if (layer.rate_scale != 1.0f) out["rate_scale"] = layer.rate_scale;
  if (layer.is_frozen) out["freeze"] = true;
  if (layer.policy) out["policy"] = name(*layer.policy);
  if (layer.device) out["device"] = name(*layer.device);
  for (const auto& option : layer.options) std::visit([&](const auto& v) { out[option.first] = v; }, option.second);
  return out;
}

}  // namespace

Result<NetworkSpec> read_network(std::string_view text, std::string_view source_name) {
  WEFT_TRY(const Json document, parse_json(text, source_name));
  WEFT_TRY(JsonReader reader, JsonReader::open(document));
  WEFT_CHECK(check_needed_keys(reader));
  WEFT_TRY(const std::uint32_t version, reader.u32("weft"));
  if (version != kVersion)
    return fail(Errc::unsupported, "weft: version " + std::to_string(version) +
                                       " of the network format; this program reads " + std::to_string(kVersion) +
                                       (version < kVersion ? ", whose keys docs/formats/network.md lists" : ""));
  NetworkSpec spec;
  WEFT_TRY(spec.name, reader.string_or("name", "unnamed", 256));
  const auto chain = reader.find("chain");
  if (chain) {
    WEFT_CHECK(read_chain(reader, *chain, spec));
  } else {
    WEFT_CHECK(read_cells(reader, spec));
  }
  WEFT_TRY(spec.seed, reader.u64_or("seed", 0));
  if (const auto inputs = reader.find("inputs")) {
    WEFT_TRY(JsonReader ports, inputs->object());
    for (const std::string& port : ports.keys()) {
      WEFT_TRY(const JsonValue extents, ports.value(port));
      WEFT_TRY(Shape shape, read_shape(extents));
      spec.inputs.push_back({port, std::move(shape)});
    }
  }
  if (chain && !reader.find("outputs")) spec.outputs.push_back({"y", spec.layers.back().at});
  if (const auto outputs = reader.find("outputs")) {
    WEFT_TRY(JsonReader names, outputs->object());
    for (const std::string& key : names.keys()) {
      WEFT_TRY(const JsonValue place, names.value(key));
      WEFT_TRY(const Coord at, read_coord(place));
      spec.outputs.push_back({key, at});
    }
  }
  if (const auto supervision = reader.find("supervision")) {
    WEFT_TRY(JsonReader rule, supervision->object());
    WEFT_TRY(spec.supervision, read_supervision(std::move(rule)));
  }
  if (const auto device = reader.find("device")) {
    WEFT_TRY(spec.device, device->string());
    if (!is_device_name(spec.device)) return device->unexpected("cpu, vulkan, vulkan:NUMBER or vulkan:PART-OF-A-NAME");
  }
  WEFT_TRY(spec.learning, section(reader, "learning"));
  WEFT_TRY(spec.stream, section(reader, "stream"));
  WEFT_TRY(spec.reinforcement, section(reader, "reinforcement"));
  WEFT_CHECK(reader.finish());
  return spec;
}

Result<std::string> write_network(const NetworkSpec& spec, int indent) {
  Json out{{"weft", kVersion}, {"name", spec.name}, {"seed", spec.seed}};
  out["grid"] = {{"z", spec.grid.z}, {"y", spec.grid.y}, {"x", spec.grid.x}, {"layers", spec.grid.layers}};
  out["inputs"] = Json::object();
  for (const PortSpec& port : spec.inputs) out["inputs"][port.name] = port.shape;
  out["layers"] = Json::array();
  for (const LayerSpec& layer : spec.layers) out["layers"].push_back(layer_json(layer));
  out["outputs"] = Json::object();
  for (const OutputSpec& output : spec.outputs) out["outputs"][output.name] = coord_json(output.at);
  if (spec.supervision != actors::SupervisionRule{})
    out["supervision"] = {{"policy", name(spec.supervision.policy)},
                          {"max_restarts", spec.supervision.max_restarts},
                          {"window", spec.supervision.window},
                          {"escalation", name(spec.supervision.escalation)}};
  if (spec.device != "cpu") out["device"] = spec.device;
  for (const auto& [key, text] : {std::pair{"learning", &spec.learning}, std::pair{"stream", &spec.stream},
                                  std::pair{"reinforcement", &spec.reinforcement}}) {
    if (text->empty()) continue;
    WEFT_TRY(out[key], parse_json(*text, key));
  }
  auto text = write_json(out, indent);
  if (!text && text.error().code() == Errc::too_large)
    return fail(std::move(text).error().within("a network of " + std::to_string(spec.layers.size()) + " layers"));
  return text;
}

}  // namespace weft::mesh
