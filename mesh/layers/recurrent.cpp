// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/recurrent.hpp"

#include "mesh/layers/init.hpp"
#include "mesh/layers/tokens.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace weft::mesh {

using kernels::Activation;
using kernels::ConstMatrixView;
using kernels::MatrixView;

namespace {

Result<std::vector<ParameterSpec>> make_parameters(std::size_t in, std::size_t hidden, std::size_t gates, bool has_bias,
                                                   const std::string& init, std::string_view object) {
  const std::size_t rows = gates * hidden;
  // "uniform" is PyTorch's: all four within +-1/sqrt(hidden). Of the others each matrix has its own fan-in, biases 0.
  const bool is_pytorch = init == "uniform";
  WEFT_TRY(auto init_ih, make_initializer(init, is_pytorch ? hidden : in, hidden, object));
  WEFT_TRY(auto init_hh, make_initializer(init, hidden, hidden, object));
  const Initializer bias = is_pytorch ? init_hh : constant(0.0f);
  std::vector<ParameterSpec> parameters;
  parameters.push_back({"weight_ih", rows, in, true, std::move(init_ih), LinearMap{0}});
  parameters.push_back({"weight_hh", rows, hidden, true, std::move(init_hh), LinearMap{1}});
  if (has_bias) {
    parameters.push_back({"bias_ih", rows, 0, false, bias});
    parameters.push_back({"bias_hh", rows, 0, false, bias});
  }
  return parameters;
}

/// Sessions [first, first + count).
BackwardArgs rows_of(const BackwardArgs& args, std::size_t first, std::size_t count) {
  const auto rows = [&](auto all) {
    return decltype(all){all.data ? all.row(first) : nullptr, count, all.cols, all.stride};
  };
  BackwardArgs part = args;
  part.x = rows(args.x), part.z = rows(args.z), part.y = rows(args.y), part.cache = rows(args.cache);
  part.state = rows(args.state), part.dy = rows(args.dy), part.dx = rows(args.dx);
  part.dnext_state = rows(args.dnext_state), part.dstate = rows(args.dstate), part.scratch = rows(args.scratch);
  return part;
}

Shape output_shape(const Shape& in, std::size_t hidden, bool is_last_only) {
  return is_last_only ? Shape{hidden} : with_features(in, hidden);
}

}  // namespace

Result<Recurrent::Sizes> Recurrent::read_sizes(std::string_view type, const Shape& in, std::size_t out,
                                               std::size_t gates, std::size_t states, OptionReader& options) {
  if (in.size() > 2)
    return fail(Errc::shape_mismatch, options.object() + ": " + std::string(type) +
                                          " takes [features] or [tokens, features], not " + weft::to_string(in) +
                                          "; state 'view'");
  Sizes sizes{in, out ? out : in.back(), gates, states, in.size() == 1, false, ThroughTime::backward, {}};
  WEFT_TRY(const bool has_bias, options.boolean("bias"));
  WEFT_TRY(const std::string init, options.text("init"));
  WEFT_TRY(sizes.is_stateful, options.boolean("stateful", in.size() == 1));
  WEFT_TRY(const std::string output, options.text("output"));
  sizes.is_last_only = output == "last" && in.size() == 2;
  WEFT_TRY(sizes.parameters, make_parameters(in.back(), sizes.hidden, gates, has_bias, init, options.object()));
  return sizes;
}

Recurrent::Recurrent(Sizes sizes)
    : Layer(sizes.in, output_shape(sizes.in, sizes.hidden, sizes.is_last_only)),
      tokens_(sizes.in.size() == 2 ? sizes.in[0] : 1),
      hidden_(sizes.hidden),
      gates_(sizes.gates),
      states_(sizes.states),
      is_stateful_(sizes.is_stateful),
      is_last_only_(sizes.is_last_only),
      is_sequence_(tokens_ > 1 || !is_stateful_),
      traces_({sizes.in.back(), hidden_, gates_, sizes.parameters.size() > 2, states_ > 1, sizes.through_time}),
      parameters_(std::move(sizes.parameters)) {}

