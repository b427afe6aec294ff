// SPDX-License-Identifier: Apache-2.0

// Norms, softmax, activations and tables.

#include "models/onnx/internal/onnx_operators.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::models::onnx {

Result<Operators::Values> Operators::layer_norm(const Node& n, bool has_mean) {
  WEFT_TRY(Stream x, stream(n, 0));
  WEFT_TRY(const Constant* const gain, constant(n, 1));
  WEFT_TRY(const std::int64_t axis, integer_of(n.node, "axis", -1));
  WEFT_TRY(const double epsilon, real_of(n.node, "epsilon", 1e-5));
  WEFT_TRY(const std::size_t at, axis_of(axis, x.shape.size()));
  const Shape seen = tokens_of(x.shape);
  if (at + 1 != x.shape.size() || gain->count() != seen.back() || n.makes(1) || n.makes(2))
    return fail(Errc::unsupported, "over axes " + std::to_string(at) + " and on of " + to_string(x.shape) +
                                       " with a gain " + to_string(gain->shape) +
                                       "; only the last axis, and one output");
  std::map<std::string, Weight> weights{{"gain", {*gain}}};
  if (has_mean) {
    weights["bias"] = {reals("float32", {seen.back()}, std::vector<double>(seen.back(), 0))};
    if (n.has(2)) {
      WEFT_TRY(const Constant* const bias, constant(n, 2));
      if (bias->count() != seen.back()) return fail(Errc::corrupt, "a bias " + to_string(bias->shape));
      weights["bias"] = {*bias};
    }
  }
  const Shape after = x.shape;
  return add(n, has_mean ? "layer_norm" : "rms_norm", {{"epsilon", epsilon}}, std::move(x), seen, seen, after,
             std::move(weights));
}

Result<Operators::Values> Operators::batch_norm(const Node& n) {
  WEFT_TRY(Stream x, stream(n, 0));
  WEFT_TRY(const double epsilon, real_of(n.node, "epsilon", 1e-5));
  WEFT_TRY(const std::int64_t trains, integer_of(n.node, "training_mode", 0));
  if (trains != 0 || n.makes(1)) return fail(Errc::unsupported, "in training mode");
  if (x.shape.size() < 2) return fail(Errc::corrupt, "of " + to_string(x.shape));
  const std::size_t channels = x.shape[1];
  std::vector<std::vector<double>> given;
  for (std::size_t i = 1; i < 5; ++i) {
    WEFT_TRY(const Constant* const values, constant(n, i));
    WEFT_TRY(given.emplace_back(), reals_of(*values));
    if (given.back().size() != channels)
      return fail(Errc::corrupt,
                  std::to_string(given.back().size()) + " numbers for " + std::to_string(channels) + " channels");
  }
  std::vector<double> factor(channels), summand(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    factor[c] = given[0][c] / std::sqrt(given[3][c] + epsilon);
    summand[c] = given[1][c] - given[2][c] * factor[c];
  }
  FoundLayer layer;
  layer.spec.type = "batch_norm";
  layer.part = x.shape.size() == 2 ? FoundLayer::Part::last_axis : FoundLayer::Part::channels;
  layer.in = x.shape.size() == 2 ? tokens_of(x.shape) : Shape(x.shape.begin() + 1, x.shape.end());
  layer.out = layer.in;
  layer.node = n.label;
  layer.weights = {{"factor", {reals("float64", {channels}, factor)}},
                   {"bias", {reals("float64", {channels}, summand)}}};
  const Shape after = x.shape;
  return one_value(layers_.add(std::move(layer), {std::move(x)}, after));
}

// A norm of each group's values, then a factor and a summand for each channel, as a convolution of one place has them.
Result<Operators::Values> Operators::group_norm(const Node& n) {
  WEFT_TRY(Stream x, stream(n, 0));
  WEFT_TRY(const double epsilon, real_of(n.node, "epsilon", 1e-5));
  if (x.shape.size() < 3 || x.shape.size() > 5 || x.shape[0] != 1)
    return fail(Errc::unsupported, "of " + to_string(x.shape) + "; one sample of channels with one to three axes");
  const bool is_instance = n.node.type == "InstanceNormalization";
  const std::size_t channels = x.shape[1];
  WEFT_TRY(const std::int64_t told,
           integer_of(n.node, "num_groups", is_instance ? static_cast<std::int64_t>(channels) : 0));
  const auto groups = static_cast<std::size_t>(std::max<std::int64_t>(told, 0));
  if (groups == 0 || channels % groups != 0)
    return fail(Errc::corrupt, std::to_string(told) + " groups of " + std::to_string(channels) + " channels");
  std::vector<Value> inputs{Value()};
  for (std::size_t i = 1; i < 3; ++i) {
    WEFT_TRY(const Constant* const given, constant(n, i));
    WEFT_TRY(std::vector<double> values, reals_of(*given));
    // Version 18 has them by group.
    const std::size_t each = is_instance || opset_ >= 21 ? 1 : channels / groups;
    if (values.size() * each != channels)
      return fail(Errc::corrupt,
                  std::to_string(values.size()) + " numbers, expected " + std::to_string(channels / each));
    std::vector<double> spread(channels);
    for (std::size_t c = 0; c < channels; ++c) spread[c] = values[c / each];
    Shape shape{channels};
    if (i == 1) shape.resize(x.shape.size(), 1);
    inputs.emplace_back(reals("float32", std::move(shape), spread));
  }
  const std::size_t width = elements_of(x.shape) / groups;
  const Shape seen = groups == 1 ? Shape{width} : Shape{groups, width}, after = x.shape;
  WEFT_TRY(const Values normed,
           add(n, "layer_norm", {{"affine", false}, {"epsilon", epsilon}}, std::move(x), seen, seen, after));
  inputs[0] = normed[0];
  formats::OnnxNode by_channel;
  by_channel.type = "Conv";
  by_channel.inputs = {"x", "w", "b"};
  by_channel.outputs = {"y"};
  by_channel.attributes.emplace_back("group", static_cast<std::int64_t>(channels));
  return make(by_channel, n.label, inputs);
}

