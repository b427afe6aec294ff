// SPDX-License-Identifier: Apache-2.0

#include "models/state_dict/network_weights.hpp"

#include "models/import.hpp"
#include "models/nonfinite.hpp"
#include "models/state_dict/internal/module_values.hpp"
#include "models/state_dict/internal/modules.hpp"

#include "mesh/memory/memory_estimate.hpp"
#include "mesh/persistence/foreign_weights.hpp"

#include "core/philox.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace weft::models {
namespace {

using state_dict::Module;
using state_dict::Values;
using Assigned = std::map<std::string, Values>;  // by a parameter's name

/// A layer with weights, also one inside a container.
struct WeightedLayer {
  mesh::NodeId node = 0;
  std::string prefix;  // of its parameters' names, "layers[2]."
  std::string name;    // those of the containers' layers around it and its own, "encoder.fc1"
  std::string label;   // "[0,0,0,0] layers[2] 'fc1': dense"
  std::vector<const mesh::ParameterSpec*> parameters;

  std::string leaf(const mesh::ParameterSpec& parameter) const { return parameter.name.substr(prefix.size()); }
  std::string text() const {
    std::string shapes;
    for (const mesh::ParameterSpec* const parameter : parameters)
      shapes += (shapes.empty() ? " (" : ", ") + leaf(*parameter) + " " +
                to_string(parameter->is_matrix() ? Shape{parameter->out, parameter->in} : Shape{parameter->out});
    return label + shapes + ")";
  }
};

/// The layer that a parameter's name leads to from its place.
WeightedLayer layer_of(const mesh::Node& node, const mesh::LayerSpec& spec, const std::string& parameter) {
  WeightedLayer made;
  const mesh::LayerSpec* at = &spec;
  constexpr std::string_view kInside = "layers[";
  while (std::string_view(parameter).substr(made.prefix.size()).starts_with(kInside)) {
    const std::size_t end = parameter.find(']', made.prefix.size());
    at = &at->layers[std::stoul(parameter.substr(made.prefix.size() + kInside.size()))];
    made.prefix = parameter.substr(0, end + 2);
    made.name += (made.name.empty() ? "" : ".") + at->name;
  }
  made.label = to_string(node.at) + (made.prefix.empty() ? "" : " " + made.prefix.substr(0, made.prefix.size() - 1)) +
               (at->name.empty() ? "" : " '" + at->name + "'") + ": " + at->type;
  return made;
}

/// Layers in the network's order. Numbers that are a layer's options are no weights.
std::vector<WeightedLayer> layers_of(const mesh::Graph& graph) {
  std::vector<WeightedLayer> layers;
  for (mesh::NodeId id = static_cast<mesh::NodeId>(graph.port_count()); id < graph.nodes().size(); ++id) {
    const std::size_t first = layers.size();
    for (const mesh::ParameterSpec& parameter : graph.nodes()[id].layer->parameters()) {
      WeightedLayer layer = layer_of(graph.nodes()[id], graph.layer_spec(id), parameter.name);
      if (layer.label.ends_with("standardize")) continue;
      if (layers.size() == first || layers.back().prefix != layer.prefix) {
        layer.node = id;
        layers.push_back(std::move(layer));
      }
      layers.back().parameters.push_back(&parameter);
    }
  }
  return layers;
}

class Assignment {
 public:
  Assignment(const formats::SafetensorsFile& file, const std::vector<Module>& modules,
             const std::vector<WeightedLayer>& layers)
      : file_(file), modules_(modules), layers_(layers) {}

  /// The module of each layer.
  Result<std::vector<std::size_t>> run(const std::vector<std::string>& order) {
    std::vector<std::size_t> found;
    const auto fits_all = [&] {
      for (std::size_t i = 0; i < found.size(); ++i)
        if (!fit(modules_[found[i]], layers_[i]))
          problems_.add(text(modules_[found[i]]) + " does not fit " + layers_[i].text());
      if (std::set<std::size_t>(found.begin(), found.end()).size() != found.size())
        problems_.add("a module fits several layers; --order NAME,NAME... says which is whose");
      return problems_.empty();
    };
    if (!order.empty()) {
      WEFT_TRY(found, as_told(order));
    } else if (auto named = by_name()) {
      found = *std::move(named);
    } else {
      WEFT_TRY(found, by_shape());
    }
    if (problems_.empty() && fits_all()) return found;
    return problems_.failure(Errc::unsupported, "weights for the network");
  }