std::size_t Recurrent::cache_size() const noexcept {
  const std::size_t gates = 2 * tokens_ * gates_ * hidden_;
  if (!is_sequence_) return gates;
  return gates + (tokens_ + 1) * state_width() + (is_last_only_ ? tokens_ * hidden_ : 0);
}

// The gradients of a and, of a sequence, of b; what is carried to h; of a sequence the gradients of the state and of an
// output that is not published.
std::size_t Recurrent::scratch_size() const noexcept {
  if (!is_sequence_) return (gates_ + 1) * hidden_;
  return (2 * tokens_ * gates_ + 2) * hidden_ + state_width();
}

double Recurrent::multiply_adds() const noexcept {
  return static_cast<double>(tokens_ * gates_ * hidden_) * static_cast<double>(features() + hidden_) +
         traces_.multiply_adds();
}

void Recurrent::forward(kernels::OpStream& stream, const ForwardArgs& args) const {
  is_sequence_ ? forward_sequence(stream, args) : forward_tick(stream, args);
}
void Recurrent::backward(kernels::OpStream& stream, const BackwardArgs& args) const {
  if (traces_.is_on()) return backward_by_traces(stream, args);
  is_sequence_ ? backward_sequence(stream, args) : backward_tick(stream, args);
}

void Recurrent::forward_tick(kernels::OpStream& stream, const ForwardArgs& args) const {
  const MatrixView a = blocks(args.cache, 0, gates_), b = blocks(args.cache, gates_, gates_);
  const auto bias = [&](std::size_t i) { return has_bias() ? args.weights.vector(i) : nullptr; };
  stream.linear({args.weights.matrix(0), bias(2), args.x, Activation::linear, {}, a});
  stream.linear({args.weights.matrix(1), bias(3), blocks(args.state, 0), Activation::linear, {}, b});
  step(stream, args, a, b);
  if (traces_.is_on()) advance_traces(stream, args);
}

void Recurrent::backward_tick(kernels::OpStream& stream, const BackwardArgs& args) const {
  const ConstMatrixView a = blocks(args.cache, 0, gates_), b = blocks(args.cache, gates_, gates_);
  const MatrixView d = blocks(args.scratch, 0, gates_), carry = blocks(args.scratch, gates_);
  // y and the next state's h are the same value, so their gradients add.
  if (args.dnext_state.data) stream.binary({kernels::BinaryOp::add, args.dy, blocks(args.dnext_state, 0), args.dy});
  step_back(stream, args, a, b, d, carry);

  if (args.gradients.data) {
    stream.outer_accumulate({d, args.x, {args.gradients[0], d.cols, features()}});
    if (has_bias()) stream.column_accumulate({d, args.gradients[2]});
  }
  if (args.dx.data) stream.linear_transposed({args.weights.matrix(0), d, args.dx});

  if (!args.gradients.data && !args.dstate.data) return;
  to_recurrent(stream, a, d);
  if (args.gradients.data) {
    stream.outer_accumulate({d, blocks(args.state, 0), {args.gradients[1], d.cols, hidden()}});
    if (has_bias()) stream.column_accumulate({d, args.gradients[3]});
  }
  if (args.dstate.data) {
    const MatrixView dh = blocks(args.dstate, 0);
    stream.linear_transposed({args.weights.matrix(1), d, dh});
    if (has_carry()) stream.binary({kernels::BinaryOp::add, dh, carry, dh});
  }
}

template <class Args, class Visit>
void Recurrent::each_step(kernels::OpStream& stream, const Args& args, const Visit& visit) const {
  traces_.begin(stream, args.weights.matrix(1), args.workspace);
  for (std::size_t i = 0; i < args.x.rows; ++i) {
    const auto row = [&](const ConstMatrixView& rows) { return ConstMatrixView{rows.row(i), 1, rows.cols, rows.cols}; };
    const ConstMatrixView state = row(args.state), cache = row(args.cache);
    find_factors(stream, state, blocks(cache, 0, gates_), blocks(cache, gates_, gates_),
                 traces_.factors(args.workspace));
    visit(i, args.x.row(i), state.data, state.data + state_width());
  }
}

