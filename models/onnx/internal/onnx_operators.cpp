// SPDX-License-Identifier: Apache-2.0

#include "models/onnx/internal/onnx_operators.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace weft::models::onnx {

using formats::OnnxNode;
using Kind = Pattern::Kind;

namespace {

Shape with_width(Shape shape, std::size_t width) {
  shape.back() = width;
  return shape;
}
std::vector<double> numbers_of(const std::vector<std::size_t>& values) { return {values.begin(), values.end()}; }

struct NamedActivation {
  std::string_view op;
  const char* name;
};
constexpr std::array<NamedActivation, 6> kActivations{{{"Relu", "relu"},
                                                       {"Sigmoid", "sigmoid"},
                                                       {"Tanh", "tanh"},
                                                       {"Softplus", "softplus"},
                                                       {"Mish", "mish"},
                                                       {"Swish", "silu"}}};

bool is_about(double value, double wanted) { return std::fabs(value - wanted) <= 1e-6 * std::fabs(wanted); }
}  // namespace

Shape tokens_of(const Shape& shape) {
  const std::size_t width = shape.empty() ? 1 : shape.back(), tokens = width == 0 ? 0 : elements_of(shape) / width;
  return tokens == 1 ? Shape{width} : Shape{tokens, width};
}
std::optional<double> scalar_of(const Constant& constant) {
  if (constant.count() != 1) return std::nullopt;
  const auto values = reals_of(constant);
  return values ? std::optional(values->front()) : std::nullopt;
}
bool is_same(const Stream& a, const Stream& b) {
  return std::equal(
      a.chunks.begin(), a.chunks.end(), b.chunks.begin(), b.chunks.end(),
      [](const Chunk& x, const Chunk& y) { return x.base == y.base && x.offset == y.offset && x.count == y.count; });
}

bool Operators::is_hidden(std::int32_t base) const noexcept {
  return std::find(hidden_.begin(), hidden_.end(), base) != hidden_.end();
}

Result<std::vector<Value>> Operators::make(const OnnxNode& node, const std::string& label,
                                           const std::vector<Value>& inputs) {
  return dispatch({node, label, inputs});
}

Result<Operators::Values> Operators::dispatch(const Node& n) {
  const std::string_view type = n.node.type;
  WEFT_TRY(std::optional<Values> part, known_part(n));
  if (part) return *std::move(part);
  for (const NamedActivation& row : kActivations)
    if (row.op == type) return activation(n, row.name);
  if (type == "Gather" && n.has(0) && std::holds_alternative<Constant>(n.inputs[0])) return embedding(n);
  if (type == "Dropout" && n.makes(1)) return fail(Errc::unsupported, "output 1, the mask");
  if (is_move(type) || type == "Cast") return move(n);
  if (type == "MatMul") return matmul(n);
  if (type == "Gemm") return gemm(n);
  if (type == "Conv") return conv(n, false);
  if (type == "ConvTranspose") return conv(n, true);
  if (type == "MaxPool") return pool(n, true);
  if (type == "AveragePool") return pool(n, false);
  if (type == "GlobalAveragePool") return global_pool(n, false);
  if (type == "GlobalMaxPool") return global_pool(n, true);
  if (type == "ReduceMean") return reduce(n, false);
  if (type == "ReduceMax") return reduce(n, true);
  if (type == "LayerNormalization") return layer_norm(n, true);
  if (type == "RMSNormalization") return layer_norm(n, false);
  if (type == "BatchNormalization") return batch_norm(n);
  if (type == "Softmax") return softmax(n);
  if (type == "LSTM") return recurrent(n, "lstm", 4);
  if (type == "GRU") return recurrent(n, "gru", 3);
  if (type == "RNN") return recurrent(n, "rnn", 1);
  if (type == "LeakyRelu" || type == "Elu") {
    const bool is_elu = type == "Elu";
    WEFT_TRY(const double alpha, real_of(n.node, "alpha", is_elu ? 1.0 : 0.01));
    if (!is_about(alpha, is_elu ? 1.0 : 0.01))
      return fail(Errc::unsupported, "alpha " + std::to_string(alpha) + ", expected " + (is_elu ? "1" : "0.01"));
    return activation(n, is_elu ? "elu" : "leaky_relu");
  }
  if (type == "Gelu") {
    WEFT_TRY(const std::string kind, text_of(n.node, "approximate", "none"));
    return activation(n, kind == "tanh" ? "gelu_tanh" : "gelu");
  }
  if (type == "Sqrt") return sum_of_squares_root(n);
  if (type == "Add" || type == "Sub" || type == "Mul" || type == "Div" || type == "Pow" || type == "Erf")
    return arithmetic(n);
  if (type == "Sum") return combined(n, "residual", mesh::Combine::add);
  if (type == "Mean") return combined(n, "identity", mesh::Combine::avg);
  if (type == "Max") return combined(n, "identity", mesh::Combine::max);
  return fail(Errc::unsupported, "no layer does it");
}

