// SPDX-License-Identifier: Apache-2.0

#include "mesh/layer.hpp"

#include <map>
#include <mutex>

namespace weft::mesh {

#define WEFT_LAYER(type, meaning) \
  Result<std::unique_ptr<Layer>> make_##type(std::size_t in, std::size_t out, OptionReader& options);
#include "mesh/layers.def"
#undef WEFT_LAYER

namespace {

struct Types {
  std::mutex mutex;
  std::map<std::string, LayerFactory, std::less<>> factories{
#define WEFT_LAYER(type, meaning) {#type, make_##type},
#include "mesh/layers.def"
#undef WEFT_LAYER
  };
};

Types& types() {
  static Types instance;
  return instance;
}

}  // namespace

const std::vector<ParameterSpec>& Layer::parameters() const noexcept {
  static const std::vector<ParameterSpec> none;
  return none;
}

Status register_layer(std::string type, LayerFactory factory) {
  const std::lock_guard lock(types().mutex);
  if (!types().factories.emplace(type, std::move(factory)).second)
    return fail(Errc::duplicate_name, "layer type '" + type + "' exists already; choose another name");
  return {};
}

Result<std::unique_ptr<Layer>> make_layer(const LayerSpec& spec, std::size_t in, std::string object,
                                          std::array<std::uint32_t, 2> noise_key) {
  LayerFactory factory;
  {
    const std::lock_guard lock(types().mutex);
    const auto found = types().factories.find(spec.type);
    if (found == types().factories.end()) {
      std::string known;
      for (const auto& [type, make] : types().factories) known += (known.empty() ? "" : ", ") + type;
      return fail(Errc::unknown_name, object + ".type: no layer type '" + spec.type + "'; known are " + known);
    }
    factory = found->second;
  }
  OptionReader options(spec.options, object, noise_key);
  WEFT_TRY(auto layer, factory(in, spec.out, options));
  WEFT_CHECK(options.finish());
  // Types of the user's own are not believed: what reads the layer was told these widths.
  if (!layer) return fail(Errc::invalid_argument, object + ": the factory of '" + spec.type + "' made no layer");
  const auto differs = [&](std::string_view what, std::size_t got, std::size_t wanted) {
    return fail(Errc::shape_mismatch, object + ": the factory of '" + spec.type + "' made a layer whose " +
                                          std::string(what) + " is " + std::to_string(got) + ", not " +
                                          std::to_string(wanted));
  };
  if (layer->in() != in) return differs("input", layer->in(), in);
  if (spec.out != 0 && layer->out() != spec.out) return differs("output", layer->out(), spec.out);
  return layer;
}

std::vector<std::string> layer_types() {
  const std::lock_guard lock(types().mutex);
  std::vector<std::string> names;
  for (const auto& [type, make] : types().factories) names.push_back(type);
  return names;
}

Result<std::size_t> same_width(std::string_view object, std::string_view type, std::size_t in, std::size_t out) {
  if (out != 0 && out != in)
    return fail(Errc::shape_mismatch, std::string(object) + ".out: " + std::string(type) + " keeps its input's width " +
                                          std::to_string(in) + ", not " + std::to_string(out) + "; leave 'out' away");
  return in;
}

}  // namespace weft::mesh
