// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/fwd.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/network/network.hpp"

#include "formats/tensor_file.hpp"

#include "kernels/weight_layout.hpp"

#include "core/byte_source.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weft::mesh {

/// Some rows of a parameter of a network that is not built.
struct ParameterRows {
  const Node& node;
  const ParameterSpec& spec;
  std::size_t first = 0;
  std::span<float> values;  // [rows][spec.in]; of a vector all of it
};

/// Weights that come from elsewhere: fills `values`. Called for the rows of a parameter in order, and for all of them
/// more than once.
using ReadParameter = std::function<Status(const ParameterRows&)>;

/// Some rows of a matrix in the type of its layer, as files hold them: spans of
/// kernels::ordered_bytes(node.encoding_of(spec), rows, spec.in).
struct ParameterCodes {
  const Node& node;
  const ParameterSpec& spec;
  std::size_t first = 0, rows = 0;
  kernels::OrderedWeight to;
};

/// Matrices whose codes, scales and zero points are there already, so that nothing is quantized.
struct ReadCodes {
  std::function<bool(const Node&, const ParameterSpec&)> has;  // null: none is
  std::function<Status(const ParameterCodes&)> read;           // called as ReadParameter is
};

/// Content of an .entity file of a network whose weights `read` and `codes` give, in the types that its layers state,
/// or as the float32 masters of those that learn through theirs ("qat") and have no codes: no mesh is made, and no more
/// than about 1 MiB of a matrix is in memory at once (types with one scale a matrix: all of it). `tensors` and
/// `meta_json`, an object, go into the file too.
/// @error as Graph::build and what `read` and `codes` fail with; not_finite: a weight that is no finite number, or that
///        its type cannot hold
Result<ByteSource> entity_of(std::shared_ptr<const Graph> graph, ReadParameter read,
                             std::vector<formats::Tensor> tensors = {}, const std::string& meta_json = "{}",
                             ReadCodes codes = {});

}  // namespace weft::mesh