Result<const Constant*> Operators::constant(const Node& n, std::size_t input) const {
  if (!n.has(input)) return fail(Errc::corrupt, "input " + std::to_string(input) + " is not given");
  if (const auto* found = std::get_if<Constant>(&n.inputs[input])) return found;
  return fail(Errc::unsupported, "input " + std::to_string(input) + " is not known before the network runs");
}

Result<Stream> Operators::stream_of(const Node& n, const Value& value) {
  if (const auto* found = std::get_if<Stream>(&value)) {
    for (const Chunk& chunk : found->chunks)
      if (is_hidden(chunk.base)) return fail(Errc::unsupported, "the cell state of a recurrent layer");
    if (elements_of(found->shape) == 0) return fail(Errc::unsupported, "a value without elements");
    return *found;
  }
  if (std::holds_alternative<Constant>(value))
    return fail(Errc::unsupported, "a constant where a layer's output is expected");
  const auto* const pattern = std::get_if<Pattern>(&value);
  if (pattern && pattern->kind == Kind::normed) {
    const Shape shape = tokens_of(pattern->x.shape);
    FoundLayer layer;
    layer.spec.type = "rms_norm";
    layer.spec.options = {{"epsilon", pattern->epsilon}};
    layer.in = layer.out = shape;
    layer.node = n.label;
    layer.weights["gain"] = {reals("float32", {shape.back()}, std::vector<double>(shape.back(), 1.0))};
    return layers_.add(std::move(layer), {pattern->x}, pattern->x.shape);
  }
  if (pattern && pattern->kind == Kind::scaled && pattern->factor > 0) {
    const Shape shape = tokens_of(pattern->x.shape);
    FoundLayer layer;
    layer.spec.type = "standardize";
    layer.spec.options = {{"mean", std::vector<double>(shape.back(), 0.0)},
                          {"deviation", std::vector<double>(shape.back(), 1.0 / pattern->factor)}};
    layer.in = layer.out = shape;
    layer.node = n.label;
    return layers_.add(std::move(layer), {pattern->x}, pattern->x.shape);
  }
  return fail(Errc::unsupported, "a part of a function that is not known");
}
Result<Stream> Operators::stream(const Node& n, std::size_t input) {
  if (!n.has(input)) return fail(Errc::corrupt, "input " + std::to_string(input) + " is not given");
  return stream_of(n, n.inputs[input]);
}

Result<Operators::Values> Operators::one(Result<Stream> made) const {
  if (!made) return fail(std::move(made).error());
  return Values{*std::move(made)};
}

Result<Operators::Values> Operators::add(const Node& n, const char* type, mesh::Options options, Stream x, Shape in,
                                         Shape out, Shape after, std::map<std::string, Weight> weights,
                                         std::size_t width) {
  FoundLayer layer;
  layer.spec.type = type;
  layer.spec.out = width;
  layer.spec.options = std::move(options);
  layer.in = std::move(in);
  layer.out = std::move(out);
  layer.weights = std::move(weights);
  layer.node = n.label;
  return one(layers_.add(std::move(layer), {std::move(x)}, std::move(after)));
}

const FoundLayer* Operators::maker(const Stream& stream, std::string_view type) const {
  if (stream.chunks.size() != 1) return nullptr;
  const Chunk& chunk = stream.chunks[0];
  if (chunk.base < 0 || chunk.offset != 0 || chunk.count != layers_.size_of(chunk.base)) return nullptr;
  const FoundLayer& layer = layers_.at(chunk.base);
  return layer.spec.type == type ? &layer : nullptr;
}