Result<Operators::Values> Operators::softmax(const Node& n) {
  WEFT_TRY(Stream x, stream(n, 0));
  WEFT_TRY(const std::int64_t axis, integer_of(n.node, "axis", opset_ < 13 ? 1 : -1));
  WEFT_TRY(const std::size_t at, axis_of(axis, x.shape.size()));
  std::size_t behind = 1;
  for (std::size_t i = at + 1; i < x.shape.size(); ++i) behind *= x.shape[i];
  // Before opset 13 all axes from this one on are one.
  if (behind != 1 && opset_ >= 13)
    return fail(Errc::unsupported,
                "axis " + std::to_string(axis) + " of " + to_string(x.shape) + "; only the last one");
  const std::size_t width = x.shape[at] * behind, tokens = elements_of(x.shape) / width;
  const Shape seen = tokens == 1 ? Shape{width} : Shape{tokens, width}, after = x.shape;
  return add(n, "softmax", {}, std::move(x), seen, seen, after);
}

Result<Operators::Values> Operators::activation(const Node& n, const char* name) {
  if (n.node.type == "LeakyRelu" || n.node.type == "Elu") {
    const double wanted = n.node.type == "Elu" ? 1.0 : 0.01;
    WEFT_TRY(const double alpha, real_of(n.node, "alpha", wanted));
    if (!(std::fabs(alpha - wanted) <= 1e-6 * wanted))
      return fail(Errc::unsupported, "alpha " + std::to_string(alpha) + ", expected " + (wanted == 1 ? "1" : "0.01"));
  }
  if (n.node.type == "Gelu") {
    WEFT_TRY(const std::string kind, text_of(n.node, "approximate", "none"));
    if (kind == "tanh") name = "gelu_tanh";
  }
  if (n.node.type == "Swish") {
    WEFT_TRY(const double alpha, real_of(n.node, "alpha", 1));
    if (alpha != 1) return fail(Errc::unsupported, "alpha " + std::to_string(alpha));
  }
  WEFT_TRY(Stream x, stream(n, 0));
  const Shape after = x.shape;
  Shape seen = tokens_of(x.shape);
  if (x.chunks.size() == 1 && x.chunks[0].base >= 0) seen = layers_.shape_of(x.chunks[0].base);
  if (elements_of(seen) != elements_of(after)) seen = tokens_of(after);
  return add(n, "activation", {{"activation", std::string(name)}}, std::move(x), seen, seen, after);
}

Result<Operators::Values> Operators::embedding(const Node& n) {
  WEFT_TRY(const std::int64_t axis, integer_of(n.node, "axis", 0));
  WEFT_TRY(const Constant* const table, constant(n, 0));
  WEFT_TRY(Stream ids, stream(n, 1));
  if (axis != 0 || table->shape.size() != 2 || !is_real_type(table->type))
    return fail(Errc::unsupported, "a table " + to_string(table->shape) + " along axis " + std::to_string(axis));
  if (ids.chunks.size() != 1 || ids.chunks[0].base >= 0 || ids.chunks[0].count != layers_.size_of(ids.chunks[0].base))
    return fail(Errc::unsupported, "indices that are no input of the graph");
  const std::size_t width = table->shape[1], tokens = elements_of(ids.shape);
  Shape after = ids.shape;
  after.push_back(width);
  return add(n, "embedding", {{"vocabulary", static_cast<double>(table->shape[0])}}, std::move(ids), {tokens},
             tokens == 1 ? Shape{width} : Shape{tokens, width}, after, {{"table", {*table, true}}}, width);
}

}  // namespace weft::models::onnx
