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

Status check_function(const OnnxNode& node, std::string_view type, std::string& activation) {
  WEFT_TRY(const std::int64_t forgets, integer_of(node, "input_forget", 0));
  WEFT_TRY(const std::int64_t resets_late, integer_of(node, "linear_before_reset", 0));
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
  // Of both directions each has its own.
  if (const std::size_t half = names.size() / 2;
      names.size() == (type == "lstm"  ? 6u
                       : type == "gru" ? 4u
                                       : 2u) &&
      std::equal(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(half),
                 names.begin() + static_cast<std::ptrdiff_t>(half)))
    names.resize(half);
  if (type == "rnn" && names.size() == 1 && (names[0] == "tanh" || names[0] == "relu")) {
    activation = names[0];
    return {};
  }
  if (names == (type == "lstm" ? std::vector<std::string>{"sigmoid", "tanh", "tanh"}
                               : std::vector<std::string>{"sigmoid", "tanh"}))
    return {};
  return fail(Errc::unsupported, "activations other than the usual ones");
}

/// Tokens of [tokens, width] values from the last to the first.
Moved reversed(const Shape& shape, std::size_t tokens, std::size_t width) {
  Moved move{shape};
  move.places.reserve(tokens * width);
  for (std::size_t t = tokens; t-- > 0;)
    for (std::size_t k = 0; k < width; ++k) move.places.push_back(static_cast<std::int64_t>(t * width + k));
  return move;
}

}  // namespace

/// Weights and sizes that the directions of a recurrent layer share.
struct Operators::RecurrentRun {
  std::string_view type;
  std::size_t gates = 1, hidden = 0, in = 0, tokens = 1;
  const Constant *w = nullptr, *r = nullptr, *bias = nullptr;  // bias null: none
  std::string activation;
  bool is_stateful = false, is_last_only = false;
};

Result<std::int32_t> Operators::run_direction(const Node& n, const RecurrentRun& run, Stream x, std::size_t direction) {
  const std::size_t rows = run.gates * run.hidden;
  FoundLayer layer;
  layer.spec.type = run.type;
  layer.spec.out = run.hidden;
  layer.node = n.label;
  layer.in = run.tokens == 1 ? Shape{run.in} : Shape{run.tokens, run.in};
  layer.out = run.tokens == 1 || run.is_last_only ? Shape{run.hidden} : Shape{run.tokens, run.hidden};
  const std::vector<std::size_t> blocks = blocks_of(run.type);
  const std::size_t first = direction * run.gates;
  layer.weights["weight_ih"] = {in_order(*run.w, blocks, first, run.hidden, run.in, {rows, run.in})};
  layer.weights["weight_hh"] = {in_order(*run.r, blocks, first, run.hidden, run.hidden, {rows, run.hidden})};
  if (run.type == "rnn" && run.activation != "tanh") layer.spec.options["activation"] = run.activation;
  if (run.bias) {
    layer.weights["bias_ih"] = {in_order(*run.bias, blocks, 2 * first, run.hidden, 1, {rows})};
    layer.weights["bias_hh"] = {in_order(*run.bias, blocks, 2 * first + run.gates, run.hidden, 1, {rows})};
  } else {
    layer.spec.options["bias"] = false;
  }
  layer.spec.options["stateful"] = run.is_stateful;
  if (run.is_last_only) layer.spec.options["output"] = std::string("last");
  WEFT_TRY(const Stream made, layers_.add(std::move(layer), {std::move(x)}, {}));
  return made.chunks[0].base;
}

