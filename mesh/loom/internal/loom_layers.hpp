// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/network.hpp"

#include "core/dtype.hpp"
#include "core/json_reader.hpp"
#include "core/result.hpp"
#include "core/shape.hpp"
#include "core/size_limit.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::mesh {

/// Layers that hold others: branches, layers one after the other, or one under rules that change it.
enum class ContainerV1 { none, parallel, sequential, observed };

/// A layer as the header of Loom's file describes it.
struct LayerV1 {
  std::string path;  // "network.layers[3]"
  std::string blob;  // of its weights: "layers.3", "layers.3.sequential_layers.0"
  Coord at;          // of a layer inside another one nothing
  std::string type;  // upper case
  std::string activation;
  std::string softmax;
  ContainerV1 container = ContainerV1::none;
  bool is_disabled = false;
  std::size_t input_height = 0, input_width = 0, input_depth = 0;
  std::size_t output_height = 0, output_width = 0, output_depth = 0;
  std::size_t input_channels = 0, filters = 0, kernel_size = 0, stride = 0, padding = 0, output_padding = 0;
  std::size_t num_heads = 0, num_kv_heads = 0, head_dim = 0, query_dim = 0, d_model = 0, seq_length = 0;
  std::size_t vocab_size = 0, embedding_dim = 0, softmax_rows = 0, softmax_cols = 0;
  std::size_t num_clusters = 0;
  double rope_freq_base = 0, temperature = 0, entmax_alpha = 0, kmeans_temperature = 0;
  std::string output_mode, combine_mode;
  std::vector<LayerV1> inner;  // of a container
  std::size_t rules = 0;       // by which an observed layer is changed
};

/// A layer of the grid and those inside it. @error naming the path
Result<LayerV1> read_layer_v1(const JsonValue& value, const GridShape& grid);

/// Position of one of our parameters among a layer's weights in Loom.
struct ParameterV1 {
  static constexpr std::size_t kZero = SIZE_MAX;           // has no place: is 0
  static constexpr std::size_t kTooMany = size_limit(41);  // more weights than any blob holds

  std::string name;
  std::size_t out = 0, in = 0;  // in == 0: a vector
  std::size_t first = 0;        // among the layer's weights, of one whose values lie there in our order
  /// Place of value i of the row-major parameter; null: first + i.
  std::function<std::size_t(std::size_t)> place;

  std::size_t size() const noexcept {
    if (in == 0) return out;
    return out > kTooMany / in ? kTooMany : out * in;
  }
};

/// Translation of a Loom layer.
struct LayerPlanV1 {
  std::string type;
  std::size_t out = 0;
  Options options;
  Shape in;  // what it reads; the values of the layer before are viewed as this
  Shape out_shape;
  bool states_shape = false;  // the header says what comes out: to be compared
  std::string activation;     // of a layer after it; empty: none
  std::vector<ParameterV1> parameters;
  std::size_t weights = 0;  // of the blob; not exact past ParameterV1::kTooMany
  std::string note;
};

/// `before` is the shape of what it will read; empty for the first layer, whose description then says it.
/// @error naming the path: unsupported, unknown_name, shape_mismatch, out_of_range
Result<LayerPlanV1> plan_layer_v1(const LayerV1& layer, const Shape& before);

/// Compares the extents that the header states for a convolution's output with those that it gives.
/// @error shape_mismatch, naming the path
Status check_window_v1(const LayerV1& layer, const LayerPlanV1& plan);

}  // namespace weft::mesh
