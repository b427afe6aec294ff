// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/fwd.hpp"

#include "formats/onnx/onnx_model.hpp"
#include "storage/fwd.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft::models {

/// Size of what was written, and warnings.
struct ExportedOnnx {
  std::uint64_t nodes = 0, tensors = 0, bytes = 0;
  std::vector<std::string> files{};  // the graph, and that of its external data
  std::vector<std::string> notes{};
};

/// Options of `export_onnx`.
struct OnnxExportOptions {
  bool keeps_codes = false;  // as onnx_model_of
  bool is_external = false;  // large tensors have a file of their own, also where one would hold all
  bool is_forced = false;    // this and max_memory as ExportOptions
  std::uint64_t max_memory = 0;
};

/// A mesh as an ONNX graph of version 17: one run is one combinational pass (mesh::Mesh::forward), for any number of
/// samples, the first axis of all inputs and outputs. Hidden states are inputs `state.NAME` and outputs
/// `next_state.NAME`, which begin at 0. Weights are float32: of other types the masters, or
/// where none are held what the codes stand for. With `keeps_codes` matrices of int8, uint8, int4 and uint4 are
/// DequantizeLinear of their codes, scales and zero points, and the graph is of version 21.
/// @error unsupported: all layers that have no form, at once
Result<formats::OnnxModel> onnx_model_of(std::shared_ptr<const mesh::Mesh> mesh, std::vector<std::string>& notes,
                                         bool keeps_codes = false);

/// Writes the network of an .entity file so. Of more than 2^31 - 1 bytes, tensors of 1024 bytes and more go to a file
/// of external data beside the graph, its name and ".data"; a note says so. Both are replaced as one, and so is the
/// data that an earlier graph at this place names.
/// @error as onnx_model_of; storage, as check_replaced_file; corrupt: a name that cannot be that of external data
Result<ExportedOnnx> export_onnx(storage::FileSystem& files, const std::string& entity, const std::string& out,
                                 const OnnxExportOptions& options = {});

}  // namespace weft::models
