// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/fwd.hpp"
#include "mesh/network/graph.hpp"

#include "formats/fwd.hpp"
#include "storage/fwd.hpp"

#include "core/byte_source.hpp"
#include "core/encoding.hpp"
#include "core/result.hpp"
#include "core/shape.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::models {

/// Options of `import_onnx`.
struct OnnxImportOptions {
  std::map<std::string, Shape> shapes{};  // of inputs, where the file does not say them
  std::map<std::string, double> pins{};   // inputs that become constants
  /// Type of all matrices; none: float32.
  std::optional<Encoding> encoding = std::nullopt;
  bool quantization_aware = false;  // "qat" of layers whose matrices are not float32
  std::uint64_t max_memory = 0;     // bytes that importing may take by estimate; 0: no bound but the machine's
  bool allow_nonfinite = false;     // weights that are not finite become so (NonfiniteWeights); else they are refused
  bool describes_alone = false;     // no weight is read but those that the graph itself computes with; no `content`
};

/// A graph as a network and its weights, which are read while `content` is produced.
struct ImportedOnnx {
  std::shared_ptr<const mesh::Graph> graph;
  ByteSource content;  // of an .entity file
  std::uint64_t parameters = 0;
  std::vector<std::string> notes;
  std::vector<std::string> external;  // paths of the files that have its external data
};

/// True for a regular file whose name ends in ".onnx".
bool is_onnx_path(const std::string& path);

/// The graph of an ONNX file as a network: of one sample, and with the state of its recurrent layers inside. Operators
/// that work on sizes and places are computed now, and so are branches whose condition is known.
/// @error as formats::load_onnx; unsupported: all operators and inputs that have no layer, at once; corrupt.
///        Producing: not_finite: a weight; storage
Result<ImportedOnnx> import_onnx(storage::FileSystem& files, const std::string& path,
                                 const OnnxImportOptions& options = {});
/// The same of a file that is open. `name`: of the network, and in front of messages.
Result<ImportedOnnx> import_onnx(const formats::OnnxFile& file, const std::string& name,
                                 const OnnxImportOptions& options = {});

}  // namespace weft::models
