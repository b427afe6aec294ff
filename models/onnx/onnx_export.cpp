// SPDX-License-Identifier: Apache-2.0

#include "models/onnx/onnx_export.hpp"

#include "models/config_reader.hpp"
#include "models/onnx/internal/layer_forms.hpp"
#include "models/replaced_model.hpp"

#include "mesh/mesh.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/persistence/entity_model.hpp"

#include "formats/entity/entity.hpp"
#include "formats/onnx/onnx.hpp"
#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include <map>
#include <utility>

namespace weft::models {
namespace {

using onnx::Written;

/// Walks a mesh's layers, each after those that it reads.
class GraphExport {
 public:
  GraphExport(std::shared_ptr<const mesh::Mesh> mesh, bool keeps_codes)
      : mesh_(std::move(mesh)), forms_(mesh_, to_, keeps_codes) {}

  Result<formats::OnnxModel> write(std::vector<std::string>& notes) && {
    const mesh::Graph& graph = mesh_->graph();
    for (const mesh::NodeId id : graph.order()) {
      const mesh::Node& node = graph.nodes()[id];
      if (node.is_port())
        add_port(id, node);
      else
        add_layer(id, node);
    }
    if (!problems_.empty()) return problems_.failure(Errc::unsupported, "network");
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
      const Written& made = made_.at(graph.outputs()[i]);
      to_.output(graph.spec().outputs[i].name, made.shape, made.name);
    }
    notes.insert(notes.end(), forms_.notes().begin(), forms_.notes().end());
    formats::OnnxModel model;
    model.producer = "weft";
    model.opsets[""] = forms_.has_codes() ? 21 : 18;  // 4 bits and blocks came with 21
    if (forms_.has_codes()) model.ir_version = 10;
    model.graph = std::move(to_.graph());
    model.graph.name = graph.spec().name;
    return model;
  }

 private:
  void add_port(mesh::NodeId id, const mesh::Node& node) {
    if (node.readers.empty()) return;
    to_.input(node.port, node.vocabulary_size != 0 ? "int64" : "float32", node.shape);
    made_[id] = {node.port, node.shape};
  }
  void add_layer(mesh::NodeId id, const mesh::Node& node) {
    const mesh::Graph& graph = mesh_->graph();
    std::vector<Written> sources;
    for (const std::uint32_t edge : node.sources) {
      if (graph.edges()[edge].is_feedback) return problems_.add(node.object + ": a link backwards has no form in ONNX");
      const auto found = made_.find(graph.edges()[edge].from);
      if (found == made_.end()) return;  // refused before
      sources.push_back(found->second);
    }
    Written in = forms_.joined(node.combine, sources);
    if (node.layer->in_shape() != in.shape) in = to_.reshaped(in, node.layer->in_shape());
    auto made = forms_.write({graph.layer_spec(id), *node.layer, id, "", to_string(node.at)}, in);
    if (!made) return problems_.add(node.object + ": " + made.error().text());
    made_[id] = *std::move(made);
  }

  std::shared_ptr<const mesh::Mesh> mesh_;
  onnx::GraphWriter to_;
  onnx::LayerForms forms_;
  std::map<mesh::NodeId, Written> made_;
  Problems problems_;
};

}  // namespace

Result<formats::OnnxModel> onnx_model_of(std::shared_ptr<const mesh::Mesh> mesh, std::vector<std::string>& notes,
                                         bool keeps_codes) {
  return GraphExport(std::move(mesh), keeps_codes).write(notes);
}

Result<ExportedOnnx> export_onnx(storage::FileSystem& files, const std::string& entity, const std::string& out,
                                 bool keeps_codes, bool is_forced, std::uint64_t max_memory) {
  WEFT_TRY(const formats::EntityFile file, formats::load_entity(files, entity));
  WEFT_TRY(const mesh::NetworkSpec spec, mesh::network_of(file));
  mesh::MeshOptions options;
  options.threads = 1;
  options.max_memory = max_memory;
  options.keeps_masters = false;
  WEFT_TRY(mesh::Mesh mesh, mesh::Mesh::build(spec, std::move(options)));
  WEFT_CHECK(mesh::restore_weights(mesh, file));
  ExportedOnnx exported;
  auto model = onnx_model_of(std::make_shared<const mesh::Mesh>(std::move(mesh)), exported.notes, keeps_codes);
  if (!model) return fail(std::move(model).error().within(entity));
  exported.nodes = model->graph.nodes.size();
  exported.tensors = model->graph.initializers.size();
  WEFT_TRY(const ByteSource source, formats::onnx_source(*std::move(model)));
  exported.bytes = source.size();
  WEFT_CHECK(check_replaced_file(files, out, is_forced, exported.notes));
  WEFT_CHECK(storage::write_file_durably(files, out, source));
  return exported;
}

}  // namespace weft::models
