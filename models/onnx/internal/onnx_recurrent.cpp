// SPDX-License-Identifier: Apache-2.0

// LSTM, GRU and RNN: gates in another order, and states that the network keeps itself.

#include "models/onnx/internal/onnx_operators.hpp"

#include <algorithm>
#include <utility>

namespace weft::models::onnx {

using formats::OnnxNode;

namespace {

/// Blocks of Weft's (PyTorch's) order among ONNX's: i f g o of i o f g, r z n of z r n.
std::vector<std::size_t> blocks_of(std::string_view type) {
  if (type == "lstm") return {0, 2, 3, 1};
  if (type == "gru") return {1, 0, 2};
  return {0};
}

/// Blocks of `rows` rows of a matrix, `first` of which is the first one, in another order.
Constant in_order(const Constant& from, const std::vector<std::size_t>& blocks, std::size_t first, std::size_t rows,
                  std::size_t width, Shape shape) {
  Moved move{std::move(shape)};
  for (const std::size_t block : blocks)
    for (std::size_t i = 0; i < rows * width; ++i)
      move.places.push_back(static_cast<std::int64_t>(((first + block) * rows) * width + i));
  const Operand operand{&from.shape, &from};
  return moved(move, {&operand, 1}, 1);
}

Status check_attributes(const OnnxNode& node, std::string_view type, std::string& activation) {
  WEFT_TRY(const std::string direction, text_of(node, "direction", "forward"));
  WEFT_TRY(const std::int64_t forgets, integer_of(node, "input_forget", 0));
  WEFT_TRY(const std::int64_t resets_late, integer_of(node, "linear_before_reset", 0));
  if (direction != "forward") return fail(Errc::unsupported, "direction '" + direction + "'; only forward");
  if (node.find("clip") || forgets != 0) return fail(Errc::unsupported, "clip or input_forget");
  if (type == "gru" && resets_late == 0)
    return fail(Errc::unsupported, "linear_before_reset 0, which is another function; PyTorch's is 1");
  const auto* const given =
      node.find("activations") ? std::get_if<std::vector<std::string>>(node.find("activations")) : nullptr;
  if (!given) return {};
  std::vector<std::string> names = *given;
  for (std::string& name : names)
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  if (type == "rnn" && names.size() == 1 && (names[0] == "tanh" || names[0] == "relu")) {
    activation = names[0];
    return {};
  }
  if (names == (type == "lstm" ? std::vector<std::string>{"sigmoid", "tanh", "tanh"}
                               : std::vector<std::string>{"sigmoid", "tanh"}))
    return {};
  return fail(Errc::unsupported, "activations other than the usual ones");
}

}  // namespace

Result<std::vector<Value>> Operators::recurrent(const Node& n, std::string_view type, std::size_t gates) {
  std::string activation = "tanh";
  WEFT_CHECK(check_attributes(n.node, type, activation));
  WEFT_TRY(Stream x, stream(n, 0));
  WEFT_TRY(const Constant* const w, constant(n, 1));
  WEFT_TRY(const Constant* const r, constant(n, 2));
  WEFT_TRY(const std::int64_t layout, integer_of(n.node, "layout", 0));
  if (n.has(7)) return fail(Errc::unsupported, "peepholes");
  if (x.shape.size() != 3 || w->shape.size() != 3 || r->shape.size() != 3 || w->shape[0] != 1)
    return fail(Errc::corrupt, "of " + to_string(x.shape) + " with weights " + to_string(w->shape));
  const std::size_t hidden = r->shape[2], in = w->shape[2], batch = x.shape[layout == 0 ? 1 : 0],
                    tokens = x.shape[layout == 0 ? 0 : 1];
  if (batch != 1)
    return fail(Errc::unsupported, "a batch of " + std::to_string(batch) + "; a network takes one sample");
  if (hidden == 0 || x.shape[2] != in || w->shape[1] != gates * hidden ||
      r->shape != Shape{1, gates * hidden, hidden} || !is_real_type(w->type) || w->type != r->type)
    return fail(Errc::corrupt,
                "weights " + to_string(w->shape) + " and " + to_string(r->shape) + " of " + to_string(x.shape));
  if (n.has(4)) {
    WEFT_TRY(const Constant* const lengths, constant(n, 4));
    WEFT_TRY(const std::vector<std::int64_t> values, integers_of(*lengths));
    if (std::any_of(values.begin(), values.end(),
                    [&](std::int64_t v) { return v != static_cast<std::int64_t>(tokens); }))
      return fail(Errc::unsupported, "sequence_lens");
  }
  FoundLayer layer;
  layer.spec.type = type;
  layer.spec.out = hidden;
  layer.node = n.label;
  layer.in = tokens == 1 ? Shape{in} : Shape{tokens, in};
  layer.out = tokens == 1 ? Shape{hidden} : Shape{tokens, hidden};
  const std::vector<std::size_t> blocks = blocks_of(type);
  layer.weights["weight_ih"] = {in_order(*w, blocks, 0, hidden, in, {gates * hidden, in})};
  layer.weights["weight_hh"] = {in_order(*r, blocks, 0, hidden, hidden, {gates * hidden, hidden})};
  if (type == "rnn" && activation != "tanh") layer.spec.options["activation"] = activation;
  if (n.has(3)) {
    WEFT_TRY(const Constant* const bias, constant(n, 3));
    if (bias->count() != 2 * gates * hidden || !is_real_type(bias->type))
      return fail(Errc::corrupt, "a bias " + to_string(bias->shape));
    layer.weights["bias_ih"] = {in_order(*bias, blocks, 0, hidden, 1, {gates * hidden})};
    layer.weights["bias_hh"] = {in_order(*bias, blocks, gates, hidden, 1, {gates * hidden})};
  } else {
    layer.spec.options["bias"] = false;
  }
  // The state begins at zeros, or at an input of the graph.
  std::vector<StateLink> links;
  const std::size_t states = type == "lstm" ? 2 : 1;
  for (std::size_t s = 0; s < states; ++s) {
    if (!n.has(5 + s)) continue;
    if (const auto* zeros = std::get_if<Constant>(&n.inputs[5 + s])) {
      WEFT_TRY(const std::vector<double> values, reals_of(*zeros));
      if (std::any_of(values.begin(), values.end(), [](double v) { return v != 0; }))
        return fail(Errc::unsupported, "a first state that is not 0");
      continue;
    }
    const auto* const first = std::get_if<Stream>(&n.inputs[5 + s]);
    if (!first || first->chunks.size() != 1 || first->chunks[0].base >= 0 || first->chunks[0].base == Chunk::kZeros ||
        first->chunks[0].count != hidden)
      return fail(Errc::unsupported, "a first state that another layer makes");
    links.push_back({first->chunks[0].base, first->chunks[0].offset, hidden, {}});
  }
  if (!links.empty() && links.size() != states)
    return fail(Errc::unsupported, "a first state of which one part is given");
  layer.spec.options["stateful"] = !links.empty();
  const bool is_last_only = tokens != 1 && !n.makes(0);
  if (is_last_only) {
    layer.spec.options["output"] = std::string("last");
    layer.out = {hidden};
  }
  WEFT_TRY(const Stream made, layers_.add(std::move(layer), {std::move(x)}, {}));
  const std::int32_t base = made.chunks[0].base;
  const Chunk last{base, is_last_only ? 0 : (tokens - 1) * hidden, hidden};
  const Shape all = layout == 0 ? Shape{tokens, 1, 1, hidden} : Shape{1, tokens, 1, hidden}, one_state{1, 1, hidden};
  const std::int32_t cell = layers_.add_port("", {hidden});
  hidden_.push_back(cell);
  for (std::size_t s = 0; s < links.size(); ++s) links[s].after = s == 0 ? last : Chunk{cell, 0, hidden};
  states_.insert(states_.end(), links.begin(), links.end());
  Values values{Value(), Stream{one_state, {last}}};
  if (n.makes(0)) values[0] = Stream{all, made.chunks};
  if (states == 2) values.emplace_back(Stream{one_state, {{cell, 0, hidden}}});
  return values;
}

}  // namespace weft::models::onnx
