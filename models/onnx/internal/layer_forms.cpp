// SPDX-License-Identifier: Apache-2.0

#include "models/onnx/internal/layer_forms.hpp"

#include "models/onnx/internal/onnx_constant.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/weights/weight_store.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::models::onnx {

using Integers = std::vector<std::int64_t>;

namespace {

const mesh::WeightStore& weights_of(const mesh::Mesh& mesh) { return mesh::MeshAccess::weights(mesh); }

std::vector<std::size_t> of_axes(std::vector<std::size_t> values, std::size_t axes) {
  if (values.size() == 1) values.assign(axes, values[0]);
  return values;
}
Integers wide(const std::vector<std::size_t>& values) { return {values.begin(), values.end()}; }
/// The same before and after.
Integers both(const std::vector<std::size_t>& padding) {
  Integers pads = wide(padding);
  pads.insert(pads.end(), padding.begin(), padding.end());
  return pads;
}

}  // namespace

namespace {

/// The layer whose matrix an embedding reads; none: it has a table.
Result<std::optional<Coord>> table_of(mesh::OptionReader& options) {
  WEFT_TRY(const auto place, options.integers("weight", 4, std::vector<std::size_t>()));
  if (place.empty()) return std::optional<Coord>();
  return std::optional(Coord{static_cast<std::uint32_t>(place[0]), static_cast<std::uint32_t>(place[1]),
                             static_cast<std::uint32_t>(place[2]), static_cast<std::uint32_t>(place[3])});
}

void add_tables(const std::vector<mesh::LayerSpec>& layers, std::vector<Coord>& to) {
  for (const mesh::LayerSpec& layer : layers) {
    add_tables(layer.layers, to);
    if (layer.type != "embedding") continue;
    mesh::OptionReader options{layer.options, mesh::layer_declaration(layer.type)->options, layer.type};
    const auto at = table_of(options);
    if (at && *at) to.push_back(**at);
  }
}

}  // namespace

LayerForms::LayerForms(std::shared_ptr<const mesh::Mesh> mesh, GraphWriter& to, bool keeps_codes)
    : mesh_(std::move(mesh)), to_(to), keeps_codes_(keeps_codes) {
  add_tables(mesh_->graph().spec().layers, tables_);
}

bool LayerForms::is_table(const LayerSite& site, std::string_view parameter) const {
  const mesh::Node& node = mesh_->graph().nodes()[site.node];
  return site.prefix.empty() && std::find(tables_.begin(), tables_.end(), node.at) != tables_.end() &&
         node.layer->parameters()[0].name == parameter &&
         (!sums_integers(site, parameter) || (keeps_codes_ && stores_codes(site, parameter)));
}

mesh::OptionReader LayerForms::options(const LayerSite& site) const {
  return {site.spec.options, mesh::layer_declaration(site.spec.type)->options, site.name, {}, &site.spec.layers};
}

const mesh::ParameterSpec* LayerForms::find(const LayerSite& site, std::string_view parameter) const {
  const std::string name = site.prefix + std::string(parameter);
  for (const mesh::WeightStore::Parameter& found : weights_of(*mesh_).of(site.node))
    if (found.spec->name == name) return found.spec;
  return nullptr;
}

namespace {

std::vector<float> values_of(const mesh::Mesh& mesh, mesh::NodeId node, const std::string& name) {
  for (const mesh::WeightStore::Parameter& found : weights_of(mesh).of(node))
    if (found.spec->name == name) return weights_of(mesh).read(found);
  WEFT_ASSERT(false, "a parameter '" + name + "' that is not there");
  return {};
}

}  // namespace

