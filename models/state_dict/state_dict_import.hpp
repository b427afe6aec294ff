// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/fwd.hpp"
#include "mesh/network/graph.hpp"

#include "formats/safetensors/safetensors.hpp"
#include "storage/fwd.hpp"

#include "core/byte_source.hpp"
#include "core/encoding.hpp"
#include "core/result.hpp"
#include "core/shape.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::models {

/// Options of `import_state_dict`: what a file of weights alone does not say.
struct StateDictOptions {
  Shape input{};                     // of input "x"; empty: as the first layer's weights, and those after it, decide
  std::string activation = "";       // after each layer but the last; empty: none
  std::size_t heads = 0;             // of attention; 0: a file with attention is refused
  std::vector<std::string> order{};  // modules' names in the order in which they compute; empty: see below
  /// Type of all matrices; none: as they are in the file.
  std::optional<Encoding> encoding = std::nullopt;
  bool quantization_aware = false;  // "qat" of layers whose matrices are not float32
  std::uint64_t max_memory = 0;     // bytes that importing may take by estimate; 0: no bound but the machine's
  bool allow_nonfinite = false;     // weights that are not finite become so (NonfiniteWeights); else they are refused
  bool describes_alone = false;     // no weight is read but those of norms that are folded; `content` stays empty
};

/// Weights of which a chain of layers was made.
struct ImportedStateDict {
  std::shared_ptr<const mesh::Graph> graph;
  ByteSource content;  // of an .entity file
  std::uint64_t parameters = 0;
  std::vector<std::string> notes;  // what the file does not say, and what was taken for it
  std::vector<std::string>
      layers;  // "fc1: dense 784 -> 128 of fc1.weight, fc1.bias", in the order in which they compute
};

/// True for a regular file whose name ends in ".safetensors".
bool is_state_dict_path(const std::string& path);

/// A safetensors file of weights alone (a state_dict of PyTorch) as a chain of layers from input "x" to output "y".
///
/// Tensors whose names differ behind the last dot are one module: weight and bias, weight_ih_l0 and its kin, in_proj
/// and out_proj; q_proj, k_proj, v_proj and o_proj under one name are attention; gate_proj, up_proj, down_proj (w1, w3,
/// w2) swiglu; running_mean and running_var belong to a norm over batches, which is folded into the convolution or
/// dense layer before it. The weight's shape decides the layer: rank 3 to 5 a convolution, 2 a dense layer, or an
/// embedding where it says so or its rows are more than 10 times its columns and it has no bias; 1 a norm.
///
/// A safetensors file is sorted by name, so the order of modules is lost. It is found: names that differ in a number
/// first keep the order of those numbers, and each layer takes as many values as the one before gives. Exactly one
/// order must do so; else `order` says it.
///
/// Strides, paddings, pools, activations and residual links are in no weight: convolutions are taken to step by 1
/// without padding, and notes say what was assumed.
/// @error as formats::load_safetensors; unsupported: all tensors that fit no layer, and orders that do not fit or are
///        several, at once; shape_mismatch. Producing: not_finite: a weight; storage
Result<ImportedStateDict> import_state_dict(storage::FileSystem& files, const std::string& path,
                                            const StateDictOptions& options = {});
/// The same of a file that is open. `name`: of the network.
Result<ImportedStateDict> import_state_dict(const formats::SafetensorsFile& file, const std::string& name,
                                            const StateDictOptions& options = {});

}  // namespace weft::models