Result<Operators::Values> Operators::move(const Node& n) {
  if (n.node.type == "Cast") {
    WEFT_TRY(const std::int64_t to, integer_of(n.node, "to", 0));
    if (to != 1 && to != 7) return fail(Errc::unsupported, "to type " + std::to_string(to) + "; layers have float32");
    WEFT_TRY(Stream same, stream(n, 0));
    return Values{std::move(same)};
  }
  std::vector<Operand> operands;
  std::vector<const Stream*> streams;
  std::vector<Stream> made;  // of patterns
  made.reserve(n.inputs.size());
  for (std::size_t i = 0; i < n.inputs.size(); ++i) {
    if (!n.has(i)) {
      operands.emplace_back();
    } else if (const auto* known = std::get_if<Constant>(&n.inputs[i])) {
      if (i < moved_operands(n.node))
        return fail(Errc::unsupported, "input " + std::to_string(i) + " is a constant, beside others that are not");
      operands.push_back({&known->shape, known});
    } else if (const auto* found = std::get_if<Stream>(&n.inputs[i])) {
      streams.push_back(found);
      operands.push_back({&found->shape, nullptr});
    } else {
      WEFT_TRY(made.emplace_back(), stream(n, i));
      streams.push_back(&made.back());
      operands.push_back({&made.back().shape, nullptr});
    }
  }
  WEFT_TRY(const std::vector<Moved> moves, moves_of(n.node, operands, opset_));
  for (const Moved& one_move : moves) moved_ += one_move.places.size();
  if (moved_ > kMostMoved)
    return fail(Errc::too_large,
                "values in other orders, " + std::to_string(moved_) + " in all, at most " + std::to_string(kMostMoved));
  Values values;
  for (const Moved& one_move : moves) values.emplace_back(moved_stream(one_move, streams));
  return values;
}

Result<Operators::Values> Operators::dense(const Node& n, Stream x, Weight weight, std::size_t in, std::size_t out) {
  if (x.shape.empty() || x.shape.back() != in)
    return fail(Errc::corrupt, to_string(x.shape) + " times a matrix of " + std::to_string(in) + " rows");
  const Shape seen = tokens_of(x.shape), after = with_width(x.shape, out);
  return add(n, "dense", {{"bias", false}}, std::move(x), seen, with_width(seen, out), after,
             {{"weight", std::move(weight)}}, out);
}

Result<Operators::Values> Operators::matmul(const Node& n) {
  WEFT_TRY(Stream x, stream(n, 0));
  WEFT_TRY(const Constant* const w, constant(n, 1));
  if (w->shape.size() != 2 || !is_real_type(w->type))
    return fail(Errc::unsupported, "input 1 is " + w->type + " " + to_string(w->shape) + ", expected a matrix");
  return dense(n, std::move(x), {*w, true}, w->shape[0], w->shape[1]);
}

Result<Operators::Values> Operators::gemm(const Node& n) {
  WEFT_TRY(Stream x, stream(n, 0));
  WEFT_TRY(const Constant* const w, constant(n, 1));
  WEFT_TRY(const std::int64_t transposes_a, integer_of(n.node, "transA", 0));
  WEFT_TRY(const std::int64_t transposes_b, integer_of(n.node, "transB", 0));
  WEFT_TRY(const double alpha, real_of(n.node, "alpha", 1));
  WEFT_TRY(const double beta, real_of(n.node, "beta", 1));
  if (transposes_a != 0) return fail(Errc::unsupported, "transA");
  if (w->shape.size() != 2 || x.shape.size() != 2 || !is_real_type(w->type)) return fail(Errc::corrupt, "no matrices");
  Weight weight{*w, transposes_b == 0};
  const std::size_t in = w->shape[transposes_b == 0 ? 0 : 1], out = w->shape[transposes_b == 0 ? 1 : 0];
  const auto scaled = [](const Constant& values, double factor) -> Result<Constant> {
    if (factor == 1) return values;
    WEFT_TRY(std::vector<double> numbers, reals_of(values));
    for (double& number : numbers) number *= factor;
    return reals("float32", values.shape, numbers);
  };
  WEFT_TRY(weight.values, scaled(*w, alpha));
  WEFT_TRY(Values made, dense(n, std::move(x), std::move(weight), in, out));
  if (!n.has(2)) return made;
  WEFT_TRY(const Constant* const c, constant(n, 2));
  WEFT_TRY(Constant bias, scaled(*c, beta));
  if (c->count() == 1 && out != 1) {
    WEFT_TRY(const std::vector<double> value, reals_of(bias));
    bias = reals("float32", {out}, std::vector<double>(out, value[0]));
  }
  if (bias.count() != out || bias.shape.empty() || bias.shape.back() != out)
    return fail(Errc::unsupported, "C is " + to_string(c->shape) + ", expected [" + std::to_string(out) + "]");
  bias.shape = {out};
  const auto base = std::get<Stream>(made[0]).chunks[0].base;
  layers_.at(base).weights["bias"] = {std::move(bias)};
  layers_.at(base).spec.options.erase("bias");
  return made;
}

Result<std::vector<std::size_t>> Operators::spatial(const Node& n, const char* key, std::size_t axes,
                                                    std::size_t otherwise) const {
  WEFT_TRY(const auto given, integers_of(n.node, key));
  if (!given) return std::vector<std::size_t>(axes, otherwise);
  if (given->size() != axes)
    return fail(Errc::corrupt, std::string(key) + " has " + std::to_string(given->size()) + " numbers, expected " +
                                   std::to_string(axes));
  std::vector<std::size_t> values;
  for (const std::int64_t value : *given) {
    if (value < 0 || value > 65536) return fail(Errc::corrupt, std::string(key) + " of " + std::to_string(value));
    values.push_back(static_cast<std::size_t>(value));
  }
  return values;
}