std::string LayerForms::matrix(const LayerSite& site, std::string_view parameter, Shape shape, bool is_transposed) {
  if (keeps_codes_)
    if (const std::string stored = stored_matrix(site, parameter, shape, is_transposed); !stored.empty()) return stored;
  const std::string name = site.prefix + std::string(parameter);
  return to_.weight(
      site.name + "." + std::string(parameter) + (is_transposed ? ".T" : ""), std::move(shape),
      [mesh = mesh_, node = site.node, name] { return values_of(*mesh, node, name); },
      is_transposed ? find(site, parameter)->in : 0);
}
std::string LayerForms::vector(const LayerSite& site, std::string_view parameter) {
  return matrix(site, parameter, {find(site, parameter)->out});
}
std::string LayerForms::moved(const LayerSite& site, const std::string& name, Shape shape,
                              std::vector<std::string> parameters, const std::vector<std::size_t>& blocks) {
  for (std::string& parameter : parameters) parameter = site.prefix + parameter;
  return to_.weight(site.name + "." + name, std::move(shape), [mesh = mesh_, node = site.node, parameters, blocks] {
    std::vector<float> all;
    for (const std::string& parameter : parameters) {
      const std::vector<float> values = values_of(*mesh, node, parameter);
      const std::size_t size = values.size() / blocks.size();
      for (const std::size_t block : blocks)
        all.insert(all.end(), values.begin() + static_cast<std::ptrdiff_t>(block * size),
                   values.begin() + static_cast<std::ptrdiff_t>((block + 1) * size));
    }
    return all;
  });
}

Written LayerForms::joined(mesh::Combine combine, const std::vector<Written>& sources) {
  if (sources.size() == 1) return sources[0];
  if (combine == mesh::Combine::gate) return to_.binary("Mul", sources[0], to_.unary("Sigmoid", sources[1]).name);
  std::vector<std::string> names;
  for (const Written& source : sources) names.push_back(source.name);
  if (combine == mesh::Combine::avg) return {to_.node("Mean", names), sources[0].shape};
  if (combine == mesh::Combine::max) return {to_.node("Max", names), sources[0].shape};
  if (combine == mesh::Combine::add) {
    Written sum = sources[0];
    for (std::size_t i = 1; i < sources.size(); ++i) sum = to_.binary("Add", sum, sources[i].name);
    return sum;
  }
  Shape shape = sources[0].shape;
  shape.back() = 0;
  for (const Written& source : sources) shape.back() += source.shape.back();
  return {to_.node("Concat", names, {{"axis", std::int64_t{-1}}}), shape};
}

Written LayerForms::product(const LayerSite& site, const Written& x, std::string_view weight, std::string_view bias) {
  const mesh::ParameterSpec& spec = *find(site, weight);
  const bool has_bias = find(site, bias) != nullptr;
  Shape shape = x.shape;
  shape.back() = spec.out;
  // A product with rows as the embedding has them, so that the matrix is there once.
  if (x.shape.size() > 1 && is_table(site, weight))
    return to_.reshaped(product(site, to_.reshaped(x, {x.shape.back()}), weight, bias), std::move(shape));
  if (sums_integers(site, weight)) {
    const Written y = coded_product(site, x, weight);
    return has_bias ? to_.binary("Add", y, vector(site, bias)) : y;
  }
  if (x.shape.size() == 1) {
    std::vector<std::string> inputs{x.name, matrix(site, weight, {spec.out, spec.in})};
    if (has_bias) inputs.push_back(vector(site, bias));
    return {to_.node("Gemm", std::move(inputs), {{"transB", std::int64_t{1}}}), shape};
  }
  Written y{to_.node("MatMul", {x.name, matrix(site, weight, {spec.in, spec.out}, true)}), shape};
  return has_bias ? to_.binary("Add", y, vector(site, bias)) : y;
}

Written LayerForms::activated(const Written& x, std::string_view activation) {
  const auto half_times = [&](const Written& one_plus) {
    return to_.binary("Mul", to_.binary("Mul", x, one_plus.name), to_.number(0.5f));
  };
  if (activation == "linear") return x;
  if (activation == "relu") return to_.unary("Relu", x);
  if (activation == "leaky_relu") return to_.unary("LeakyRelu", x, {{"alpha", 0.01f}});
  if (activation == "tanh") return to_.unary("Tanh", x);
  if (activation == "sigmoid") return to_.unary("Sigmoid", x);
  if (activation == "softplus") return to_.unary("Softplus", x);
  if (activation == "elu") return to_.unary("Elu", x, {{"alpha", 1.0f}});
  if (activation == "relu2") {
    const Written y = to_.unary("Relu", x);
    return to_.binary("Mul", y, y.name);
  }
  if (activation == "silu") return to_.binary("Mul", x, to_.unary("Sigmoid", x).name);
  if (activation == "mish") return to_.binary("Mul", x, to_.unary("Tanh", to_.unary("Softplus", x)).name);
  if (activation == "gelu") {
    const Written erf = to_.unary("Erf", to_.binary("Div", x, to_.number(static_cast<float>(std::sqrt(2.0)))));
    return half_times(to_.binary("Add", erf, to_.number(1.0f)));
  }
  // gelu_tanh
  const Written cube = to_.binary("Mul", to_.binary("Mul", x, x.name), x.name);
  const Written inner = to_.binary("Add", to_.binary("Mul", cube, to_.number(0.044715f)), x.name);
  const Written scaled = to_.binary("Mul", inner, to_.number(static_cast<float>(std::sqrt(2.0 / M_PI))));
  return half_times(to_.binary("Add", to_.unary("Tanh", scaled), to_.number(1.0f)));
}

