// SPDX-License-Identifier: Apache-2.0

#include "models/onnx/onnx_import.hpp"

#include "models/import.hpp"
#include "models/nonfinite.hpp"
#include "models/onnx/internal/onnx_network.hpp"
#include "models/onnx/internal/stored_weight.hpp"
#include "models/tensor_values.hpp"

#include "mesh/memory/memory_estimate.hpp"
#include "mesh/persistence/foreign_weights.hpp"

#include "formats/onnx/onnx.hpp"
#include "storage/file_system.hpp"

#include "core/philox.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace weft::models {
namespace {

using onnx::GraphNetwork;
using onnx::Weight;

/// Fills the rows of a parameter from what the graph has for it.
Status read_rows(const Weight& weight, const mesh::ParameterRows& wanted) {
  const std::size_t in = std::max<std::size_t>(wanted.spec.in, 1), out = wanted.spec.out,
                    bits = 8 * weight.values.bytes.size();
  if (weight.values.count() != in * out)
    return fail(Errc::internal, wanted.node.object + ": '" + wanted.spec.name + "' has " + std::to_string(in * out) +
                                    " values, the graph " + std::to_string(weight.values.count()));
  const std::size_t bytes = bits / 8 / (in * out);
  if (!weight.is_transposed)
    return decode_values(weight.values.type,
                         weight.values.bytes.subspan(wanted.first * in * bytes, wanted.values.size() * bytes),
                         wanted.values);
  const std::size_t rows = wanted.values.size() / in;
  std::vector<float> column(rows);
  for (std::size_t k = 0; k < in; ++k) {
    WEFT_CHECK(decode_values(weight.values.type,
                             weight.values.bytes.subspan((k * out + wanted.first) * bytes, rows * bytes), column));
    for (std::size_t i = 0; i < rows; ++i) wanted.values[i * in + k] = column[i];
  }
  return {};
}

using Weights = std::map<std::pair<std::uint32_t, std::string>, Weight>;

/// Codes as they stand in the graph, of the matrices whose layers have their type.
mesh::ReadCodes codes_of(const formats::OnnxFile& file, std::shared_ptr<const Weights> held) {
  return {[held](const mesh::Node& node, const mesh::ParameterSpec& spec) {
            const auto found = held->find({node.at.z, spec.name});
            if (found == held->end()) return false;
            const auto stored = onnx::stored_encoding(found->second);
            return stored && *stored == node.encoding_of(spec);
          },
          [file, held](const mesh::ParameterCodes& wanted) -> Status {
            WEFT_CHECK(onnx::read_codes(held->at({wanted.node.at.z, wanted.spec.name}), wanted));
            return file.intact();
          }};
}

mesh::ReadParameter reader_of(const formats::OnnxFile& file, std::shared_ptr<const Weights> held) {
  return [file, held](const mesh::ParameterRows& wanted) -> Status {
    const auto found = held->find({wanted.node.at.z, wanted.spec.name});
    if (found == held->end()) {
      if (wanted.spec.is_matrix())
        return fail(Errc::internal, wanted.node.object + ": '" + wanted.spec.name + "' has no origin");
      // Numbers that are options of the layer.
      RandomStream none(0, 0, RandomPurpose::init);
      wanted.spec.init(none, wanted.values);
      return {};
    }
    WEFT_CHECK(read_rows(found->second, wanted));
    return file.intact();
  };
}

}  // namespace

bool is_onnx_path(const std::string& path) {
  std::error_code unknown;
  return path.ends_with(".onnx") && std::filesystem::is_regular_file(path, unknown);
}

Result<ImportedOnnx> import_onnx(storage::FileSystem& files, const std::string& path,
                                 const OnnxImportOptions& options) {
  std::vector<std::string> external;
  WEFT_TRY(const formats::OnnxFile file, formats::load_onnx(files, path, &external));
  auto imported = import_onnx(file, std::filesystem::path(path).stem().string(), options);
  if (!imported) return fail(std::move(imported).error().within(path));
  imported->external = std::move(external);
  return imported;
}

Result<ImportedOnnx> import_onnx(const formats::OnnxFile& file, const std::string& name,
                                 const OnnxImportOptions& options) {
  WEFT_TRY(
      GraphNetwork made,
      onnx::network_of(file, name, {options.shapes, options.pins, !options.encoding && !options.quantization_aware}));
  ImportedOnnx imported;
  imported.notes = std::move(made.notes);
  std::uint64_t largest = 0, kept = 0;
  for (auto& [place, weight] : made.weights) {
    imported.parameters += weight.values.count();
    largest = std::max<std::uint64_t>(largest, weight.values.count() * sizeof(float));
    if (weight.values.owned) kept += weight.values.bytes.size();
  }
  if (options.encoding)
    for (mesh::LayerSpec& layer : made.spec.layers) {
      const bool has_weights = std::any_of(made.weights.begin(), made.weights.end(), [&](const auto& row) {
        return row.first.first == layer.at.z && row.second.values.shape.size() > 1;
      });
      if (!has_weights) continue;
      layer.dtype = options.encoding->dtype;
      if (has_scale(layer.dtype)) layer.granularity = options.encoding->granularity;
    }
  if (options.quantization_aware) WEFT_CHECK(train_stored(made.spec.layers));
  mesh::MemoryEstimate estimate;
  estimate.add("weights in another order than the file's, and the largest tensor three times", kept + 3 * largest);
  if (!options.describes_alone) WEFT_CHECK(mesh::check_memory("importing " + name, estimate, options.max_memory));
  WEFT_TRY(mesh::Graph graph, mesh::Graph::build(made.spec));
  imported.graph = std::make_shared<const mesh::Graph>(std::move(graph));
  if (options.describes_alone) return imported;
  const auto weights = std::make_shared<const Weights>(std::move(made.weights));
  const auto replaced = options.allow_nonfinite ? std::make_shared<NonfiniteWeights>() : nullptr;
  WEFT_TRY(imported.content, mesh::entity_of(imported.graph, with_finite_values(reader_of(file, weights), replaced), {},
                                             "{}", codes_of(file, weights)));
  if (replaced && !replaced->empty()) imported.notes.push_back(replaced->note());
  return imported;
}

}  // namespace weft::models
