// SPDX-License-Identifier: Apache-2.0

#include "mesh/network/layer.hpp"

#include "mesh/network/option_reader.hpp"
#include "mesh/runtime/observer.hpp"

#include "kernels/finite.hpp"

#include "core/assert.hpp"
#include "core/near_word.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>

namespace weft::mesh {

#define WEFT_LAYER(type, meaning)                                                                      \
  Result<std::unique_ptr<Layer>> make_##type(const Shape& in, std::size_t out, OptionReader& options); \
  LayerDeclaration declare_##type();
#include "mesh/layers/layers.def"
#undef WEFT_LAYER

void Gradients::add_outer(kernels::OpStream& stream, std::size_t i, const kernels::ConstMatrixView& dy,
                          const kernels::ConstMatrixView& x) const {
  if (rows) {
    WEFT_ASSERT(!rows[i].dy.data, "gradients of rows come once an update");
    rows[i] = {dy, x};
    return;
  }
  const kernels::Panels sum{data[i], dy.cols, x.cols};
  if (products && !products[i].is_in_memory) {
    MatrixGradient& kept = products[i];
    const kernels::OuterProduct before = kept.product;
    if (!before.dy && dy.rows == 1 && kernels::are_moderate(dy.data, dy.cols) &&
        kernels::are_moderate(x.data, x.cols)) {
      kept.product = {dy.data, x.data, dy.cols, x.cols};
      return;
    }
    const std::size_t n = kernels::panels_size(dy.cols, x.cols);
    stream.fill({0.0f, {data[i], 1, n, n}});
    if (before.dy) stream.outer_accumulate({{before.dy, 1, dy.cols, dy.cols}, {before.x, 1, x.cols, x.cols}, sum});
    kept = {{}, true};
  }
  stream.outer_accumulate({dy, x, sum});
}

void Gradients::add_columns(kernels::OpStream& stream, std::size_t i, const kernels::ConstMatrixView& dy) const {
  if (!rows) return stream.column_accumulate({dy, data[i]});
  WEFT_ASSERT(!rows[i].dy.data, "gradients of rows come once an update");
  rows[i] = {dy, {}};
}

void OwnStorage::inherit(const OwnStorage& outer) noexcept {
  if (!encoding) encoding = outer.encoding;
  if (!activations) activations = outer.activations;
  if (!quantization_aware) quantization_aware = outer.quantization_aware;
  rate_scale *= outer.rate_scale;
  is_frozen = is_frozen || outer.is_frozen;
}

namespace {

std::size_t values_of(const Shape& shape) noexcept {
  std::size_t values = 1;
  for (const std::size_t extent : shape) values *= extent;
  return values;
}

struct LayerType {
  LayerFactory make;
  LayerDeclaration declaration;
};

LayerType own_type(LayerFactory make, LayerDeclaration declaration, std::string_view formula) {
  declaration.formula = formula;
  declaration.is_own = true;
  return {std::move(make), std::move(declaration)};
}

/// Types are added and never removed: what `find` returns stays.
struct Types {
  std::mutex mutex;
  std::map<std::string, LayerType, std::less<>> all{
#define WEFT_LAYER(type, formula) {#type, own_type(make_##type, declare_##type(), formula)},
#include "mesh/layers/layers.def"
#undef WEFT_LAYER
  };

  const LayerType* find(std::string_view type) {
    const std::lock_guard lock(mutex);
    const auto found = all.find(type);
    return found == all.end() ? nullptr : &found->second;
  }
};

Types& types() {
  static Types instance;
  return instance;
}

Failure unknown_type(const std::string& object, const std::string& type) {
  const std::vector<std::string> all = layer_types();
  const std::vector<std::string_view> names(all.begin(), all.end());
  std::string known;
  for (const std::string& name : all) known += (known.empty() ? "" : ", ") + name;
  return fail(Errc::unknown_name,
              object + ".type: no layer type '" + type + "'; known are " + known + did_you_mean(type, names));
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

Status register_layer(std::string type, LayerFactory factory, LayerDeclaration declaration) {
  // A word that network files, messages and tables can hold as it is.
  const auto fits = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; };
  if (type.empty() || type == "shared" || !std::ranges::all_of(type, fits))
    return fail(Errc::invalid_argument,
                "layer type " + in_quotes(type) + ": a name of letters, digits, '_', '-' and '.', and not \"shared\"");
  const std::lock_guard lock(types().mutex);
  declaration.is_own = false;
  if (!types().all.emplace(type, LayerType{std::move(factory), std::move(declaration)}).second)
    return fail(Errc::duplicate_name, "layer type '" + type + "' exists already; choose another name");
  return {};
}

const LayerDeclaration* layer_declaration(std::string_view type) {
  const LayerType* const found = types().find(type);
  return found ? &found->declaration : nullptr;
}

Layer::Layer(Shape in, Shape out)
    : in_shape_(std::move(in)), out_shape_(std::move(out)), in_(values_of(in_shape_)), out_(values_of(out_shape_)) {}

Result<std::unique_ptr<Layer>> make_layer(const LayerSpec& spec, const Shape& in, std::string object,
                                          LayerContext context) {
  const LayerType* const type = types().find(spec.type);
  if (!type) return unknown_type(object, spec.type);
  OptionReader options(spec.options, type->declaration.options, object, std::move(context), &spec.layers);
  WEFT_CHECK(options.check_names(spec.out));
  WEFT_TRY(std::unique_ptr<Layer> layer, type->make(in, spec.out, options));
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
  for (const auto& [type, made] : types().all) names.push_back(type);
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
