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
  double scale = 1;  // of all that it gives
};

/// A product of two projections of the same values, one of them bent: what swiglu multiplies with its last matrix.
struct GatedParts {
  Projection gate, up;
  std::string activation;
};

/// Attention on its way: queries and keys of the same values.
struct AttentionParts {
  Projection query, key;
  std::size_t heads = 1, kv_heads = 1, head_dim = 1, tokens = 1;
  double scale = 1;
  bool is_causal = false;
  std::size_t window = 0;  // 0: without bound
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
    normed,  // x inverse_root
    gated,
    scores,
    shares  // softmax of scores
  } kind = Kind::square;
  Stream x, other{};
  double factor = 1;
  double inner = 0, epsilon = 0;
  std::shared_ptr<const GatedParts> gated = nullptr;
  std::shared_ptr<const AttentionParts> attention = nullptr;
};

/// One number, all values of a constant being equal to it; nothing: they are not.
std::optional<double> scalar_of(const Constant& constant);
bool is_same(const Stream& a, const Stream& b);
/// The last axis alone, or behind all others as one.
Shape tokens_of(const Shape& shape);

/// Value of a name. Nothing: its maker was refused.
using Value = std::variant<std::monostate, Constant, Stream, Pattern>;

/// Place of an input that a recurrent layer begins with, and what it leaves for the next run.
struct StateLink {
  std::int32_t port = 0;  // base that its first values come from
  std::size_t offset = 0, count = 0;
  Chunk after;  // what stands there when it has run
};

/// Operators as layers. Each takes what a node reads and gives what it makes.
class Operators {
 public:
  Operators(LayerList& layers, std::int64_t opset) : layers_(layers), opset_(opset) {}
  /// @error unsupported: no layer does it; corrupt
  Result<std::vector<Value>> make(const formats::OnnxNode& node, const std::string& label,
                                  const std::vector<Value>& inputs);
  const std::vector<StateLink>& states() const noexcept { return states_; }
  /// True for a base that no layer makes: the cell state that a layer keeps.
  bool is_hidden(std::int32_t base) const noexcept;

 private:
  using Values = std::vector<Value>;
  /// A node and what it reads.
  struct Node {
    const formats::OnnxNode& node;
    const std::string& label;
    const std::vector<Value>& inputs;

    bool has(std::size_t input) const {
      return input < node.inputs.size() && !node.inputs[input].empty() && input < inputs.size();
    }
    bool makes(std::size_t output) const { return output < node.outputs.size() && !node.outputs[output].empty(); }
  };

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
  std::optional<Values> product_part(const Value& a, const Value& b);
  std::optional<Values> sum_part(const Value& a, const Value& b) const;
  std::optional<Pattern> scaled_part(const Pattern& part, double by) const;
  std::optional<Pattern> gated_part(const Stream& bent, const Stream& up) const;
  Result<std::optional<Values>> finished_part(const Node& node, const Values& values);
  Result<Values> swiglu(const Node& node, const GatedParts& parts, const Constant& down);
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
  };
  std::optional<Heads> heads_of(const Stream& stream, bool is_turned) const;
  struct RecurrentRun;
  Result<std::int32_t> run_direction(const Node& node, const RecurrentRun& run, Stream x, std::size_t direction);

  /// The values of an input when the network runs.
  Result<Stream> stream(const Node& node, std::size_t input);
  Result<Stream> stream_of(const Node& node, const Value& value);
  Result<const Constant*> constant(const Node& node, std::size_t input) const;
  Result<Values> dense(const Node& node, Stream x, Weight weight, std::size_t in, std::size_t out);
  Result<Values> one(Result<Stream> made) const;
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
  std::size_t moved_ = 0;  // values so far
  std::vector<StateLink> states_;
  std::vector<std::int32_t> hidden_;
};

}  // namespace weft::models::onnx