void Recurrent::advance_traces(kernels::OpStream& stream, const ForwardArgs& args) const {
  each_step(stream, args, [&](std::size_t i, const float* x, const float* h, const float* before) {
    traces_.advance(stream, x, h, before, args.next_state.row(i) + state_width(), args.workspace);
  });
}

// The derivatives of this tick are found once more, from the state that the error belongs to. What a container would
// send back through the state of others is not for this one.
void Recurrent::backward_by_traces(kernels::OpStream& stream, const BackwardArgs& args) const {
  if (args.gradients.data)
    each_step(stream, args, [&](std::size_t i, const float* x, const float* h, const float* before) {
      traces_.add_gradients(stream, x, h, before, {args.dy.row(i), 1, hidden_, hidden_}, args.gradients,
                            args.workspace);
    });
  BackwardArgs own = args;
  own.gradients = {}, own.dnext_state = {}, own.dstate = {};
  if (args.dx.data) backward_tick(stream, own);
  if (args.dstate.data) stream.fill({0.0f, args.dstate});
}

void Recurrent::forward_sequence(kernels::OpStream& stream, const ForwardArgs& args) const {
  const auto bias = [&](std::size_t i) { return has_bias() ? args.weights.vector(i) : nullptr; };
  const MatrixView all_a = columns_at(args.cache, 0, tokens_ * gates_ * hidden_);
  const Tokens tokens(tokens_);
  tokens.each(
      [&](const auto& part) {
        stream.linear({args.weights.matrix(0), bias(2), part(args.x), Activation::linear, {}, part(all_a)});
      },
      args.x, all_a);
  const MatrixView first = state_before(args.cache, 0);
  is_stateful_ ? stream.copy({args.state, first}) : stream.fill({0.0f, first});
  for (std::size_t t = 0; t < tokens_; ++t) {
    ForwardArgs own = args;
    own.state = state_before(args.cache, t);
    own.next_state = state_before(args.cache, t + 1);
    own.y = output_of(args.cache, args.y, t);
    const MatrixView a = gates_of(args.cache, t), b = gates_of(args.cache, tokens_ + t);
    stream.linear({args.weights.matrix(1), bias(3), blocks(own.state, 0), Activation::linear, {}, b});
    step(stream, own, a, b);
  }
  if (is_last_only_) stream.copy({output_of(args.cache, args.y, tokens_ - 1), args.y});
  if (is_stateful_) stream.copy({state_before(args.cache, tokens_), args.next_state});
}

void Recurrent::backward_sequence(kernels::OpStream& stream, const BackwardArgs& args) const {
  // Step by step back, session beside session; what adds over sessions comes after.
  const std::size_t sessions = args.dy.rows;
  stream.split(sessions, multiply_adds() * static_cast<double>(sessions),
               [&](kernels::OpStream& own, std::size_t first, std::size_t count) {
                 backward_steps(own, rows_of(args, first, count));
               });
  sequence_gradients(stream, args);
}

void Recurrent::backward_steps(kernels::OpStream& stream, const BackwardArgs& args) const {
  const std::size_t gates = 2 * tokens_ * gates_ * hidden_;
  const MatrixView carry = columns_at(args.scratch, gates, hidden_),
                   silent = columns_at(args.scratch, gates + hidden_, hidden_),
                   d_state = columns_at(args.scratch, gates + 2 * hidden_, state_width());
  for (std::size_t t = tokens_; t-- > 0;) {
    const bool is_last = t + 1 == tokens_;
    BackwardArgs own = args;
    own.state = state_before(args.cache, t);
    own.y = output_of(args.cache, args.y, t);
    own.dy = is_last_only_ ? (is_last ? args.dy : silent) : columns_at(args.dy, t * hidden_, hidden_);
    if (is_last_only_ && !is_last) stream.fill({0.0f, silent});
    own.dnext_state = is_last ? args.dnext_state : ConstMatrixView(d_state);
    own.dstate = d_state;
    const MatrixView da = gates_of(args.scratch, t), db = gates_of(args.scratch, tokens_ + t);
    const ConstMatrixView a = gates_of(args.cache, t), b = gates_of(args.cache, tokens_ + t);
    if (own.dnext_state.data) stream.binary({kernels::BinaryOp::add, own.dy, blocks(own.dnext_state, 0), own.dy});
    step_back(stream, own, a, b, da, carry);
    stream.copy({da, db});
    to_recurrent(stream, a, db);
    if (t == 0 && !args.dstate.data) break;
    const MatrixView dh = blocks(d_state, 0);
    stream.linear_transposed({args.weights.matrix(1), db, dh});
    if (has_carry()) stream.binary({kernels::BinaryOp::add, dh, carry, dh});
  }
  if (args.dstate.data) stream.copy({d_state, args.dstate});
}