namespace {

/// Zeros before and after each axis. @error unsupported: auto_pad of a kind that is not done
Result<std::vector<std::int64_t>> pads_of(const OnnxNode& node, const Shape& x, const std::vector<std::size_t>& kernel,
                                          const std::vector<std::size_t>& stride,
                                          const std::vector<std::size_t>& dilation, bool is_transposed) {
  const std::size_t axes = kernel.size();
  WEFT_TRY(const std::string kind, text_of(node, "auto_pad", "NOTSET"));
  std::vector<std::int64_t> pads(2 * axes, 0);
  if (kind == "VALID") return pads;
  if (kind == "NOTSET") {
    WEFT_TRY(const auto given, integers_of(node, "pads"));
    if (!given) return pads;
    if (given->size() != 2 * axes) return fail(Errc::corrupt, std::to_string(given->size()) + " pads");
    for (const std::int64_t pad : *given)
      if (pad < 0 || pad > 65536) return fail(Errc::unsupported, "a pad of " + std::to_string(pad));
    return *given;
  }
  if ((kind != "SAME_UPPER" && kind != "SAME_LOWER") || is_transposed)
    return fail(Errc::unsupported, "auto_pad '" + printable(kind) + "'");
  for (std::size_t i = 0; i < axes; ++i) {
    if (stride[i] == 0) return fail(Errc::corrupt, "a stride of 0");
    const auto length = static_cast<std::int64_t>(x[2 + i]), step = static_cast<std::int64_t>(stride[i]),
               span = static_cast<std::int64_t>((kernel[i] - 1) * dilation[i] + 1);
    const std::int64_t all = std::max<std::int64_t>(((length + step - 1) / step - 1) * step + span - length, 0);
    pads[kind == "SAME_UPPER" ? i : axes + i] = all / 2;
    pads[kind == "SAME_UPPER" ? axes + i : i] = all - all / 2;
  }
  return pads;
}

}  // namespace

Result<Stream> Operators::padded(const Node& n, const Stream& x, const std::vector<std::int64_t>& pads) const {
  OnnxNode pad;
  pad.type = "Pad";
  const std::size_t axes = pads.size() / 2;
  std::vector<std::int64_t> all(2 * x.shape.size(), 0);
  std::copy_n(pads.begin(), axes, all.begin() + 2);
  std::copy_n(pads.begin() + static_cast<std::ptrdiff_t>(axes), axes,
              all.begin() + static_cast<std::ptrdiff_t>(x.shape.size()) + 2);
  pad.attributes.emplace_back("pads", std::move(all));
  const Operand operand{&x.shape, nullptr};
  auto moves = moves_of(pad, {&operand, 1}, opset_);
  if (!moves) return fail(std::move(moves).error().within(n.node.type));
  return moved_stream(moves->front(), {&x});
}

