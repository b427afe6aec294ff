// SPDX-License-Identifier: Apache-2.0

#include "models/onnx/onnx_export.hpp"

#include "models/config_reader.hpp"
#include "models/internal/written_model.hpp"
#include "models/onnx/internal/layer_forms.hpp"

#include "mesh/mesh.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/persistence/entity_model.hpp"

#include "formats/entity/entity.hpp"
#include "formats/onnx/onnx.hpp"
#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include <algorithm>
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

namespace {

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Notes that one file would hold no more than the graph, and what is smaller.
Status note_external(const std::shared_ptr<const mesh::Mesh>& mesh, const std::string& data, bool keeps_codes,
                     std::vector<std::string>& notes) {
  std::string note = "one file has at most 2147483647 bytes, so the weights are in " + data + ", which the graph names";
  std::vector<std::string> unused;
  if (!keeps_codes) {
    WEFT_TRY(formats::OnnxModel model, onnx_model_of(mesh, unused, true));
    if (const auto stored = formats::onnx_source(std::move(model)))
      note += "; --type stored makes one file of " + std::to_string(stored->size()) + " bytes";
  }
  notes.push_back(std::move(note));
  return {};
}

/// Replaces a graph and its external data by others, of which a graph alone may come.
Status write_sources(storage::FileSystem& files, formats::OnnxSources sources, const std::string& entity,
                     const std::string& out, bool is_forced, std::vector<std::string>& notes) {
  const std::string name = file_name(out) + ".data", data = storage::parent_path(out) + "/" + name;
  internal::WrittenModel written;
  std::vector<std::string> external;
  if (formats::load_onnx(files, out, &external) && std::find(external.begin(), external.end(), data) != external.end())
    written.known = {data};
  if (sources.data) written.set.made.push_back({data, *std::move(sources.data)});
  written.set.made.push_back({out, std::move(sources.graph)});  // without it no reader takes the data
  const bool is_known = !written.known.empty();
  written.is_model_file = [&](std::string_view file) { return is_known && file == name; };
  written.read = {entity};
  written.is_forced = is_forced;
  return internal::write_model(files, std::move(written), notes);
}

}  // namespace

Result<ExportedOnnx> export_onnx(storage::FileSystem& files, const std::string& entity, const std::string& out,
                                 const OnnxExportOptions& options) {
  WEFT_TRY(const formats::EntityFile file, formats::load_entity(files, entity));
  WEFT_TRY(const mesh::NetworkSpec spec, mesh::network_of(file));
  mesh::MeshOptions own;
  own.threads = 1;
  own.max_memory = options.max_memory;
  own.keeps_masters = false;
  WEFT_TRY(mesh::Mesh built, mesh::Mesh::build(spec, std::move(own)));
  WEFT_CHECK(mesh::restore_weights(built, file));
  const auto mesh = std::make_shared<const mesh::Mesh>(std::move(built));
  ExportedOnnx exported;
  auto model = onnx_model_of(mesh, exported.notes, options.keeps_codes);
  if (!model) return fail(std::move(model).error().within(entity));
  exported.nodes = model->graph.nodes.size();
  exported.tensors = model->graph.initializers.size();
  const std::string data = file_name(out) + ".data";
  WEFT_TRY(formats::OnnxSources sources, formats::onnx_sources(*std::move(model), data, options.is_external));
  exported.bytes = sources.graph.size() + (sources.data ? sources.data->size() : 0);
  exported.files = {out};
  if (sources.data) exported.files.push_back(out + ".data");
  if (sources.data && !options.is_external) WEFT_CHECK(note_external(mesh, data, options.keeps_codes, exported.notes));
  if (!sources.data && options.is_external)
    exported.notes.emplace_back("no weight has 1024 bytes, so the graph has all of them");
  WEFT_CHECK(write_sources(files, std::move(sources), entity, out, options.is_forced, exported.notes));
  return exported;
}

}  // namespace weft::models