Written LayerForms::reduced(std::string type, const Written& x) {
  Shape one = x.shape;
  one.back() = 1;
  return {to_.node(std::move(type), {x.name, to_.integers({-1})}, {{"keepdims", std::int64_t{1}}}), one};
}

Written LayerForms::rms(const Written& x, double epsilon, const std::string& gain) {
  const Written mean = reduced("ReduceMean", to_.binary("Mul", x, x.name));
  const Written root = to_.unary("Sqrt", to_.binary("Add", mean, to_.number(static_cast<float>(epsilon))));
  return to_.binary("Mul", to_.binary("Div", x, root.name), gain);
}

Result<Written> LayerForms::write(const LayerSite& site, const Written& x) {
  const std::string_view type = site.spec.type;
  if (type == "dense") return dense(site, x);
  if (type == "layer_norm") return norm(site, x, true);
  if (type == "rms_norm") return norm(site, x, false);
  if (type == "softmax") return softmax(site, x);
  if (type == "swiglu") return swiglu(site, x);
  if (type == "conv1d" || type == "conv2d" || type == "conv3d") return convolution(site, x, false);
  if (type.starts_with("conv_transposed")) return convolution(site, x, true);
  if (type == "max_pool" || type == "avg_pool") return pool(site, x, type == "max_pool");
  if (type == "adaptive_max_pool" || type == "adaptive_avg_pool")
    return adaptive_pool(site, x, type == "adaptive_max_pool");
  if (type == "lstm" || type == "gru" || type == "rnn") return recurrent(site, x);
  if (type == "embedding") return embedding(site, x);
  if (type == "position_embedding") return positions(site, x);
  if (type == "attention") return attention(site, x);
  if (type == "select") return select(site, x);
  if (type == "sequential" || type == "parallel") return container(site, x);
  return simple(site, x);
}

Result<Written> LayerForms::simple(const LayerSite& site, const Written& x) {
  const std::string_view type = site.spec.type;
  mesh::OptionReader read = options(site);
  if (type == "identity" || type == "residual" || type == "dropout") return x;
  if (type == "activation") {
    WEFT_TRY(const std::string activation, read.text("activation"));
    return activated(x, activation);
  }
  if (type == "soft_cap") {
    WEFT_TRY(const double cap, read.number("cap"));
    const auto c = static_cast<float>(cap);
    return to_.binary("Mul", to_.unary("Tanh", to_.binary("Mul", x, to_.number(1.0f / c))), to_.number(c));
  }
  if (type == "standardize")
    return to_.binary("Mul", to_.binary("Sub", x, vector(site, "mean")), vector(site, "factor"));
  if (type == "sign") {
    WEFT_TRY(const double zone, read.number("zone"));
    if (zone == 0) return to_.unary("Sign", x);
  }
  if (type == "crelu") {
    WEFT_TRY(const std::string axis, read.text("axis"));
    const std::string positive = to_.unary("Relu", x).name, negative = to_.unary("Relu", to_.unary("Neg", x)).name;
    const std::int64_t joined = axis == "first" ? 1 : -1;
    return Written{to_.node("Concat", {positive, negative}, {{"axis", joined}}), site.layer.out_shape()};
  }
  if (type == "magnitude") {
    const Shape& shape = site.layer.out_shape();
    const auto half = static_cast<std::int64_t>(shape[0]);
    const std::vector<std::string> halves =
        to_.nodes("Split", {x.name, to_.integers({half, half})}, 2, {{"axis", std::int64_t{1}}});
    const Written a{halves[0], shape}, b{halves[1], shape};
    return to_.unary("Sqrt", to_.binary("Add", to_.binary("Mul", a, a.name), to_.binary("Mul", b, b.name).name));
  }
  if (type == "leaky_integrator") {
    WEFT_TRY(const double rate, read.number("rate"));
    const std::string state = "state." + site.name;
    to_.input(state, "float32", x.shape);
    const Written h{state, x.shape};
    const Written y = to_.binary(
        "Add", h, to_.binary("Mul", to_.binary("Sub", x, h.name), to_.number(static_cast<float>(rate))).name);
    to_.output("next_state." + site.name, x.shape, y.name);
    return y;
  }
  return fail(Errc::unsupported, std::string(type) + " has no form in ONNX");
}

