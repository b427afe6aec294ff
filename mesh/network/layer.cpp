// SPDX-License-Identifier: Apache-2.0

#include "mesh/network/layer.hpp"

#include "mesh/network/option_names.hpp"
#include "mesh/runtime/observer.hpp"

#include "core/near_word.hpp"

#include <array>
#include <map>
#include <mutex>

namespace weft::mesh {

#define WEFT_LAYER(type, meaning) \
  Result<std::unique_ptr<Layer>> make_##type(const Shape& in, std::size_t out, OptionReader& options);
#include "mesh/layers/layers.def"
#undef WEFT_LAYER

namespace {

std::size_t values_of(const Shape& shape) noexcept {
  std::size_t values = 1;
  for (const std::size_t extent : shape) values *= extent;
  return values;
}

struct Types {
  std::mutex mutex;
  std::map<std::string, LayerFactory, std::less<>> factories{
#define WEFT_LAYER(type, meaning) {#type, make_##type},
#include "mesh/layers/layers.def"
#undef WEFT_LAYER
  };
};

Types& types() {
  static Types instance;
  return instance;
}

/// Adds the given keys to an error about a missing width: one of them may have been meant ("units").
Error with_given_keys(Error error, const LayerSpec& spec, const std::string& object) {
  if (spec.out != 0 || spec.options.empty() || error.text().find(object + ".out:") == std::string::npos) return error;
  std::string keys, meant;
  for (const auto& [key, value] : spec.options) {
    keys += (keys.empty() ? "; it has " : ", ") + key;
    if (meant_option(key, std::array<std::string_view, 1>{"out"}) == "out")
      meant = "; '" + key + "' is no key of it: did you mean 'out'?";
  }
  keys += meant;
  return Error(error.code(), error.text() + keys, error.file(), error.line());
}

}  // namespace

Result<MadeObserver> Layer::make_observer(const ObserverSite&) const {
  return fail(Errc::internal, "a layer that observes nothing is asked for its observer");
}

const std::vector<ParameterSpec>& Layer::parameters() const noexcept {
  static const std::vector<ParameterSpec> none;
  return none;
}

std::uint64_t Layer::weight_bytes_touched(const Encoding& encoding, std::size_t) const noexcept {
  std::uint64_t bytes = 0;
  for (const ParameterSpec& parameter : parameters())
    bytes += parameter.is_matrix() ? kernels::weight_bytes(encoding, parameter.out, parameter.in).total()
                                   : parameter.stored_size() * sizeof(float);
  return bytes;
}

std::uint64_t Layer::bytes_touched(const Encoding& encoding, std::size_t rows) const noexcept {
  const std::uint64_t floats = in() + 2 * out() + 2 * state_size() + cache_size();
  return weight_bytes_touched(encoding, rows) + rows * floats * sizeof(float);
}

Status register_layer(std::string type, LayerFactory factory) {
  const std::lock_guard lock(types().mutex);
  if (!types().factories.emplace(type, std::move(factory)).second)
    return fail(Errc::duplicate_name, "layer type '" + type + "' exists already; choose another name");
  return {};
}

Layer::Layer(Shape in, Shape out)
    : in_shape_(std::move(in)), out_shape_(std::move(out)), in_(values_of(in_shape_)), out_(values_of(out_shape_)) {}

Result<std::unique_ptr<Layer>> make_layer(const LayerSpec& spec, const Shape& in, std::string object,
                                          LayerContext context) {
  LayerFactory factory;
  {
    const std::lock_guard lock(types().mutex);
    const auto found = types().factories.find(spec.type);
    if (found == types().factories.end()) {
      std::string known;
      std::vector<std::string_view> names;
      for (const auto& [type, make] : types().factories) {
        known += (known.empty() ? "" : ", ") + type;
        names.push_back(type);
      }
      return fail(Errc::unknown_name, object + ".type: no layer type '" + spec.type + "'; known are " + known +
                                          did_you_mean(spec.type, names));
    }
    factory = found->second;
  }
  OptionReader options(spec.options, object, std::move(context), &spec.layers);
  auto result = factory(in, spec.out, options);
  if (!result) return fail(with_given_keys(std::move(result).error(), spec, object));
  auto layer = *std::move(result);
  WEFT_CHECK(options.finish());
  // Types of the user's own are not believed: what reads the layer was told these widths.
  if (!layer) return fail(Errc::invalid_argument, object + ": the factory of '" + spec.type + "' made no layer");
  const auto differs = [&](std::string_view what, const Shape& got, const std::string& wanted) {
    return fail(Errc::shape_mismatch, object + ": the factory of '" + spec.type + "' made a layer whose " +
                                          std::string(what) + " is " + weft::to_string(got) + ", not " + wanted);
  };
  if (layer->in_shape() != in) return differs("input", layer->in_shape(), weft::to_string(in));
  const Shape& made = layer->out_shape();
  if (spec.out != 0 && made.size() == 1 && made[0] != spec.out)
    return differs("output", made, weft::to_string(Shape{spec.out}));
  return layer;
}

std::vector<std::string> layer_types() {
  const std::lock_guard lock(types().mutex);
  std::vector<std::string> names;
  for (const auto& [type, make] : types().factories) names.push_back(type);
  return names;
}

Result<Shape> same_shape(std::string_view object, std::string_view type, const Shape& in, std::size_t out) {
  if (out != 0 && out != in.back())
    return fail(Errc::shape_mismatch, std::string(object) + ".out: " + std::string(type) + " keeps its input's width " +
                                          std::to_string(in.back()) + ", not " + std::to_string(out) +
                                          "; leave 'out' away");
  return in;
}

Result<std::size_t> vector_width(std::string_view object, std::string_view type, const Shape& in) {
  if (in.size() != 1)
    return fail(Errc::shape_mismatch, std::string(object) + ": " + std::string(type) +
                                          " takes one vector, not an input of shape " + weft::to_string(in) +
                                          "; state 'view' to read it as [" + std::to_string(values_of(in)) + "]");
  return in[0];
}

Result<std::size_t> same_width(std::string_view object, std::string_view type, const Shape& in, std::size_t out) {
  WEFT_TRY(const std::size_t width, vector_width(object, type, in));
  WEFT_CHECK(same_shape(object, type, in, out));
  return width;
}

Shape with_features(Shape in, std::size_t features) {
  in.back() = features;
  return in;
}

}  // namespace weft::mesh
