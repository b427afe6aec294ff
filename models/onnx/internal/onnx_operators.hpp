// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/onnx/internal/onnx_layers.hpp"

#include "formats/onnx/onnx_model.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace weft::models::onnx {

/// A dense layer's matrix and bias, and what it reads.
struct Projection {
  std::int32_t from = 0;  // layer or port
  std::size_t in = 0, out = 0;
  Weight weight;
  std::optional<Constant> bias;
  double scale = 1;                             // of all that it gives
  std::optional<Constant> gain = std::nullopt;  // of a norm by root mean square behind it, over as many values
  double epsilon = 0;
};

/// A product of two projections of the same values, one of them bent: what swiglu multiplies with its last matrix.
struct GatedParts {
  Projection gate, up;
  std::string activation;
};

/// Turns of heads by their positions, as options of attention say them.
struct Turns {
  bool is_half = true;  // pairs of i and i + dims / 2; else 2i and 2i + 1
  std::size_t dims = 0;
  double theta = 10000, gain = 1;
  std::vector<double> divisors{};        // empty: all 1
  std::optional<std::size_t> first = 0;  // position of the first token; none: those behind the keys of earlier runs
  bool operator==(const Turns&) const = default;
};
/// Cosines and sines of positions 0 on, [positions][pairs].
struct TurnTables {
  std::size_t positions = 0, pairs = 0;
  std::vector<double> cosines, sines;
  bool operator==(const TurnTables&) const = default;
};
/// The turns that make these tables; nothing: they are of none.
std::optional<Turns> turns_of(const TurnTables& tables, bool is_half);

/// Tables of cosines and sines of a graph, and the rows that heads turn by.
struct HeadTables {
  const Constant *cosines = nullptr, *sines = nullptr;
  std::vector<std::int64_t> positions;  // of each token, in a row; empty: as an input says when the network runs
  bool is_half = true;
};

/// A layer's values of which some turn.
struct Rotary {
  Turns turns;
  std::vector<std::int32_t> elements;    // of its head; -1: does not turn
  std::vector<std::uint32_t> positions;  // of those that turn
};

/// Attention on its way: queries and keys of the same values.
struct AttentionParts {
  Projection query, key;
  std::size_t heads = 1, kv_heads = 1, head_dim = 1, tokens = 1;
  double scale = 1, last = 1;  // of scores; `last`: the factor behind that one
  double cap = 0;              // of scores; 0: none
  bool is_bent = false;        // tanh was taken, and its factor is to come
  std::optional<Turns> turns = std::nullopt;
  bool is_causal = false;
  std::size_t window = 0;           // 0: without bound
  std::optional<std::size_t> past;  // tokens of earlier runs whose keys and values are seen too

  std::size_t keys() const noexcept { return past.value_or(0) + tokens; }
};

/// Scores behind a mask [.., tokens, keys]: a condition, true where a key is seen, or summands.
/// @error unsupported: a mask that is neither causal nor a window
Result<AttentionParts> seen_through(AttentionParts parts, const Constant& mask, bool is_condition);

/// A product of inputs as int8, which becomes a layer when a node reads it that adds nothing to it.
struct CodedProduct {
  Stream x;
  Constant weight;  // [in, out]; [out, in] where it has rows
  bool has_rows = false;
  Activations inputs = Activations::int8;
  bool is_open = false;  // the inputs' scales are to come
  std::string label;
  std::optional<Stream> made{};
};

/// A part of a function that several nodes compute together.
struct Pattern {
  enum class Kind {
    square,          // factor x x
    sum_of_squares,  // x x + other other
    scaled,          // factor x
    erf,
    one_plus_erf,
    x_one_plus_erf,
    cube,             // factor x x x
    x_plus_cube,      // factor (x + inner x x x)
    one_plus_square,  // 1 + factor x x
    tanh,             // of what gelu's tanh form takes of x
    one_plus_tanh,
    x_one_plus_tanh,  // factor x (1 + tanh)
    mean_square,      // of x over its last axis, and epsilon
    root,
    inverse_root,
    normed,   // x inverse_root
    weighed,  // x table, value by value
    bent,     // tanh(factor x)
    scores,
    shares,         // softmax of scores
    magnitude,      // |x|
    largest,        // the largest of |x| over the last axis, epsilon at least
    coding,         // 127 / that
    step,           // that / 127
    stretched,      // x coding
    codes,          // whole numbers nearest to that
    coded,          // codes step, of `other`; x is the same in another shape
    coded_product,  // of codes, or of coded ones, with a matrix
  } kind = Kind::square;
  Stream x, other{};
  double factor = 1;
  double inner = 0, epsilon = 0;
  std::shared_ptr<const AttentionParts> attention = nullptr;
  std::shared_ptr<const std::vector<double>> table = nullptr;
  std::shared_ptr<CodedProduct> product = nullptr;
};