Result<Operators::Values> Operators::conv(const Node& n, bool is_transposed) {
  WEFT_TRY(Stream x, stream(n, 0));
  WEFT_TRY(const Constant* const w, constant(n, 1));
  const std::size_t rank = x.shape.size();
  if (rank < 3 || rank > 5 || w->shape.size() != rank || !is_real_type(w->type))
    return fail(Errc::unsupported, to_string(x.shape) + " with weights " + to_string(w->shape) + "; one to three axes");
  if (x.shape[0] != 1)
    return fail(Errc::unsupported, "a batch of " + std::to_string(x.shape[0]) + "; a network takes one sample");
  const std::size_t axes = rank - 2;
  const std::vector<std::size_t> kernel(w->shape.begin() + 2, w->shape.end());
  WEFT_TRY(const auto stride, spatial(n, "strides", axes, 1));
  WEFT_TRY(const auto dilation, spatial(n, "dilations", axes, 1));
  WEFT_TRY(const auto extra, spatial(n, "output_padding", axes, 0));
  WEFT_TRY(const std::int64_t group, integer_of(n.node, "group", 1));
  if (n.node.find("output_shape")) return fail(Errc::unsupported, "output_shape");
  if (group < 1 || std::count(kernel.begin(), kernel.end(), 0) || std::count(stride.begin(), stride.end(), 0) ||
      std::count(dilation.begin(), dilation.end(), 0))
    return fail(Errc::corrupt, "a group, kernel, stride or dilation of 0");
  WEFT_TRY(std::vector<std::int64_t> pads, pads_of(n.node, x.shape, kernel, stride, dilation, is_transposed));
  if (!std::equal(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes),
                  pads.begin() + static_cast<std::ptrdiff_t>(axes))) {
    if (is_transposed) return fail(Errc::unsupported, "pads that differ before and after");
    WEFT_TRY(x, padded(n, x, pads));
    std::fill(pads.begin(), pads.end(), 0);
  }
  const auto groups = static_cast<std::size_t>(group);
  const std::size_t out = is_transposed ? w->shape[1] * groups : w->shape[0];
  Shape in(x.shape.begin() + 1, x.shape.end()), made{out};
  for (std::size_t i = 0; i < axes; ++i) {
    const std::size_t pad = 2 * static_cast<std::size_t>(pads[i]), span = (kernel[i] - 1) * dilation[i] + 1;
    const std::size_t length = is_transposed ? (in[1 + i] - 1) * stride[i] + extra[i] + span : in[1 + i] + pad;
    if (length < (is_transposed ? pad + 1 : span))
      return fail(Errc::corrupt, "a kernel of " + std::to_string(span) + " over " + to_string(x.shape));
    made.push_back(is_transposed ? length - pad : (length - span) / stride[i] + 1);
  }
  mesh::Options options{{"kernel", numbers_of(kernel)}};
  const auto give = [&](const char* key, const std::vector<std::size_t>& values, std::size_t otherwise) {
    if (std::any_of(values.begin(), values.end(), [&](std::size_t v) { return v != otherwise; }))
      options[key] = numbers_of(values);
  };
  give("stride", stride, 1);
  give("dilation", dilation, 1);
  give("padding", {pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes)}, 0);
  if (is_transposed) give("output_padding", extra, 0);
  if (groups != 1) options["groups"] = static_cast<double>(groups);
  std::map<std::string, Weight> weights{{"weight", {*w}}};
  if (n.has(2)) {
    WEFT_TRY(const Constant* const bias, constant(n, 2));
    if (bias->count() != out || !is_real_type(bias->type))
      return fail(Errc::corrupt, "a bias " + to_string(bias->shape) + " of " + std::to_string(out) + " channels");
    weights["bias"] = {*bias};
  } else {
    options["bias"] = false;
  }
  Shape after{1};
  after.insert(after.end(), made.begin(), made.end());
  const std::string type = (is_transposed ? "conv_transposed" : "conv") + std::to_string(axes) + "d";
  return add(n, type.c_str(), std::move(options), std::move(x), in, made, after, std::move(weights), out);
}

Result<Operators::Values> Operators::pool(const Node& n, bool is_max) {
  WEFT_TRY(Stream x, stream(n, 0));
  if (n.makes(1)) return fail(Errc::unsupported, "output 1, the indices");
  const std::size_t rank = x.shape.size();
  if (rank < 3 || rank > 5 || x.shape[0] != 1) return fail(Errc::unsupported, "of " + to_string(x.shape));
  const std::size_t axes = rank - 2;
  WEFT_TRY(const auto kernel, spatial(n, "kernel_shape", axes, 0));
  WEFT_TRY(const auto stride, spatial(n, "strides", axes, 1));
  WEFT_TRY(const auto dilation, spatial(n, "dilations", axes, 1));
  WEFT_TRY(const std::int64_t rounds_up, integer_of(n.node, "ceil_mode", 0));
  WEFT_TRY(const std::int64_t counts, integer_of(n.node, "count_include_pad", 0));
  if (std::count(kernel.begin(), kernel.end(), 0) || std::count(stride.begin(), stride.end(), 0) ||
      std::count(dilation.begin(), dilation.end(), 0))
    return fail(Errc::corrupt, "a kernel, stride or dilation of 0");
  WEFT_TRY(const std::vector<std::int64_t> pads, pads_of(n.node, x.shape, kernel, stride, dilation, false));
  const auto half = pads.begin() + static_cast<std::ptrdiff_t>(axes);
  if (!std::equal(pads.begin(), half, half)) return fail(Errc::unsupported, "pads that differ before and after");
  if (rounds_up != 0) return fail(Errc::unsupported, "ceil_mode");
  if (!is_max && std::any_of(dilation.begin(), dilation.end(), [](std::size_t d) { return d != 1; }))
    return fail(Errc::unsupported, "dilations of a mean");
  Shape in(x.shape.begin() + 1, x.shape.end()), made{in[0]};
  for (std::size_t i = 0; i < axes; ++i) {
    const std::size_t length = in[1 + i] + 2 * static_cast<std::size_t>(pads[i]),
                      span = (kernel[i] - 1) * dilation[i] + 1;
    if (length < span)
      return fail(Errc::corrupt, "a kernel of " + std::to_string(span) + " over " + to_string(x.shape));
    made.push_back((length - span) / stride[i] + 1);
  }
  mesh::Options options{{"kernel", numbers_of(kernel)}, {"stride", numbers_of(stride)}};
  const std::vector<std::size_t> padding(pads.begin(), half);
  if (std::any_of(padding.begin(), padding.end(), [](std::size_t p) { return p != 0; })) {
    options["padding"] = numbers_of(padding);
    if (!is_max && counts == 0) options["count_include_pad"] = false;
  }
  if (is_max && std::any_of(dilation.begin(), dilation.end(), [](std::size_t d) { return d != 1; }))
    options["dilation"] = numbers_of(dilation);
  Shape after{1};
  after.insert(after.end(), made.begin(), made.end());
  return add(n, is_max ? "max_pool" : "avg_pool", std::move(options), std::move(x), in, made, after);
}