Result<Written> LayerForms::dense(const LayerSite& site, const Written& x) {
  WEFT_TRY(const std::string activation, options(site).text("activation"));
  return activated(product(site, x, "weight", "bias"), activation);
}

Result<Written> LayerForms::norm(const LayerSite& site, const Written& x, bool has_mean) {
  mesh::OptionReader read = options(site);
  WEFT_TRY(const double epsilon, read.number("epsilon"));
  if (!has_mean) return rms(x, epsilon, vector(site, "gain"));
  const std::size_t width = x.shape.back();
  const bool has_gain = find(site, "gain") != nullptr;
  const std::string gain = has_gain ? vector(site, "gain") : to_.floats({width}, std::vector<float>(width, 1.0f));
  const std::string bias = has_gain ? vector(site, "bias") : to_.floats({width}, std::vector<float>(width, 0.0f));
  return Written{to_.node("LayerNormalization", {x.name, gain, bias},
                          {{"axis", std::int64_t{-1}}, {"epsilon", static_cast<float>(epsilon)}}),
                 x.shape};
}

Result<Written> LayerForms::softmax(const LayerSite& site, const Written& x) {
  mesh::OptionReader read = options(site);
  WEFT_TRY(const std::string kind, read.text("kind"));
  if (kind != "standard") return fail(Errc::unsupported, "softmax of kind " + kind + " has no form in ONNX");
  WEFT_TRY(const double temperature, read.number("temperature"));
  WEFT_TRY(const std::size_t groups, read.integer("groups"));
  Written in = x;
  if (groups != 1) {
    Shape parts = x.shape;
    parts.back() = groups;
    parts.push_back(x.shape.back() / groups);
    in = to_.reshaped(x, parts);
  }
  if (temperature != 1) in = to_.binary("Div", in, to_.number(static_cast<float>(temperature)));
  return to_.reshaped(to_.unary("Softmax", in, {{"axis", std::int64_t{-1}}}), x.shape);
}

Result<Written> LayerForms::swiglu(const LayerSite& site, const Written& x) {
  mesh::OptionReader read = options(site);
  WEFT_TRY(const std::string gate, read.text("gate"));
  WEFT_TRY(const std::string norm, read.text("inner_norm"));
  const Written up = product(site, x, "up", "up_bias");
  Written gated = to_.binary("Mul", activated(product(site, x, "gate", "gate_bias"), gate), up.name);
  if (norm == "rms") {
    WEFT_TRY(const double epsilon, read.number("epsilon"));
    gated = rms(gated, epsilon, vector(site, "inner_gain"));
  }
  return product(site, gated, "down", "down_bias");
}

Result<Written> LayerForms::convolution(const LayerSite& site, const Written& x, bool is_transposed) {
  mesh::OptionReader read = options(site);
  const std::size_t axes = x.shape.size() - 1, channels = site.layer.out_shape()[0];
  if (!is_transposed) note_float_inputs(site, "weight", "windows");
  WEFT_TRY(const auto kernel_given, read.integers("kernel", axes));
  WEFT_TRY(const auto stride, read.integers("stride", axes));
  WEFT_TRY(const auto padding, read.integers("padding", axes));
  WEFT_TRY(const auto dilation, read.integers("dilation", axes));
  WEFT_TRY(const std::size_t groups, read.integer("groups"));
  WEFT_TRY(const std::string activation, read.text("activation"));
  const std::vector<std::size_t> kernel = of_axes(kernel_given, axes);
  GraphWriter::Attributes attributes{{"dilations", wide(of_axes(dilation, axes))},
                                     {"group", static_cast<std::int64_t>(groups)},
                                     {"kernel_shape", wide(kernel)},
                                     {"pads", both(of_axes(padding, axes))},
                                     {"strides", wide(of_axes(stride, axes))}};
  Shape shape = is_transposed ? Shape{x.shape[0], channels / groups} : Shape{channels, x.shape[0] / groups};
  shape.insert(shape.end(), kernel.begin(), kernel.end());
  if (is_transposed) {
    WEFT_TRY(const auto extra, read.integers("output_padding", axes));
    attributes.emplace_back("output_padding", wide(of_axes(extra, axes)));
  }
  std::vector<std::string> inputs{x.name, matrix(site, "weight", shape)};
  if (find(site, "bias")) inputs.push_back(vector(site, "bias"));
  return activated({to_.node(is_transposed ? "ConvTranspose" : "Conv", std::move(inputs), std::move(attributes)),
                    site.layer.out_shape()},
                   activation);
}

