// SPDX-License-Identifier: Apache-2.0

#include "mesh/network/network_digest.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <string_view>
#include <variant>
#include <vector>

namespace weft::mesh {
namespace {

/// Lengths stand before what they measure, so that no two networks give one stream of bytes.
class Digest {
 public:
  void add(std::uint64_t value) { hasher_.add(value); }
  void add(std::string_view text) {
    add(std::uint64_t{text.size()});
    hasher_.add_bytes(text.data(), text.size());
  }
  void add(Coord at) {
    for (const std::uint32_t axis : {at.z, at.y, at.x, at.l}) add(std::uint64_t{axis});
  }
  void add(const Shape& shape) {
    add(std::uint64_t{shape.size()});
    for (const auto extent : shape) add(std::uint64_t{extent});
  }
  void add(const OptionValue& value) {
    add(std::uint64_t{value.index()});
    if (const bool* flag = std::get_if<bool>(&value)) add(std::uint64_t{*flag});
    if (const double* number = std::get_if<double>(&value)) add(std::bit_cast<std::uint64_t>(*number));
    if (const std::string* text = std::get_if<std::string>(&value)) add(std::string_view(*text));
    if (const auto* list = std::get_if<std::vector<double>>(&value)) {
      add(std::uint64_t{list->size()});
      for (const double number : *list) add(std::bit_cast<std::uint64_t>(number));
    }
  }
  void add(const LayerSpec& layer, bool is_inside = false) {
    add(layer.at);
    add(std::string_view(layer.type));
    add(std::uint64_t{layer.out});
    add(layer.view);
    add(std::uint64_t{layer.from.size()});
    for (const Source& source : layer.from) {
      add(std::string_view(source.port));
      if (!source.is_port()) add(source.at);
    }
    add(static_cast<std::uint64_t>(layer.neighbours));
    add(static_cast<std::uint64_t>(layer.combine));
    // Networks without such a type have the digest that they always had.
    const bool is_rounded = layer.activation_dtype != Dtype::float32;
    const auto rounded = is_rounded ? static_cast<std::uint64_t>(layer.activation_dtype) + 1 : 0;
    // Inside a container what is said differs from what is not.
    const std::uint64_t is_said = is_inside && layer.activations.is_stated() ? 1 : 0;
    add(static_cast<std::uint64_t>(Activations{layer.activations}) | rounded << 8 | is_said << 32);
    add(std::uint64_t{layer.options.size()});
    for (const auto& [key, value] : layer.options) {
      add(std::string_view(key));
      add(value);
    }
    add(std::string_view(layer.name));
    add(std::uint64_t{layer.layers.size()});
    for (const LayerSpec& inner : layer.layers) add(inner, true);
  }
  Hash128 result() const { return hasher_.digest(); }

 private:
  StateHasher hasher_;
};

}  // namespace

Hash128 network_digest(const Graph& graph) {
  const NetworkSpec& spec = graph.spec();
  Digest digest;
  for (const std::uint32_t extent : {spec.grid.z, spec.grid.y, spec.grid.x, spec.grid.layers})
    digest.add(std::uint64_t{extent});
  std::map<std::string_view, const Shape*> ports;
  for (const PortSpec& port : spec.inputs) ports.emplace(port.name, &port.shape);
  digest.add(std::uint64_t{ports.size()});
  for (const auto& [name, shape] : ports) {
    digest.add(name);
    digest.add(*shape);
  }
  std::vector<const LayerSpec*> layers;
  for (const LayerSpec& layer : spec.layers) layers.push_back(&layer);
  std::sort(layers.begin(), layers.end(), [](const auto* a, const auto* b) { return a->at < b->at; });
  digest.add(std::uint64_t{layers.size()});
  for (const LayerSpec* layer : layers) digest.add(*layer);
  std::map<std::string_view, Coord> outputs;
  for (const OutputSpec& output : spec.outputs) outputs.emplace(output.name, output.at);
  digest.add(std::uint64_t{outputs.size()});
  for (const auto& [name, at] : outputs) {
    digest.add(name);
    digest.add(at);
  }
  const bool draws_noise = std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return !node.is_port() && !node.layer->noise_states().empty();
  });
  digest.add(draws_noise ? spec.seed : 0);
  return digest.result();
}

}  // namespace weft::mesh
