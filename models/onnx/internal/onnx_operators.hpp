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

/// A part of a function that several nodes compute together: squares, gelu and scales.
struct Pattern {
  enum class Kind { square, sum_of_squares, scaled, erf, one_plus_erf, x_one_plus_erf } kind = Kind::square;
  Stream x, other{};
  double factor = 1;
};

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