Result<std::vector<Value>> Operators::recurrent(const Node& n, std::string_view type, std::size_t gates) {
  RecurrentRun run{.type = type, .gates = gates, .activation = "tanh"};
  WEFT_CHECK(check_function(n.node, type, run.activation));
  WEFT_TRY(const std::string direction, text_of(n.node, "direction", "forward"));
  const bool is_both = direction == "bidirectional";
  if (!is_both && direction != "forward" && direction != "reverse")
    return fail(Errc::corrupt, "direction '" + direction + "'; expected forward, reverse or bidirectional");
  const std::size_t directions = is_both ? 2 : 1;
  WEFT_TRY(Stream x, stream(n, 0));
  WEFT_TRY(run.w, constant(n, 1));
  WEFT_TRY(run.r, constant(n, 2));
  const Constant &w = *run.w, &r = *run.r;
  WEFT_TRY(const std::int64_t layout, integer_of(n.node, "layout", 0));
  if (n.has(7)) return fail(Errc::unsupported, "peepholes");
  if (x.shape.size() != 3 || w.shape.size() != 3 || r.shape.size() != 3 || w.shape[0] != directions)
    return fail(Errc::corrupt, "of " + to_string(x.shape) + " with weights " + to_string(w.shape));
  const std::size_t hidden = r.shape[2], in = w.shape[2], batch = x.shape[layout == 0 ? 1 : 0],
                    tokens = x.shape[layout == 0 ? 0 : 1];
  run.hidden = hidden, run.in = in, run.tokens = tokens;
  WEFT_TRY(const std::int64_t told, integer_of(n.node, "hidden_size", static_cast<std::int64_t>(hidden)));
  if (told != static_cast<std::int64_t>(hidden))
    return fail(Errc::corrupt, "hidden_size is " + std::to_string(told) + ", of weights " + to_string(r.shape));
  if (batch != 1)
    return fail(Errc::unsupported, "a batch of " + std::to_string(batch) + "; a network takes one sample");
  if (hidden == 0 || x.shape[2] != in || w.shape[1] != gates * hidden ||
      r.shape != Shape{directions, gates * hidden, hidden} || !is_real_type(w.type) || w.type != r.type)
    return fail(Errc::corrupt,
                "weights " + to_string(w.shape) + " and " + to_string(r.shape) + " of " + to_string(x.shape));
  if (n.has(4)) {
    WEFT_TRY(const Constant* const lengths, constant(n, 4));
    WEFT_TRY(const std::vector<std::int64_t> values, integers_of(*lengths));
    if (std::any_of(values.begin(), values.end(),
                    [&](std::int64_t v) { return v != static_cast<std::int64_t>(tokens); }))
      return fail(Errc::unsupported, "sequence_lens");
  }
  if (n.has(3)) {
    WEFT_TRY(run.bias, constant(n, 3));
    if (run.bias->count() != 2 * directions * gates * hidden || !is_real_type(run.bias->type))
      return fail(Errc::corrupt, "a bias " + to_string(run.bias->shape));
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
    if (direction != "forward")
      return fail(Errc::unsupported, "direction '" + direction +
                                         "' with a first state that is not known: what runs from "
                                         "the end keeps none from run to run");
    const auto* const first = std::get_if<Stream>(&n.inputs[5 + s]);
    if (!first || first->chunks.size() != 1 || first->chunks[0].base >= 0 || first->chunks[0].base == Chunk::kZeros ||
        first->chunks[0].count != hidden)
      return fail(Errc::unsupported, "a first state that another layer makes");
    links.push_back({first->chunks[0].base, first->chunks[0].offset, hidden, {}});
  }
  if (!links.empty() && links.size() != states)
    return fail(Errc::unsupported, "a first state of which one part is given");
  run.is_stateful = !links.empty();
  run.is_last_only = tokens != 1 && !n.makes(0);
  std::vector<std::int32_t> bases, cells;
  for (std::size_t d = 0; d < directions; ++d) {
    const bool is_reverse = d == 1 || direction == "reverse";
    moved_ += is_reverse ? tokens * in : 0;
    if (moved_ > kMostMoved)
      return fail(Errc::too_large, "values in other orders, " + std::to_string(moved_) + " in all, at most " +
                                       std::to_string(kMostMoved));
    Stream from = is_reverse ? moved_stream(reversed(x.shape, tokens, in), {&x}) : x;
    WEFT_TRY(bases.emplace_back(), run_direction(n, run, std::move(from), d));
    cells.push_back(layers_.add_port("", {hidden}));
    hidden_.push_back(cells.back());
  }
  const Shape all = layout == 0 ? Shape{tokens, directions, 1, hidden} : Shape{1, tokens, directions, hidden},
              of_states = layout == 0 ? Shape{directions, 1, hidden} : Shape{1, directions, hidden};
  const std::size_t last = run.is_last_only ? 0 : (tokens - 1) * hidden;
  Stream outputs{all, {}}, ends{of_states, {}}, of_cells{of_states, {}};
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t d = 0; d < directions; ++d) {
      const bool is_reverse = d == 1 || direction == "reverse";
      outputs.chunks.push_back({bases[d], (is_reverse ? tokens - 1 - t : t) * hidden, hidden});
    }
  // One after the other they are all of the layer.
  if (direction == "forward") outputs.chunks = {{bases[0], 0, tokens * hidden}};
  for (std::size_t d = 0; d < directions; ++d) {
    ends.chunks.push_back({bases[d], last, hidden});
    of_cells.chunks.push_back({cells[d], 0, hidden});
  }
  for (std::size_t s = 0; s < links.size(); ++s) links[s].after = s == 0 ? ends.chunks[0] : of_cells.chunks[0];
  states_.insert(states_.end(), links.begin(), links.end());
  Values values{Value(), std::move(ends)};
  if (n.makes(0)) values[0] = std::move(outputs);
  if (states == 2) values.emplace_back(std::move(of_cells));
  return values;
}

}  // namespace weft::models::onnx
