// SPDX-License-Identifier: Apache-2.0
// Layers inside a container as they are described: keys that they may have, their sources and shapes.

#include "mesh/layers/container.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

namespace weft::mesh {
namespace {

/// Refuses keys that a layer inside a container may not have.
Status check_keys(const LayerSpec& spec, const std::string& object) {
  const auto refused = [&](const char* key, const std::string& why) {
    return fail(Errc::unsupported, object + "." + key + ": " + why);
  };
  const auto of_grid = [&](const char* key) {
    return refused(key, std::string("only layers of the grid have it; state '") + key + "' on the container");
  };
  if (spec.neighbours != Neighbourhood::none) return of_grid("neighbours");
  if (!spec.shape.empty()) return of_grid("shape");
  if (spec.policy && spec.type == "shared")
    return refused("policy", "a shared layer has none of its own; state it on the container");
  if (spec.policy == actors::Policy::isolate)
    return refused("policy",
                   "a layer inside cannot be disabled alone, since others read it in the same tick; say halt, hold or "
                   "restart, or state 'isolate' on the container");
  if (spec.device == Placement::vulkan)
    return refused("device",
                   "a cell is on one side; a layer inside can keep it on the cpu, and 'vulkan' is stated on "
                   "the container");
  for (const auto& [key, dtype] :
       {std::pair("activation_dtype", spec.activation_dtype), std::pair("gradient_dtype", spec.gradient_dtype)})
    if (dtype != Dtype::float32)
      return refused(key, std::string("what goes from layer to layer inside is no message and stays float32; state '") +
                              key + "' on the container");
  if (!std::isfinite(spec.rate_scale) || spec.rate_scale <= 0.0f)
    return fail(Errc::out_of_range, object + ".rate_scale: " + std::to_string(spec.rate_scale) +
                                        " is not above 0; to keep a layer as it is, say freeze");
  if (spec.granularity && !spec.dtype.is_stated())
    return refused("granularity", "of which type is not said; state 'dtype' beside it");
  if (spec.granularity && !has_scale(spec.dtype))
    return refused("granularity", "'" + std::string(name(*spec.granularity)) + "' with dtype " +
                                      std::string(name(spec.dtype)) + ", which has no scales; leave it away");
  if (spec.granularity)
    if (const auto fits = check_granularity(spec.dtype, *spec.granularity); !fits)
      return refused("granularity", fits.error().text());
  return {};
}

OwnStorage own_storage(const LayerSpec& spec) {
  OwnStorage own;
  if (spec.dtype.is_stated()) own.encoding = Encoding(spec.dtype, spec.granularity);
  if (spec.activations.is_stated()) own.activations = spec.activations;
  if (spec.quantization_aware.is_stated()) own.quantization_aware = spec.quantization_aware;
  own.rate_scale = spec.rate_scale;
  own.is_frozen = spec.is_frozen;
  return own;
}

/// Keys about weights, of layers that have the weights that they speak of.
Status check_storage(const LayerSpec& spec, const Layer& layer, const std::string& object) {
  const OwnStorage own = own_storage(spec);
  const auto& parameters = layer.parameters();
  const bool has_matrix =
      std::any_of(parameters.begin(), parameters.end(), [](const auto& p) { return p.is_matrix(); });
  const auto refused = [&](const char* key, const char* what) {
    return fail(Errc::unsupported, object + "." + key + ": layer type '" + spec.type + "' " + what + "; leave it away");
  };
  if (!has_matrix && own.encoding) return refused("dtype", "has no weight matrix of its own to store");
  if (!has_matrix && own.activations) return refused("activations", "has no weight matrix of its own");
  if (!has_matrix && own.quantization_aware) return refused("qat", "has no weight matrix of its own to train through");
  if (parameters.empty() && (own.is_frozen || own.rate_scale != 1.0f))
    return refused(own.is_frozen ? "freeze" : "rate_scale", "has no weights of its own that learning moves");
  return {};
}

}  // namespace

const Shape& Container::Builder::shape_of(std::int32_t step) const noexcept {
  return step == kInput ? in_ : steps_[static_cast<std::size_t>(step)].layer->out_shape();
}

Result<Shape> Container::Builder::joined(Combine combine, std::span<const std::int32_t> sources,
                                         const std::string& key) const {
  return combined_shape(
      combine, sources.size(),
      [&](std::size_t i) {
        return sources[i] == kInput ? std::string("the container's input")
                                    : steps_[static_cast<std::size_t>(sources[i])].name;
      },
      [&](std::size_t i) -> const Shape& { return shape_of(sources[i]); },
      [&](std::string_view of) { return object_of(key) + "." + std::string(of); });
}

Result<std::vector<std::int32_t>> Container::Builder::sources_of(const LayerSpec& spec, const std::string& key,
                                                                 std::vector<std::int32_t> otherwise) const {
  if (spec.from.empty()) return otherwise;
  std::vector<std::int32_t> sources;
  for (std::size_t i = 0; i < spec.from.size(); ++i) {
    const std::string object = object_of(key) + ".from[" + std::to_string(i) + "]: ";
    const Source& source = spec.from[i];
    if (!source.is_port())
      return fail(Errc::unsupported, object + to_string(source) +
                                         " is a place; inside a container sources are names of siblings or \"input\"");
    if (source.port == "input") {
      sources.push_back(kInput);
      continue;
    }
    const auto found = std::find(names_.begin(), names_.end(), source.port);
    if (found == names_.end())
      return fail(Errc::unknown_name, object + "no layer before it in the container is named '" + source.port +
                                          "'; within a tick a layer reads only what stands before it");
    sources.push_back(static_cast<std::int32_t>(found - names_.begin()));
  }
  return sources;
}

Result<std::shared_ptr<const Layer>> Container::Builder::make(const LayerSpec& spec, const Shape& in,
                                                              const std::string& key) {
  const std::string object = object_of(key);
  if (spec.type != "shared") {
    LayerContext context = options_.context();
    ++context.depth;
    if (context.depth > kMaxContainerDepth)
      return fail(Errc::too_large,
                  object + ": containers nest at most " + std::to_string(kMaxContainerDepth) + " deep");
    // Steps draw from streams of their own: the key's second word is the container's, the first counts its steps.
    context.noise_key[0] += 0x9e3779b9u * static_cast<std::uint32_t>(steps_.size() + 1);
    WEFT_TRY(auto layer, make_layer(spec, in, object, std::move(context)));
    return std::shared_ptr<const Layer>(std::move(layer));
  }
  if (!spec.options.empty() || !spec.layers.empty())
    return fail(Errc::unknown_name, object + ": a shared layer is what the layer at " + to_string(spec.at) +
                                        " is; it has no options of its own");
  if (!options_.context().find_tied)
    return fail(Errc::unsupported, object + ": a shared layer needs a grid to find " + to_string(spec.at) + " in");
  auto owner = options_.context().find_tied(spec.at);
  if (!owner) return fail(std::move(owner).error().within(object + ".at"));
  if ((*owner)->in_shape() != in)
    return fail(Errc::shape_mismatch, object + ".at: the layer at " + to_string(spec.at) + " takes " +
                                          weft::to_string((*owner)->in_shape()) + ", not " + weft::to_string(in));
  if (!(*owner)->tied_to().empty())
    return fail(Errc::unsupported, object + ".at: the layer at " + to_string(spec.at) +
                                       " computes with shared weights itself; share their owner");
  return *owner;
}

Result<std::int32_t> Container::Builder::add(const LayerSpec& spec, const std::string& key,
                                             std::vector<std::int32_t> from) {
  const std::string object = object_of(key);
  WEFT_CHECK(check_keys(spec, object));
  if (spec.name == "input" || std::find(names_.begin(), names_.end(), spec.name) != names_.end()) {
    if (!spec.name.empty()) return fail(Errc::duplicate_name, object + ".name: '" + spec.name + "' is taken");
  }
  WEFT_TRY(std::vector<std::int32_t> sources, sources_of(spec, key, std::move(from)));
  const Combine combine = spec.type == "residual" ? Combine::add : spec.combine;
  if (spec.type == "residual" && sources.size() < 2)
    return fail(Errc::shape_mismatch,
                object + ".from: a residual sums at least two sources, not " + std::to_string(sources.size()));
  WEFT_TRY(Shape in, joined(combine, sources, key));
  if (!spec.view.empty()) {
    WEFT_TRY(const std::size_t has, volume(in));
    WEFT_TRY(const std::size_t sees, volume(spec.view));
    if (has != sees)
      return fail(Errc::shape_mismatch, object + ".view: " + weft::to_string(spec.view) + " has " +
                                            std::to_string(sees) + " values, the input " + weft::to_string(in) +
                                            " has " + std::to_string(has));
    in = spec.view;
  }
  WEFT_TRY(auto layer, make(spec, in, key));
  if (layer->out() == 0 || layer->out() > kMaxWidth)
    return fail(Errc::shape_mismatch, object + ": " + spec.type + " makes " + weft::to_string(layer->out_shape()) +
                                          ", outside [1, 16777216] values");
  if (layer->is_observer())
    return fail(Errc::unsupported,
                object + ": " + spec.type + " watches a layer of the grid, and so stands there itself");
  std::optional<Coord> owner;
  if (spec.type == "shared") owner = spec.at;
  const OwnStorage own = own_storage(spec);
  if (owner && (own.encoding || own.activations || own.quantization_aware || own.is_frozen || own.rate_scale != 1.0f))
    return fail(Errc::unsupported, object + ": a shared layer's weights are stored and learn as the layer at " +
                                       to_string(spec.at) + " says; state it there");
  if (!owner) WEFT_CHECK(check_storage(spec, *layer, object));
  steps_.push_back({std::move(layer), std::move(sources), combine, key, owner, own, spec.policy});
  names_.push_back(spec.name);
  return static_cast<std::int32_t>(steps_.size() - 1);
}

Result<std::int32_t> Container::Builder::add(std::unique_ptr<Layer> layer, const std::string& key,
                                             std::vector<std::int32_t> from, Combine combine) {
  steps_.push_back({std::move(layer), std::move(from), combine, key, std::nullopt, {}});
  names_.emplace_back();
  return static_cast<std::int32_t>(steps_.size() - 1);
}

void Container::Builder::choose(std::int32_t gate, std::vector<std::int32_t> experts, std::int32_t merge,
                                std::size_t top_k) {
  choice_ = {gate, merge, std::move(experts), top_k};
}

Result<std::unique_ptr<Layer>> Container::Builder::finish() {
  if (steps_.empty())
    return fail(Errc::parse_failed, options_.object() + ".layers: a container holds at least one layer");
  std::vector<bool> is_read(steps_.size(), false);
  is_read.back() = true;
  for (const Step& step : steps_)
    for (const std::int32_t s : step.sources)
      if (s != kInput) is_read[static_cast<std::size_t>(s)] = true;
  for (std::size_t i = 0; i < steps_.size(); ++i)
    if (!is_read[i])
      return fail(Errc::shape_mismatch, object_of(steps_[i].name) + ": no layer after it reads it; take it out, or " +
                                            "name it in a later layer's 'from'");
  return std::unique_ptr<Layer>(new Container(std::move(*this)));
}

}  // namespace weft::mesh