/// One number, all values of a constant being equal to it; nothing: they are not.
std::optional<double> scalar_of(const Constant& constant);
bool is_same(const Stream& a, const Stream& b);
/// The last axis alone, or behind all others as one.
Shape tokens_of(const Shape& shape);
/// Places of a value's elements among those of one that it spreads to. Empty: it does not.
std::vector<std::size_t> places_within(const Shape& from, const Shape& to);

/// Value of a name. Nothing: its maker was refused.
using Value = std::variant<std::monostate, Constant, Stream, Pattern>;
/// The part of that kind that a value is, or null.
const Pattern* part_of(const Value& value, Pattern::Kind kind);
/// Its shape when the network runs.
Shape shape_of_part(const Pattern& part);
/// The number that a value is known to be.
std::optional<double> number_of(const Value& value);

/// The input of the graph that a value is as a whole; nothing: of none.
std::optional<std::int32_t> whole_port(const LayerList& layers, const Value& value);

/// Place of an input that a recurrent layer begins with, and what it leaves for the next run.
struct StateLink {
  std::int32_t port = 0;  // base that its first values come from
  std::size_t offset = 0, count = 0;
  Chunk after;  // what stands there when it has run
};

/// A node and what it reads.
struct OperatorNode {
  const formats::OnnxNode& node;
  const std::string& label;
  const std::vector<Value>& inputs;

  bool has(std::size_t input) const {
    return input < node.inputs.size() && !node.inputs[input].empty() && input < inputs.size();
  }
  bool makes(std::size_t output) const { return output < node.outputs.size() && !node.outputs[output].empty(); }
};

/// Products of values with tables of as many numbers, and heads that turn by them.
class TableParts {
 public:
  using Values = std::vector<Value>;
  TableParts(LayerList& layers, std::int64_t opset) : layers_(layers), opset_(opset) {}

  /// Values of a node that is a part of such; nothing: of none.
  Result<std::optional<Values>> known_part(const OperatorNode& node);
  /// As turns_of, which layers with the same tables share.
  std::optional<Turns> find_turns(const TurnTables& tables, bool is_half);
  /// Heads whose positions run along an axis. The first elements of the last axis turn.
  Stream turned(const Stream& x, std::size_t axis, Turns turns, const std::string& label);
  /// The same by rows of a graph's tables. @error corrupt, unsupported: tables that are of no turns, or do not fit
  Result<Stream> turned_by(const OperatorNode& node, const Stream& x, std::size_t axis, const HeadTables& tables);

 private:
  Result<std::optional<Values>> weighed(const Stream& x, double factor, const std::vector<double>* table,
                                        const Constant& by);
  Result<std::optional<Values>> moved_part(const OperatorNode& node);
  /// x cosines + partner sines, of heads.
  std::optional<Values> turned_part(const Pattern& a, const Pattern& b, const std::string& label);

  LayerList& layers_;
  std::int64_t opset_;
  std::size_t moved_ = 0;  // values so far
  TurnTables last_;        // whose turns were found last
  std::optional<Turns> last_turns_;
};

class Operators;
/// True for an operator that some layer does, or that values which are known may go through.
bool is_known_operator(std::string_view type) noexcept;
/// Looks for attributes that no reader of the operator knows, whatever its inputs are. One that is documented and not
/// read may have the value that computes the same. @error unsupported: all of them, with their values
Status check_attributes(const formats::OnnxNode& node);
/// Value of a node of one output, or why there is none.
Result<std::vector<Value>> one_value(Result<Stream> made);
/// True for a node that reduces the last axis alone and keeps it.
Result<bool> reduces_last_axis(const OperatorNode& node, std::size_t rank);
/// Values of a node that is a part of a product of inputs as int8; nothing: of none.
Result<std::optional<std::vector<Value>>> coded_part(Operators& operators, const OperatorNode& node);
/// The layer of such a product, the same for all that read it.
/// @pre coded_product; @error unsupported: it is none of Weft's
Result<Stream> finished_product(Operators& operators, const Pattern& part);
/// Attention as one operator. @error unsupported, corrupt
Result<std::vector<Value>> fused_attention(Operators& operators, const OperatorNode& node);