  /// Places of the layer's parameters in the module; nothing: it has others, or of other shapes. `as_named`: a table is
  /// no matrix, and a matrix no table.
  std::optional<Assigned> fit(const Module& module, const WeightedLayer& layer, bool as_named = false) const {
    if (module.type == "batch_norm" || module.parameters.size() != layer.parameters.size()) return std::nullopt;
    Assigned made;
    std::map<std::string, std::size_t> rows;  // of tensors, that are used
    for (const mesh::ParameterSpec* const parameter : layer.parameters) {
      const auto values = values_for(module, layer.leaf(*parameter));
      if (!values || !holds(*values, *parameter)) return std::nullopt;
      if (as_named && !module.parameters.contains(layer.leaf(*parameter))) return std::nullopt;
      rows[values->tensor] += parameter->out;
      made[parameter->name] = *values;
    }
    for (const auto& [parameter, values] : made)
      if (!values.is_transposed && rows[values.tensor] != shape_of(values.tensor)[0]) return std::nullopt;
    return made;
  }

 private:
  Shape shape_of(const std::string& tensor) const { return file_.describe(tensor)->shape; }
  std::string text(const Module& module) const {
    std::string tensors;
    for (const std::string& name : module.tensors)
      tensors += (tensors.empty() ? "'" : ", '") + name + "' " + to_string(shape_of(name));
    return tensors;
  }

  /// A table has a row for each id; that a matrix is one is a guess of the file's names.
  static std::optional<Values> values_for(const Module& module, const std::string& leaf) {
    if (const auto found = module.parameters.find(leaf); found != module.parameters.end()) return found->second;
    const char* const other = leaf == "table" ? "weight" : leaf == "weight" ? "table" : "";
    const auto found = module.parameters.find(other);
    if (found == module.parameters.end()) return std::nullopt;
    Values values = found->second;
    values.is_transposed = !values.is_transposed;
    return values;
  }
  bool holds(const Values& values, const mesh::ParameterSpec& parameter) const {
    const Shape shape = shape_of(values.tensor);
    if (values.is_transposed) return shape == Shape{parameter.in, parameter.out};
    std::size_t in = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) in *= shape[i];
    return !shape.empty() && values.first_row + parameter.out <= shape[0] &&
           (parameter.is_matrix() ? shape.size() > 1 && in == parameter.in : shape.size() == 1);
  }

  std::optional<std::vector<std::size_t>> by_name() const {
    std::map<std::string, std::size_t> named;
    for (std::size_t m = 0; m < modules_.size(); ++m) named[modules_[m].name] = m;
    std::vector<std::size_t> found;
    std::set<std::string> used;
    for (const WeightedLayer& layer : layers_) {
      const auto module = named.find(layer.name);
      if (layer.name.empty() || module == named.end() || !used.insert(layer.name).second) return std::nullopt;
      found.push_back(module->second);
    }
    return found.size() == modules_.size() ? std::optional(std::move(found)) : std::nullopt;
  }

  Result<std::vector<std::size_t>> as_told(const std::vector<std::string>& order) const {
    std::vector<std::size_t> found;
    for (const std::string& name : order) {
      const auto module =
          std::find_if(modules_.begin(), modules_.end(), [&](const Module& each) { return each.name == name; });
      const auto index = static_cast<std::size_t>(module - modules_.begin());
      if (module == modules_.end() || std::find(found.begin(), found.end(), index) != found.end())
        return fail(Errc::not_found, "order: there is no module '" + name + "' left");
      found.push_back(index);
    }
    for (std::size_t m = 0; m < modules_.size(); ++m)
      if (std::find(found.begin(), found.end(), m) == found.end())
        return fail(Errc::invalid_argument, "order: does not say where '" + modules_[m].name + "' is");
    if (found.size() != layers_.size())
      return fail(Errc::shape_mismatch, "order: names " + std::to_string(found.size()) + " modules, the network has " +
                                            std::to_string(layers_.size()) + " layers with weights");
    return found;
  }