Result<Written> LayerForms::pool(const LayerSite& site, const Written& x, bool is_max) {
  mesh::OptionReader read = options(site);
  const std::size_t axes = x.shape.size() - 1;
  WEFT_TRY(const auto kernel, read.integers("kernel", axes));
  WEFT_TRY(const auto stride, read.integers("stride", axes, kernel));
  WEFT_TRY(const auto padding, read.integers("padding", axes));
  WEFT_TRY(const bool rounds_up, read.boolean("ceil_mode"));
  if (rounds_up) return fail(Errc::unsupported, "ceil_mode, which programs read in different ways");
  GraphWriter::Attributes attributes{{"kernel_shape", wide(of_axes(kernel, axes))},
                                     {"pads", both(of_axes(padding, axes))},
                                     {"strides", wide(of_axes(stride, axes))}};
  if (is_max) {
    WEFT_TRY(const auto dilation, read.integers("dilation", axes));
    attributes.emplace_back("dilations", wide(of_axes(dilation, axes)));
  } else {
    WEFT_TRY(const bool counts, read.boolean("count_include_pad"));
    attributes.emplace_back("count_include_pad", std::int64_t{counts});
  }
  return Written{to_.node(is_max ? "MaxPool" : "AveragePool", {x.name}, std::move(attributes)), site.layer.out_shape()};
}

Result<Written> LayerForms::adaptive_pool(const LayerSite& site, const Written& x, bool is_max) {
  const Shape& out = site.layer.out_shape();
  if (std::all_of(out.begin() + 1, out.end(), [](std::size_t extent) { return extent == 1; }))
    return Written{to_.node(is_max ? "GlobalMaxPool" : "GlobalAveragePool", {x.name}), out};
  std::vector<std::size_t> kernel;
  for (std::size_t i = 1; i < out.size(); ++i) {
    if (x.shape[i] % out[i] != 0)
      return fail(Errc::unsupported, site.spec.type + " of " + std::to_string(x.shape[i]) + " to " +
                                         std::to_string(out[i]) + ", windows of different lengths");
    kernel.push_back(x.shape[i] / out[i]);
  }
  return Written{to_.node(is_max ? "MaxPool" : "AveragePool", {x.name},
                          {{"kernel_shape", wide(kernel)}, {"strides", wide(kernel)}}),
                 out};
}

