// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/onnx/onnx_import.hpp"

#include "mesh/mesh.hpp"
#include "mesh/persistence/mesh_load.hpp"

#include "formats/onnx/onnx.hpp"
#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.hpp"
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weft::models {

using Floats = std::vector<float>;
using Integers = std::vector<std::int64_t>;
using Attributes = std::vector<std::pair<std::string, formats::OnnxValue>>;

inline Result<mesh::Mesh> imported_onnx(const std::string& path, const OnnxImportOptions& options = {}) {
  WEFT_TRY(const ImportedOnnx model, import_onnx(storage::real_file_system(), path, options));
  WEFT_TRY(const ByteBuffer bytes, collect(model.content));
  return mesh::load_mesh(bytes, path);
}

/// A graph from "x" to "y" and its constants.
struct OnnxTestGraph {
  formats::OnnxModel model;
  std::map<std::string, std::vector<float>> held;

  explicit OnnxTestGraph(std::vector<std::int64_t> x, std::int64_t opset = 17) {
    model.opsets[""] = opset;
    std::vector<formats::OnnxAxis> axes;
    for (const std::int64_t extent : x) axes.push_back({extent, ""});
    model.graph.inputs = {{"x", "float32", axes}};
    model.graph.outputs = {{"y", "float32", {}}};
  }
  OnnxTestGraph& node(std::string type, std::vector<std::string> in, std::vector<std::string> out,
                      Attributes attributes = {}) {
    formats::OnnxNode node;
    node.type = std::move(type);
    node.inputs = std::move(in);
    node.outputs = std::move(out);
    node.attributes = std::move(attributes);
    model.graph.nodes.push_back(std::move(node));
    return *this;
  }
  OnnxTestGraph& floats(const std::string& name, Shape shape, std::vector<float> values) {
    auto& kept = held[name] = std::move(values);
    model.graph.initializers.push_back({name, "float32", std::move(shape), std::as_bytes(std::span(kept))});
    return *this;
  }
  OnnxTestGraph& codes(const std::string& name, const std::string& type, Shape shape,
                       std::vector<std::uint8_t> values) {
    auto& kept = bytes[name] = std::move(values);
    model.graph.initializers.push_back({name, type, std::move(shape), std::as_bytes(std::span(kept))});
    return *this;
  }
  OnnxTestGraph& integers(const std::string& name, const std::vector<std::int64_t>& values) {
    auto& kept = wholes[name] = values;
    model.graph.initializers.push_back({name, "int64", {values.size()}, std::as_bytes(std::span(kept))});
    return *this;
  }
  std::map<std::string, std::vector<std::int64_t>> wholes;
  std::map<std::string, std::vector<std::uint8_t>> bytes;

  std::string written(const std::string& folder) const {
    const std::string path = folder + "/g.onnx";
    const auto source = formats::onnx_source(model);
    EXPECT_TRUE(source) << source.error().text();
    EXPECT_TRUE(storage::write_file_durably(storage::real_file_system(), path, *source));
    return path;
  }
  std::vector<float> run(const std::vector<float>& x) const {
    const storage::TemporaryDirectory folder;
    const auto mesh = imported_onnx(written(folder.path()));
    EXPECT_TRUE(mesh) << mesh.error().text();
    if (!mesh) return {};
    std::vector<float> y(mesh->graph().nodes()[mesh->graph().outputs()[0]].width);
    const mesh::RunInput input{"x", x};
    const mesh::RunOutput output{"y", y};
    const Status ran = mesh->forward({&input, 1}, 1, {&output, 1});
    EXPECT_TRUE(ran) << ran.error().text();
    return y;
  }
  std::string refusal() const {
    const storage::TemporaryDirectory folder;
    const auto mesh = imported_onnx(written(folder.path()));
    return mesh ? "" : mesh.error().text();
  }
};

/// A node of an operator of com.microsoft.
inline OnnxTestGraph& foreign_node(OnnxTestGraph& graph, const char* type, std::vector<std::string> inputs,
                                   Attributes attributes, std::vector<std::string> outputs = {"y"}) {
  graph.node(type, std::move(inputs), std::move(outputs), std::move(attributes));
  graph.model.graph.nodes.back().domain = "com.microsoft";
  return graph;
}

}  // namespace weft::models