/// Operators as layers. Each takes what a node reads and gives what it makes.
class Operators {
 public:
  struct Row;
  Operators(LayerList& layers, std::int64_t opset) : layers_(layers), opset_(opset), tables_(layers, opset) {}
  /// @error unsupported: no layer does it; corrupt
  Result<std::vector<Value>> make(const formats::OnnxNode& node, const std::string& label,
                                  const std::vector<Value>& inputs);
  const std::vector<StateLink>& states() const noexcept { return states_; }
  /// True for a base that no layer makes: a state that a layer keeps and does not give.
  bool is_hidden(std::int32_t base) const noexcept;

 private:
  friend class FusedAttention;
  using Values = std::vector<Value>;
  using Node = OperatorNode;
  Result<Values> dispatch(const Node& node);
  Result<Values> move(const Node& node);
  Result<Values> matmul(const Node& node);
  Result<Values> gemm(const Node& node);
  Result<Values> conv(const Node& node, bool is_transposed);
  Result<Values> pool(const Node& node, bool is_max);
  Result<Values> global_pool(const Node& node, bool is_max);
  Result<Values> reduce(const Node& node, bool is_max);
  Result<Values> layer_norm(const Node& node, bool has_mean);
  Result<Values> batch_norm(const Node& node);
  Result<Values> group_norm(const Node& node);
  Result<Values> softmax(const Node& node);
  Result<Values> recurrent(const Node& node, std::string_view type, std::size_t gates);
  Result<Values> embedding(const Node& node);
  Result<Values> activation(const Node& node, const char* name);
  Result<Values> arithmetic(const Node& node);
  Result<Values> with_constant(const Node& node, const Value& value, const Constant& constant, bool is_second);
  Result<Values> product(const Node& node, const Value& a, const Value& b);
  Result<Values> combined(const Node& node, const char* type, mesh::Combine combine);
  Result<Values> sum_of_squares_root(const Node& node);

  /// Values of a node that is a part of a larger function; nothing: of none that is known.
  Result<std::optional<Values>> known_part(const Node& node);
  std::optional<Values> product_part(const Value& a, const Value& b, const std::string& label);
  std::optional<Stream> gated_part(const Stream& bent, const Stream& up, const std::string& label);
  Result<std::optional<Values>> finished_part(const Node& node, const Values& values);
  /// `norm`: the layer between the gated product and the last matrix, or null.
  Result<Values> swiglu(const Node& node, const GatedParts& parts, const FoundLayer* norm);
  Result<Values> rotary_embedding(const Node& node);
  Result<Values> added_positions(const Node& node, Stream x, const Constant& table);
  /// The dense layer, with its bias and a factor, that makes all of a layer's values.
  std::optional<Projection> projection_of(std::int32_t base) const;
  Result<std::optional<Values>> attention_part(const Node& node);
  std::optional<Pattern> scores_of(const Value& query, const Value& key) const;
  Result<Values> attention(const Node& node, const AttentionParts& parts, const Projection& value,
                           std::size_t value_heads, Shape shape);
  /// Heads of a projection: [.., heads, tokens, head_dim], or of keys [.., heads, head_dim, tokens].
  struct Heads {
    Projection rows;  // the projection's rows of these heads alone
    std::size_t heads = 0, kv_heads = 0, head_dim = 0, tokens = 0;
    std::optional<Turns> turns;
  };
  /// `batch`: axes of heads that the stream's spread to.
  std::optional<Heads> heads_of(const Stream& stream, bool is_transposed, const Shape& batch) const;
  struct RecurrentRun;
  Result<std::int32_t> run_direction(const Node& node, const RecurrentRun& run, Stream x, std::size_t direction);

  /// The values of an input when the network runs.
  Result<Stream> stream(const Node& node, std::size_t input);
  Result<Stream> stream_of(const Node& node, const Value& value);
  Result<const Constant*> constant(const Node& node, std::size_t input) const;
  Result<Values> dense(const Node& node, Stream x, Weight weight, std::size_t in, std::size_t out);
  /// A layer that acts on the last axis, or on each value.
  Result<Values> add(const Node& node, const char* type, mesh::Options options, Stream x, Shape in, Shape out,
                     Shape after, std::map<std::string, Weight> weights = {}, std::size_t width = 0);
  Result<std::vector<std::size_t>> spatial(const Node& node, const char* key, std::size_t axes,
                                           std::size_t otherwise) const;
  /// The layer that makes just these values, where it is of `type`.
  const FoundLayer* maker(const Stream& stream, std::string_view type) const;
  Result<Stream> padded(const Node& node, const Stream& x, const std::vector<std::int64_t>& pads) const;

  LayerList& layers_;
  std::int64_t opset_;
  TableParts tables_;
  std::size_t moved_ = 0;  // values so far
  std::vector<StateLink> states_;
  std::vector<std::int32_t> hidden_;
};

}  // namespace weft::models::onnx