  /// Layers that the same modules fit share them; of another number than these none is theirs.
  Result<std::vector<std::size_t>> by_shape() {
    std::map<std::vector<std::size_t>, std::vector<std::size_t>> classes;  // layers, by the modules that fit them
    std::vector<bool> is_used(modules_.size(), false);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      std::vector<std::size_t> fitting = modules_of(layers_[i], true);
      if (fitting.empty()) fitting = modules_of(layers_[i], false);
      for (const std::size_t m : fitting) is_used[m] = true;
      classes[fitting].push_back(i);
    }
    std::vector<std::size_t> found(layers_.size());
    for (const auto& [fitting, places] : classes) {
      if (fitting.size() != places.size()) {
        tell(fitting, places);
        continue;
      }
      WEFT_TRY(const std::vector<std::size_t> sorted, in_order(fitting, places));
      for (std::size_t i = 0; i < places.size(); ++i) found[places[i]] = sorted[i];
    }
    for (std::size_t m = 0; m < modules_.size(); ++m)
      if (!is_used[m]) problems_.add(text(modules_[m]) + ": no layer has just these weights");
    return found;
  }
  std::vector<std::size_t> modules_of(const WeightedLayer& layer, bool as_named) const {
    std::vector<std::size_t> fitting;
    for (std::size_t m = 0; m < modules_.size(); ++m)
      if (fit(modules_[m], layer, as_named)) fitting.push_back(m);
    return fitting;
  }
  void tell(const std::vector<std::size_t>& fitting, const std::vector<std::size_t>& places) {
    std::string wanted, given;
    for (const std::size_t i : places) wanted += (wanted.empty() ? "" : ", ") + layers_[i].text();
    for (const std::size_t m : fitting) given += (given.empty() ? "" : ", ") + text(modules_[m]);
    problems_.add(fitting.empty() ? wanted + ": no tensors of the file fit"
                                  : wanted + ": " + std::to_string(fitting.size()) + " modules fit " +
                                        std::to_string(places.size()) + " layers: " + given);
  }

  /// Modules of the same shapes as their layers follow each other.
  Result<std::vector<std::size_t>> in_order(std::vector<std::size_t> modules, const std::vector<std::size_t>& places) {
    bool is_numbered = true;
    for (std::size_t i = 1; i < modules.size(); ++i) {  // modules come by name
      bool is_numeric = false;
      state_dict::compare_names(modules_[modules[i - 1]].name, modules_[modules[i]].name, &is_numeric);
      is_numbered = is_numbered && is_numeric;
    }
    if (is_numbered) return modules;
    if (is_sorted())
      return fail(
          Errc::invalid_argument,
          "'" + modules_[modules[0]].name + "' and '" + modules_[modules[1]].name + "' both fit " +
              layers_[places[0]].text() + " and " + layers_[places[1]].text() +
              ", and the file has them by name; --order NAME,NAME... says which module is which layer's, all of "
              "them in the network's order");
    const auto place = [&](std::size_t m) {
      const auto& tensors = file_.tensors();
      return std::find_if(tensors.begin(), tensors.end(),
                          [&](const formats::Tensor& tensor) { return tensor.name == modules_[m].tensors[0]; }) -
             tensors.begin();
    };
    std::sort(modules.begin(), modules.end(), [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
    return modules;
  }
  /// True for a file whose tensors stand by name, as programs write them that keep no order; types may be apart.
  bool is_sorted() const {
    std::map<std::string, std::string> last;  // name, by type
    for (const formats::Tensor& tensor : file_.tensors()) {
      std::string& before = last[tensor.type];
      if (tensor.name < before) return false;
      before = tensor.name;
    }
    return true;
  }

  const formats::SafetensorsFile& file_;
  const std::vector<Module>& modules_;
  const std::vector<WeightedLayer>& layers_;
  Problems problems_;
};

std::size_t heads_of(const std::vector<mesh::LayerSpec>& layers) {
  for (const mesh::LayerSpec& layer : layers) {
    if (const auto heads = layer.options.find("heads"); layer.type == "attention" && heads != layer.options.end())
      if (const auto* const number = std::get_if<double>(&heads->second)) return static_cast<std::size_t>(*number);
    if (const std::size_t inside = heads_of(layer.layers)) return inside;
  }
  return 0;
}

void set_encoding(const mesh::Graph& graph, const Encoding& encoding, std::vector<mesh::LayerSpec>& layers) {
  for (mesh::LayerSpec& layer : layers) {
    const auto& parameters = graph.nodes()[*graph.find_layer(layer.at)].layer->parameters();
    if (std::none_of(parameters.begin(), parameters.end(), [](const auto& each) { return each.is_matrix(); })) continue;
    layer.dtype = encoding.dtype;
    layer.granularity.reset();
    if (has_scale(layer.dtype)) layer.granularity = encoding.granularity;
  }
}

}  // namespace