void Recurrent::sequence_gradients(kernels::OpStream& stream, const BackwardArgs& args) const {
  const std::size_t width = gates_ * hidden_, sessions = args.dy.rows;
  const MatrixView all_da = columns_at(args.scratch, 0, tokens_ * width),
                   all_db = columns_at(args.scratch, tokens_ * width, tokens_ * width);
  const Tokens tokens(tokens_);
  if (args.dx.data)
    tokens.each(
        [&](const auto& part) {
          stream.linear_transposed({args.weights.matrix(0), part(all_da), part(args.dx)});
        },
        all_da, args.dx);
  if (!args.gradients.data) return;
  // Gates in whole panels; each part goes over all sessions.
  stream.split(
      kernels::panel_count(width), multiply_adds() * static_cast<double>(sessions),
      [&](kernels::OpStream& own, std::size_t first, std::size_t count) {
        const std::size_t at = first * kernels::kPanelWidth, end = std::min(width, at + count * kernels::kPanelWidth);
        const auto add = [&](const ConstMatrixView& d, const ConstMatrixView& from, std::size_t matrix) {
          const ConstMatrixView errors{d.data + at, d.rows, end - at, d.stride};
          own.outer_accumulate({errors, from, {args.gradients[matrix] + at * from.cols, end - at, from.cols}});
          if (has_bias()) own.column_accumulate({errors, args.gradients[matrix + 2] + at});
        };
        tokens.each([&](const auto& part) { add(part(ConstMatrixView(all_da)), part(args.x), 0); }, args.x, all_da);
        for (std::size_t b = 0; b < sessions; ++b)
          add({all_db.row(b), tokens_, width, width},
              {state_before(args.cache, 0).row(b), tokens_, hidden_, state_width()}, 1);
      });
}

std::vector<OptionRow> recurrent_options(std::string_view out_meaning, std::vector<OptionRow> own) {
  std::vector<OptionRow> rows{option::out(option::computed("the input's width"), "values", out_meaning)};
  std::move(own.begin(), own.end(), std::back_inserter(rows));
  rows.push_back(option::flag("bias", true, "whether b_ih and b_hh exist"));
  rows.push_back(option::init("uniform", "uniform: all parameters, as PyTorch; others: matrices, with biases 0"));
  rows.push_back(option::flag("stateful", option::computed("of a vector true, of a sequence false"),
                              "whether the state persists across ticks"));
  rows.push_back(option::choice("output", "sequence", {"sequence", "last"},
                                "of a sequence: every token's h, or only the last one's"));
  return rows;
}

OptionRow through_time_option() {
  return option::choice("through_time", "backward", {"backward", "snap1", "eprop"},
                        "errors travel back through the state, or derivatives of each unit by its own parameters go "
                        "along with it: with its own recurrent weights, or without");
}

Result<ThroughTime> read_through_time(const Recurrent::Sizes& sizes, OptionReader& options) {
  WEFT_TRY(const std::string text, options.text("through_time"));
  if (text == "backward") return ThroughTime::backward;
  if (sizes.in.size() != 1 || !sizes.is_stateful)
    return fail(Errc::unsupported, options.object() + ".through_time: found " + text +
                                       ", which takes one vector a tick and a state that persists; of an input " +
                                       weft::to_string(sizes.in) + (sizes.is_stateful ? "" : " without such a state") +
                                       " expected backward");
  return text == "snap1" ? ThroughTime::snap1 : ThroughTime::eprop;
}

}  // namespace weft::mesh