Result<Operators::Values> Operators::global_pool(const Node& n, bool is_max) {
  WEFT_TRY(Stream x, stream(n, 0));
  if (x.shape.size() < 3 || x.shape[0] != 1) return fail(Errc::unsupported, "of " + to_string(x.shape));
  Shape after(x.shape.size(), 1);
  after[1] = x.shape[1];
  const std::size_t channels = x.shape[1], rest = elements_of(x.shape) / channels;
  return add(n, is_max ? "adaptive_max_pool" : "adaptive_avg_pool", {{"size", 1.0}}, std::move(x), {channels, rest},
             {channels, 1}, after);
}

Result<Operators::Values> Operators::reduce(const Node& n, bool is_max) {
  WEFT_TRY(Stream x, stream(n, 0));
  WEFT_TRY(auto axes, integers_of(n.node, "axes"));
  if (!axes && n.has(1)) {
    WEFT_TRY(const Constant* const given, constant(n, 1));
    WEFT_TRY(axes, integers_of(*given));
  }
  WEFT_TRY(const std::int64_t keeps, integer_of(n.node, "keepdims", 1));
  std::vector<bool> goes(x.shape.size(), !axes);
  for (const std::int64_t axis : axes.value_or(std::vector<std::int64_t>())) {
    WEFT_TRY(const std::size_t at, axis_of(axis, x.shape.size()));
    goes[at] = true;
  }
  Shape after;
  std::size_t left = 1, gone = 1;
  for (std::size_t i = 0; i < goes.size(); ++i) {
    const std::size_t extent = x.shape[i];
    if (!goes[i] && gone != 1 && extent != 1)
      return fail(Errc::unsupported, "axes before the last ones of " + to_string(x.shape));
    (goes[i] ? gone : left) *= extent;
    if (!goes[i] || keeps != 0) after.push_back(goes[i] ? 1 : extent);
  }
  if (gone == 1) return Values{Stream{after, x.chunks}};
  return add(n, is_max ? "adaptive_max_pool" : "adaptive_avg_pool", {{"size", 1.0}}, std::move(x), {left, gone},
             {left, 1}, after);
}

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
  return one(layers_.add(std::move(layer), {std::move(x)}, after));
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

Result<Operators::Values> Operators::sum_of_squares_root(const Node& n) {
  const auto* const pattern = n.has(0) ? std::get_if<Pattern>(&n.inputs[0]) : nullptr;
  if (!pattern || pattern->kind != Kind::sum_of_squares)
    return fail(Errc::unsupported, "no layer does it, but of a sum of two squares");
  // One behind the other they are a layer's halves, or are put so.
  const std::size_t count = elements_of(pattern->x.shape);
  Stream both{{2 * count}, pattern->x.chunks};
  for (const Chunk& chunk : pattern->other.chunks) {
    Chunk& last = both.chunks.back();
    if (last.base == chunk.base && last.offset + last.count == chunk.offset)
      last.count += chunk.count;
    else
      both.chunks.push_back(chunk);
  }
  Shape seen{2, count}, made{1, count};
  if (both.chunks.size() == 1 && both.chunks[0].base >= 0) {
    const Shape& of = layers_.shape_of(both.chunks[0].base);
    if (elements_of(of) == 2 * count && of.front() % 2 == 0) {
      seen = made = of;
      made.front() /= 2;
    }
  }
  return add(n, "magnitude", {}, std::move(both), seen, made, pattern->x.shape);
}

