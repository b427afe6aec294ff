// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/onnx/internal/graph_writer.hpp"

#include "mesh/mesh.hpp"
#include "mesh/network/layer.hpp"
#include "mesh/network/option_reader.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::models::onnx {

/// A layer that is written, and where its parameters are: those of a node, whose names begin with `prefix`.
struct LayerSite {
  const mesh::LayerSpec& spec;
  const mesh::Layer& layer;
  mesh::NodeId node = 0;
  std::string prefix;
  std::string name;  // of the layer in the graph, for its state

  LayerSite(const mesh::LayerSpec& own_spec, const mesh::Layer& own_layer, mesh::NodeId of, std::string begin,
            std::string label)
      : spec(own_spec), layer(own_layer), node(of), prefix(std::move(begin)), name(std::move(label)) {}
};

/// Layers as nodes of an ONNX graph, opset 18; 21 where matrices are codes.
class LayerForms {
 public:
  /// `keeps_codes`: matrices of int8, uint8, int4 and uint4 are DequantizeLinear of their codes.
  LayerForms(std::shared_ptr<const mesh::Mesh> mesh, GraphWriter& to, bool keeps_codes);
  bool has_codes() const noexcept { return !stored_.empty(); }
  /// The output of a layer for what it reads.
  /// @error unsupported: it has no form
  Result<Written> write(const LayerSite& site, const Written& x);
  /// The input of a layer that reads several values.
  Written joined(mesh::Combine combine, const std::vector<Written>& sources);
  /// Notes on the graph.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  mesh::OptionReader options(const LayerSite& site) const;
  const mesh::ParameterSpec* find(const LayerSite& site, std::string_view parameter) const;
  /// True for a matrix whose rows an embedding reads too, in the same form.
  bool is_table(const LayerSite& site, std::string_view parameter) const;
  /// A parameter as it is, or with its axes the other way round.
  std::string matrix(const LayerSite& site, std::string_view parameter, Shape shape, bool is_transposed = false);
  /// Codes, scales and zero points, and the node that makes numbers of them; empty: they are of no such type.
  std::string stored_matrix(const LayerSite& site, std::string_view parameter, const Shape& shape, bool is_transposed);
  std::string vector(const LayerSite& site, std::string_view parameter);
  std::string moved(const LayerSite& site, const std::string& name, Shape shape, std::vector<std::string> parameters,
                    const std::vector<std::size_t>& blocks);

  /// Inputs as int8 (docs/numerics.md, section 10). Of one scale a row: whole numbers, and what they are to be
  /// multiplied with behind the matrix. Of more: what the whole numbers stand for, and no step.
  struct CodedInputs {
    Written values;
    std::string step;
  };
  const CodedInputs& coded_inputs(const Written& x, std::size_t in_block, float least);
  /// True for a matrix that meets inputs as int8.
  bool sums_integers(const LayerSite& site, std::string_view parameter) const;
  /// True for a matrix whose codes ONNX has a type for.
  bool stores_codes(const LayerSite& site, std::string_view parameter) const;
  Written coded_product(const LayerSite& site, const Written& x, std::string_view parameter);
  /// Notes that inputs stay float32, where `parameter` takes them as int8.
  void note_float_inputs(const LayerSite& site, std::string_view parameter, const char* why);
  /// The mean or maximum of the last axis, which stays as 1.
  Written reduced(std::string type, const Written& x);

  /// W x + b over the last axis.
  Written product(const LayerSite& site, const Written& x, std::string_view weight, std::string_view bias);
  Written activated(const Written& x, std::string_view activation);
  Written rms(const Written& x, double epsilon, const std::string& gain);

  Result<Written> dense(const LayerSite& site, const Written& x);
  Result<Written> norm(const LayerSite& site, const Written& x, bool has_mean);
  Result<Written> softmax(const LayerSite& site, const Written& x);
  Result<Written> swiglu(const LayerSite& site, const Written& x);
  Result<Written> convolution(const LayerSite& site, const Written& x, bool is_transposed);
  Result<Written> pool(const LayerSite& site, const Written& x, bool is_max);
  Result<Written> adaptive_pool(const LayerSite& site, const Written& x, bool is_max);
  Result<Written> recurrent(const LayerSite& site, const Written& x);
  Result<Written> embedding(const LayerSite& site, const Written& x);
  Result<Written> positions(const LayerSite& site, const Written& x);
  Result<Written> attention(const LayerSite& site, const Written& x);
  Result<Written> turned(const LayerSite& site, const Written& heads);
  Result<Written> select(const LayerSite& site, const Written& x);
  Result<Written> simple(const LayerSite& site, const Written& x);
  Result<Written> container(const LayerSite& site, const Written& x);
  /// Outputs of the layers of a container, in order.
  Result<std::vector<Written>> inner(const LayerSite& site, const Written& x, bool is_chain);
  Result<Written> inner_layer(const LayerSite& site, std::size_t index, const Written& x);

  std::shared_ptr<const mesh::Mesh> mesh_;
  GraphWriter& to_;
  bool keeps_codes_ = false;
  std::vector<Coord> tables_;                                   // layers whose matrices embeddings read
  std::map<std::string, std::string> stored_;                   // what dequantizes a matrix, by its name
  std::map<std::pair<std::string, float>, CodedInputs> coded_;  // by a value's name and the least that divides it
  std::vector<std::string> notes_;
};

}  // namespace weft::models::onnx