Result<ImportedStateDict> import_network_weights(storage::FileSystem& files, const std::string& path,
                                                 mesh::NetworkSpec network, const StateDictOptions& options) {
  WEFT_TRY(const formats::SafetensorsFile file, formats::load_safetensors(files, path));
  auto imported = import_network_weights(file, std::move(network), options);
  if (!imported) return fail(std::move(imported).error().within(path));
  return imported;
}

Result<ImportedStateDict> import_network_weights(const formats::SafetensorsFile& opened, mesh::NetworkSpec network,
                                                 const StateDictOptions& options) {
  const auto file = std::make_shared<const formats::SafetensorsFile>(opened);
  if (options.encoding) {
    WEFT_TRY(const mesh::Graph graph, mesh::Graph::build(network));
    set_encoding(graph, *options.encoding, network.layers);
  }
  if (options.quantization_aware) WEFT_CHECK(train_stored(network.layers));
  WEFT_TRY(mesh::Graph graph, mesh::Graph::build(network));
  ImportedStateDict imported;
  imported.graph = std::make_shared<const mesh::Graph>(std::move(graph));
  Problems problems;
  const std::vector<Module> modules =
      state_dict::modules_of(*file, std::max<std::size_t>(heads_of(network.layers), 1), problems);
  if (!problems.empty()) return problems.failure(Errc::unsupported, "weights");
  const std::vector<WeightedLayer> layers = layers_of(*imported.graph);
  Assignment assignment(*file, modules, layers);
  WEFT_TRY(const std::vector<std::size_t> found, assignment.run(options.order));
  using Place = std::pair<mesh::NodeId, std::string>;
  auto origins = std::make_shared<std::map<Place, Values>>();
  mesh::MemoryEstimate estimate;
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Module& module = modules[found[i]];
    std::string tensors;
    for (const std::string& name : module.tensors) tensors += (tensors.empty() ? "" : ", ") + name;
    imported.layers.push_back(layers[i].label + " of " + tensors);
    const Assigned assigned = *assignment.fit(module, layers[i]);
    for (const auto& [parameter, values] : assigned) (*origins)[{layers[i].node, parameter}] = values;
    for (const mesh::ParameterSpec* const parameter : layers[i].parameters) {
      const std::uint64_t count = parameter->out * std::max<std::size_t>(parameter->in, 1);
      imported.parameters += count;
      largest = std::max(largest, count * sizeof(float));
    }
  }
  estimate.add("the largest tensor as the file has it, as float32 and quantized", 3 * largest);
  WEFT_CHECK(mesh::check_memory("importing", estimate, options.max_memory));
  const auto read = [file, origins, graph = imported.graph](const mesh::ParameterRows& wanted) -> Status {
    const auto origin = origins->find({*graph->find_layer(wanted.node.at), wanted.spec.name});
    if (origin != origins->end()) return state_dict::read_values(*file, origin->second, wanted);
    RandomStream none(0, 0, RandomPurpose::init);  // options of the layer
    wanted.spec.init(none, wanted.values);
    return {};
  };
  const auto replaced = options.allow_nonfinite ? std::make_shared<NonfiniteWeights>() : nullptr;
  WEFT_TRY(imported.content, mesh::entity_of(imported.graph, with_finite_values(read, replaced)));
  if (replaced && !replaced->empty()) imported.notes.push_back(replaced->note());
  return imported;
}

}  // namespace weft::models