Result<Operators::Values> Operators::combined(const Node& n, const char* type, mesh::Combine combine) {
  FoundLayer layer;
  std::vector<Stream> sources;
  for (std::size_t i = 0; i < n.inputs.size(); ++i) {
    WEFT_TRY(sources.emplace_back(), stream(n, i));
    if (sources.back().shape != sources[0].shape)
      return fail(Errc::unsupported,
                  to_string(sources.back().shape) + " with " + to_string(sources[0].shape) + "; shapes must be equal");
  }
  if (sources.size() == 1) return Values{sources[0]};
  // As the layers make them, where that is one shape; else as vectors.
  std::vector<std::int32_t> bases;
  for (const Stream& source : sources) {
    WEFT_TRY(bases.emplace_back(), layers_.whole(source, n.label));
  }
  const Shape common = layers_.shape_of(bases[0]);
  const bool has_one =
      std::all_of(bases.begin(), bases.end(), [&](std::int32_t base) { return layers_.shape_of(base) == common; });
  const std::size_t count = elements_of(sources[0].shape);
  if (!has_one)
    for (std::int32_t& base : bases) {
      if (layers_.shape_of(base).size() == 1) continue;
      FoundLayer flat;
      flat.spec.type = "identity";
      flat.in = flat.out = {count};
      flat.node = n.label;
      WEFT_TRY(const Stream made, layers_.add(std::move(flat), {layers_.all_of(base, {count})}, {count}));
      base = made.chunks[0].base;
    }
  layer.spec.type = type;
  layer.spec.combine = combine;
  layer.in = layer.out = has_one ? common : Shape{count};
  layer.node = n.label;
  std::vector<Stream> streams;
  for (const std::int32_t base : bases) streams.push_back(layers_.all_of(base, {count}));
  return one(layers_.add(std::move(layer), std::move(streams), sources[0].shape));
}

Result<Operators::Values> Operators::arithmetic(const Node& n) {
  const std::string_view type = n.node.type;
  if (type == "Erf") {
    if (!n.has(0)) return fail(Errc::corrupt, "input 0 is not given");
    if (const auto* pattern = std::get_if<Pattern>(&n.inputs[0]);
        pattern && pattern->kind == Kind::scaled && is_about(pattern->factor, std::sqrt(0.5)))
      return Values{Pattern{Kind::erf, pattern->x}};
    return fail(Errc::unsupported, "no layer does it, but within gelu");
  }
  if (!n.has(0) || !n.has(1)) return fail(Errc::corrupt, "two inputs are needed");
  const Value &a = n.inputs[0], &b = n.inputs[1];
  if (const auto* known = std::get_if<Constant>(&b)) return with_constant(n, a, *known, true);
  if (const auto* known = std::get_if<Constant>(&a)) return with_constant(n, b, *known, false);
  if (type == "Mul") return product(n, a, b);
  if (type != "Add") return fail(Errc::unsupported, "no layer does it of two values that change");
  const auto *p = std::get_if<Pattern>(&a), *q = std::get_if<Pattern>(&b);
  if (p && q && p->kind == Kind::square && q->kind == Kind::square && p->factor == 1 && q->factor == 1 &&
      p->x.shape == q->x.shape)
    return Values{Pattern{Kind::sum_of_squares, p->x, q->x}};
  return combined(n, "residual", mesh::Combine::add);
}

Result<Operators::Values> Operators::with_constant(const Node& n, const Value& value, const Constant& known,
                                                   bool is_second) {
  const std::string_view type = n.node.type;
  const std::optional<double> scalar = scalar_of(known);
  const auto* const pattern = std::get_if<Pattern>(&value);
  if (pattern && pattern->kind == Kind::erf && type == "Add" && scalar == 1.0)
    return Values{Pattern{Kind::one_plus_erf, pattern->x}};
  if (pattern && pattern->kind == Kind::x_one_plus_erf &&
      ((type == "Mul" && scalar == 0.5) || (type == "Div" && is_second && scalar == 2.0))) {
    const Shape shape = tokens_of(pattern->x.shape);
    return add(n, "activation", {{"activation", std::string("gelu")}}, pattern->x, shape, shape, pattern->x.shape);
  }
  WEFT_TRY(Stream x, stream_of(n, value));
  if (type == "Pow") {
    if (!is_second || scalar != 2.0) return fail(Errc::unsupported, "no layer does it, but a square");
    return Values{Pattern{Kind::square, std::move(x)}};
  }
  if (is_second || type == "Mul") {
    if (type == "Mul" && scalar) return Values{Pattern{Kind::scaled, std::move(x), {}, *scalar}};
    if (type == "Div" && scalar && *scalar != 0) return Values{Pattern{Kind::scaled, std::move(x), {}, 1.0 / *scalar}};
  }
  if (type == "Div" || (type == "Sub" && !is_second))
    return fail(Errc::unsupported, "no layer does it with this constant");
  // A number for each value of the last axis.
  const Shape seen = tokens_of(x.shape);
  if (!is_real_type(known.type) ||
      (known.count() != 1 && (known.count() != seen.back() || known.shape.back() != seen.back())))
    return fail(Errc::unsupported, "a constant " + to_string(known.shape) + " with " + to_string(x.shape) +
                                       "; only one number, or one for each value of the last axis");
  WEFT_TRY(std::vector<double> numbers, reals_of(known));
  if (numbers.size() == 1) numbers.assign(seen.back(), numbers[0]);
  const Shape after = x.shape;
  if (type == "Mul") {
    for (double& number : numbers) {
      if (!(number > 0)) return fail(Errc::unsupported, "factors that are not above 0");
      number = 1.0 / number;
    }
    return add(n, "standardize", {{"mean", std::vector<double>(numbers.size(), 0.0)}, {"deviation", numbers}},
               std::move(x), seen, seen, after);
  }
  FoundLayer layer;
  layer.part = FoundLayer::Part::last_axis;
  layer.in = layer.out = seen;
  layer.node = n.label;
  Constant summand = known;
  summand.shape = {seen.back()};
  std::vector<double> mean = numbers;
  if (type == "Add") {
    for (double& number : mean) number = 0.0 - number;
    if (known.count() != seen.back()) summand = reals("float32", {seen.back()}, numbers);
  } else {
    for (double& number : numbers) number = 0.0 - number;
    summand = reals("float32", {seen.back()}, numbers);
  }
  layer.weights["bias"] = {std::move(summand)};
  layer.spec.type = "standardize";
  layer.spec.options = {{"mean", mean}, {"deviation", std::vector<double>(mean.size(), 1.0)}};
  return one(layers_.add(std::move(layer), {std::move(x)}, after));
}