Result<Written> LayerForms::recurrent(const LayerSite& site, const Written& x) {
  const std::string& type = site.spec.type;
  mesh::OptionReader read = options(site);
  const bool is_sequence = x.shape.size() == 2;
  WEFT_TRY(const bool is_stateful, read.boolean("stateful", !is_sequence));
  WEFT_TRY(const std::string output, read.text("output"));
  const std::vector<std::size_t> blocks = type == "lstm"  ? std::vector<std::size_t>{0, 3, 1, 2}
                                          : type == "gru" ? std::vector<std::size_t>{1, 0, 2}
                                                          : std::vector<std::size_t>{0};
  const mesh::ParameterSpec &ih = *find(site, "weight_ih"), &hh = *find(site, "weight_hh");
  const std::size_t hidden = hh.in;
  note_float_inputs(site, "weight_ih", "inputs and states");
  std::vector<std::string> inputs{
      is_sequence ? to_.node("Transpose", {x.name}, {{"perm", Integers{1, 0, 2}}})
                  : to_.node("Unsqueeze", {x.name, to_.integers({0})}),
      moved(site, "W", {1, ih.out, ih.in}, {"weight_ih"}, blocks),
      moved(site, "R", {1, hh.out, hh.in}, {"weight_hh"}, blocks),
      find(site, "bias_ih") ? moved(site, "B", {1, 2 * ih.out}, {"bias_ih", "bias_hh"}, blocks) : "", ""};
  const std::vector<std::string> states =
      type == "lstm" ? std::vector<std::string>{"h", "c"} : std::vector<std::string>{"h"};
  if (is_stateful)
    for (const std::string& state : states) {
      const std::string name = "state." + site.name + "." + state;
      to_.input(name, "float32", {hidden});
      inputs.push_back(to_.node("Unsqueeze", {name, to_.integers({0})}));
    }
  while (inputs.back().empty()) inputs.pop_back();
  GraphWriter::Attributes attributes{{"hidden_size", static_cast<std::int64_t>(hidden)}};
  if (type == "gru") attributes.emplace_back("linear_before_reset", std::int64_t{1});
  if (type == "rnn") {
    WEFT_TRY(const std::string activation, read.text("activation"));
    attributes.emplace_back("activations", std::vector<std::string>{activation == "relu" ? "Relu" : "Tanh"});
  }
  const std::string op = type == "lstm" ? "LSTM" : type == "gru" ? "GRU" : "RNN";
  const std::vector<std::string> made = to_.nodes(op, std::move(inputs), 1 + states.size(), std::move(attributes));
  if (is_stateful)
    for (std::size_t s = 0; s < states.size(); ++s)
      to_.output("next_state." + site.name + "." + states[s], {hidden},
                 to_.node("Squeeze", {made[1 + s], to_.integers({0})}));
  if (!is_sequence || output == "last") return Written{to_.node("Squeeze", {made[1], to_.integers({0})}), {hidden}};
  const std::string all = to_.node("Squeeze", {made[0], to_.integers({1})});
  return Written{to_.node("Transpose", {all}, {{"perm", Integers{1, 0, 2}}}), site.layer.out_shape()};
}

Result<Written> LayerForms::embedding(const LayerSite& site, const Written& x) {
  mesh::OptionReader read = options(site);
  WEFT_TRY(const auto at, table_of(read));
  WEFT_TRY(const double scale, read.number("scale"));
  WEFT_TRY(const std::size_t vocabulary, read.integer("vocabulary"));
  const std::size_t width = site.layer.out_shape().back();
  std::string table;
  if (!at) {
    table = matrix(site, "table", {vocabulary, width}, true);
  } else {
    // The rows of another layer's matrix.
    const mesh::NodeId owner = *mesh_->graph().find_layer(*at);
    const mesh::Node& node = mesh_->graph().nodes()[owner];
    const LayerSite other(mesh_->graph().layer_spec(owner), *node.layer, owner, "", to_string(*at));
    table = matrix(other, node.layer->parameters()[0].name, {vocabulary, width});
  }
  Shape rows = x.shape;
  rows.push_back(width);
  // A port has whole numbers within the table; of what a layer makes they are made, as kernels::column_of does.
  std::string ids = x.name;
  if (!mesh_->graph().find_port(ids)) {
    constexpr std::int64_t kFloat = 1, kInt64 = 7;
    ids = to_.node("Floor", {to_.node("Cast", {ids}, {{"to", kFloat}})});
    ids = to_.node("Clip", {ids, to_.number(0), to_.number(static_cast<float>(vocabulary - 1))});
    ids = to_.node("Cast", {ids}, {{"to", kInt64}});
  }
  Written y{to_.node("Gather", {table, ids}, {{"axis", std::int64_t{0}}}), rows};
  y = to_.reshaped(y, site.layer.out_shape());
  return scale == 1 ? y : to_.binary("Mul", y, to_.number(static_cast<float>(scale)));
}

