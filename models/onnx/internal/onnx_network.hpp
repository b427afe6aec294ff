// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/config_reader.hpp"
#include "models/onnx/internal/onnx_constant.hpp"

#include "mesh/network/network.hpp"

#include "formats/onnx/onnx.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weft::models::onnx {

/// Values of a parameter: of a matrix [out][in], or with its axes the other way round.
struct Weight {
  Constant values;
  bool is_transposed = false;
};
/// True for a matrix whose inputs are int8.
inline bool takes_codes(const Weight& weight) noexcept {
  return weight.values.quantized && weight.values.quantized->inputs != Activations::float32;
}

/// Shapes and values of a graph's inputs.
struct GraphOptions {
  std::map<std::string, Shape> shapes;  // of inputs
  std::map<std::string, double> pins;   // inputs that are constants
  bool keeps_codes = true;              // of matrices that a type of Weft's holds as they are
};

/// A graph as a network: one `sequential` where it has one input and one output, else a layer a place.
struct GraphNetwork {
  mesh::NetworkSpec spec;
  /// By place along z and the parameter's name.
  std::map<std::pair<std::uint32_t, std::string>, Weight> weights;
  std::vector<std::string> notes;
};

/// @error unsupported: all that has no layer, at once; corrupt
Result<GraphNetwork> network_of(const formats::OnnxFile& file, const std::string& name, const GraphOptions& options);

}  // namespace weft::models::onnx