Result<Operators::Values> Operators::product(const Node& n, const Value& a, const Value& b) {
  const auto *p = std::get_if<Pattern>(&a), *q = std::get_if<Pattern>(&b);
  const auto *x = std::get_if<Stream>(&a), *y = std::get_if<Stream>(&b);
  if (q && x && q->kind == Kind::one_plus_erf && is_same(*x, q->x)) return Values{Pattern{Kind::x_one_plus_erf, q->x}};
  if (p && y && p->kind == Kind::one_plus_erf && is_same(*y, p->x)) return Values{Pattern{Kind::x_one_plus_erf, p->x}};
  for (const auto& [half, erf] : {std::pair{p, q}, std::pair{q, p}})
    if (half && erf && half->kind == Kind::scaled && half->factor == 0.5 && erf->kind == Kind::one_plus_erf &&
        is_same(half->x, erf->x)) {
      const Shape shape = tokens_of(erf->x.shape);
      return add(n, "activation", {{"activation", std::string("gelu")}}, erf->x, shape, shape, erf->x.shape);
    }
  if (!x || !y || x->shape != y->shape)
    return fail(Errc::unsupported, "a product of two values that change, of which none is a sigmoid");
  if (is_same(*x, *y)) {
    if (const FoundLayer* const relu = maker(*x, "activation");
        relu && std::get<std::string>(relu->spec.options.at("activation")) == "relu") {
      const Shape seen = relu->in;
      Stream before = layers_.all_of(relu->sources[0], x->shape);
      return add(n, "activation", {{"activation", std::string("relu2")}}, std::move(before), seen, seen, x->shape);
    }
    return Values{Pattern{Kind::square, *x}};
  }
  for (const auto& [value, gate] : {std::pair{x, y}, std::pair{y, x}}) {
    const FoundLayer* const sigmoid = maker(*gate, "activation");
    if (!sigmoid || std::get<std::string>(sigmoid->spec.options.at("activation")) != "sigmoid") continue;
    const std::int32_t base = sigmoid->sources[0];
    if (value->chunks.size() == 1 && value->chunks[0].base == base && value->chunks[0].count == layers_.size_of(base)) {
      const Shape seen = sigmoid->in;
      return add(n, "activation", {{"activation", std::string("silu")}}, *value, seen, seen, value->shape);
    }
    WEFT_TRY(const std::int32_t first, layers_.whole(*value, n.label));
    if (layers_.shape_of(first) != layers_.shape_of(base)) return fail(Errc::unsupported, "a gate of another shape");
    FoundLayer layer;
    layer.spec.type = "identity";
    layer.spec.combine = mesh::Combine::gate;
    layer.in = layer.out = layers_.shape_of(base);
    layer.node = n.label;
    const Stream of_gate = layers_.all_of(base, value->shape), of_value = layers_.all_of(first, value->shape);
    return one(layers_.add(std::move(layer), {of_value, of_gate}, value->shape));
  }
  return fail(Errc::unsupported, "a product of two values that change, of which none is a sigmoid");
}

}  // namespace weft::models::onnx