Result<Written> LayerForms::positions(const LayerSite& site, const Written& x) {
  mesh::OptionReader read = options(site);
  WEFT_TRY(const bool is_stateful, read.boolean("stateful"));
  if (is_stateful)
    return fail(Errc::unsupported, "position_embedding that goes on where the last tick ended has no form in ONNX");
  const std::size_t tokens = x.shape.size() == 1 ? 1 : x.shape[0], width = x.shape.back();
  const std::string name = site.prefix + "table";
  const std::string rows = to_.weight(site.name + ".table", x.shape.size() == 1 ? Shape{width} : Shape{tokens, width},
                                      [mesh = mesh_, node = site.node, name, tokens, width] {
                                        const std::vector<float> values = values_of(*mesh, node, name);
                                        const std::size_t count = values.size() / width;
                                        std::vector<float> first(tokens * width);
                                        for (std::size_t t = 0; t < tokens; ++t)
                                          for (std::size_t i = 0; i < width; ++i)
                                            first[t * width + i] = values[i * count + t];
                                        return first;
                                      });
  return to_.binary("Add", x, rows);
}

Result<Written> LayerForms::select(const LayerSite& site, const Written& x) {
  mesh::OptionReader read = options(site);
  WEFT_TRY(const auto first, read.integers("first", 0));
  WEFT_TRY(const auto count, read.integers("count", 0));
  WEFT_TRY(const auto step, read.numbers("step"));
  const std::size_t width = elements_of(x.shape);
  Integers places;
  bool has_zeros = false;
  for (std::size_t run = 0; run < first.size(); ++run)
    for (std::size_t i = 0; i < count[run]; ++i) {
      const double by = step.empty() ? 1.0 : step[run];
      places.push_back(static_cast<std::int64_t>(first[run]) +
                       static_cast<std::int64_t>(by) * static_cast<std::int64_t>(i));
      has_zeros |= places.back() == static_cast<std::int64_t>(width);
    }
  Written flat = to_.reshaped(x, {width});
  if (has_zeros) flat = {to_.node("Pad", {flat.name, to_.integers({0, 0, 0, 1})}), {width + 1}};
  const Shape made{places.size()};
  return Written{to_.node("Gather", {flat.name, to_.integers(std::move(places))}, {{"axis", std::int64_t{1}}}), made};
}

Result<std::vector<Written>> LayerForms::inner(const LayerSite& site, const Written& x, bool is_chain) {
  std::vector<Written> made;
  std::map<std::string, std::size_t> named;
  for (std::size_t i = 0; i < site.spec.layers.size(); ++i) {
    const mesh::LayerSpec& spec = site.spec.layers[i];
    std::vector<Written> sources;
    for (const mesh::Source& source : spec.from)
      sources.push_back(source.port == "input" ? x : made[named.at(source.port)]);
    if (sources.empty()) sources.push_back(is_chain && i > 0 ? made.back() : x);
    Written in = joined(spec.type == "residual" ? mesh::Combine::add : spec.combine, sources);
    if (!spec.view.empty()) in = to_.reshaped(in, spec.view);
    WEFT_TRY(made.emplace_back(), inner_layer(site, i, in));
    if (!spec.name.empty()) named[spec.name] = i;
  }
  return made;
}

Result<Written> LayerForms::inner_layer(const LayerSite& site, std::size_t index, const Written& x) {
  const mesh::LayerSpec& spec = site.spec.layers[index];
  const std::string key = "layers[" + std::to_string(index) + "]";
  const mesh::Graph& graph = mesh_->graph();
  if (spec.type == "shared") {
    const mesh::NodeId owner = *graph.find_layer(spec.at);
    return write({graph.layer_spec(owner), *graph.nodes()[owner].layer, owner, "", to_string(spec.at)}, x);
  }
  mesh::LayerContext context;
  context.find_tied = [&](Coord at) -> Result<std::shared_ptr<const mesh::Layer>> {
    return graph.nodes()[*graph.find_layer(at)].layer;
  };
  WEFT_TRY(const auto layer, mesh::make_layer(spec, x.shape, site.name + "." + key, std::move(context)));
  return write({spec, *layer, site.node, site.prefix + key + ".", site.name + "." + key}, x);
}

Result<Written> LayerForms::container(const LayerSite& site, const Written& x) {
  if (site.spec.type == "sequential") {
    WEFT_TRY(const std::vector<Written> made, inner(site, x, true));
    return made.back();
  }
  WEFT_TRY(const std::string merge, options(site).text("merge"));
  if (merge != "concat" && merge != "add" && merge != "avg")
    return fail(Errc::unsupported, "parallel with merge " + merge + " has no form in ONNX");
  WEFT_TRY(const std::vector<Written> made, inner(site, x, false));
  return joined(*mesh::parse_combine(merge), made);
}

}  // namespace weft::models::onnx
