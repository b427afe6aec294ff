// SPDX-License-Identifier: Apache-2.0

#include "models/onnx/onnx_export.hpp"

#include "models/onnx/onnx_import.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/weights/weight_store.hpp"

#include "formats/onnx/onnx.hpp"
#include "storage/durable.hpp"

#include "tests/models/imported.hpp"
#include "tests/models/onnx_graph.hpp"
#include "tests/support/temporary_directory.hpp"
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>

namespace weft::models::onnx_export_test {
namespace {

using MeshPointer = std::shared_ptr<mesh::Mesh>;

/// A layer over one input.
struct Row {
  Shape in;
  std::string layer;
  std::size_t indices = 0;    // its inputs are whole numbers below this
  bool is_read_back = false;  // import_onnx makes the same layer of it
};

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows{
      {{13}, R"("type": "dense", "out": 18)", 0, true},
      {{3, 5}, R"("type": "dense", "out": 17, "bias": false)", 0, true},
      {{3, 5}, R"("type": "dense", "out": 4, "activation": "relu")", 0, true},
      {{19}, R"("type": "activation", "activation": "linear")"},
      {{19}, R"("type": "activation", "activation": "relu")", 0, true},
      {{19}, R"("type": "activation", "activation": "leaky_relu")", 0, true},
      {{19}, R"("type": "activation", "activation": "relu2")", 0, true},
      {{19}, R"("type": "activation", "activation": "silu")", 0, true},
      {{19}, R"("type": "activation", "activation": "gelu")", 0, true},
      {{19}, R"("type": "activation", "activation": "gelu_tanh")", 0, true},
      {{19}, R"("type": "activation", "activation": "tanh")", 0, true},
      {{19}, R"("type": "activation", "activation": "sigmoid")", 0, true},
      {{19}, R"("type": "activation", "activation": "softplus")", 0, true},
      {{19}, R"("type": "activation", "activation": "elu")", 0, true},
      {{19}, R"("type": "activation", "activation": "mish")"},
      {{7}, R"("type": "identity")"},
      {{7}, R"("type": "dropout", "rate": 0.4)"},
      {{7}, R"("type": "residual", "from": ["x", "x"])"},
      {{3, 7}, R"("type": "rms_norm", "epsilon": 0.01)", 0, true},
      {{3, 7}, R"("type": "layer_norm")", 0, true},
      {{7}, R"("type": "layer_norm", "affine": false)"},
      {{12}, R"("type": "softmax")", 0, true},
      {{2, 12}, R"("type": "softmax", "temperature": 0.7, "groups": 3)"},
      {{9}, R"("type": "leaky_integrator", "rate": 0.3)"},
      {{9}, R"("type": "rnn", "out": 17)", 0, true},
      {{9}, R"("type": "rnn", "out": 5, "activation": "relu", "bias": false)", 0, true},
      {{3, 5}, R"("type": "rnn", "out": 7, "output": "last")"},
      {{9}, R"("type": "lstm", "out": 17)", 0, true},
      {{3, 5}, R"("type": "lstm", "out": 7, "stateful": true)", 0, true},
      {{3, 5}, R"("type": "lstm", "out": 7, "bias": false)", 0, true},
      {{9}, R"("type": "gru", "out": 17)", 0, true},
      {{3, 5}, R"("type": "gru", "out": 7)", 0, true},
      {{9}, R"("type": "swiglu", "hidden": 19)", 0, true},
      {{2, 6}, R"("type": "swiglu", "hidden": 17, "gate": "gelu", "bias": true)"},
      {{3, 7}, R"("type": "swiglu", "hidden": 18, "gate": "gelu_tanh", "inner_norm": "rms")", 0, true},
      {{5, 12}, R"("type": "attention", "heads": 3, "causal": true, "rope": "half")", 0, true},
      {{5, 12},
       R"("type": "attention", "heads": 4, "kv_heads": 2, "qk_norm": "rms", "rope": "interleaved", "head_dim": 6)",
       0,
       true},
      {{6, 12},
       R"("type": "attention", "heads": 2, "head_dim": 10, "causal": true, "window": 3, "score_cap": 1.5,
                   "out_norm": "rms", "rope": "half", "rope_dims": 6, "rope_divisors": [1, 1.5, 8], "rope_gain": 1.125)",
       0,
       true},
      {{12}, R"("type": "attention", "heads": 2, "bias": false)", 0, true},
      {{5, 13}, R"("type": "attention", "heads": 3, "mask": "keys", "causal": true)"},
      {{5, 17}, R"("type": "attention", "heads": 2, "mask": "scores", "score_cap": 1.5)"},
      {{3, 24}, R"("type": "attention", "heads": 4, "kv_heads": 2, "mask": "heads", "qk_norm": "rms")"},
      {{5, 8}, R"("type": "attention", "rope": "half", "rope_scaling": "llama3", "rope_factor": 4)", 0, true},
      {{4}, R"("type": "embedding", "out": 5, "vocabulary": 11)", 11, true},
      {{1}, R"("type": "embedding", "out": 5, "vocabulary": 11, "scale": 2.5)", 11, true},
      {{3, 7}, R"("type": "position_embedding", "positions": 5)"},
      {{3, 9}, R"("type": "conv1d", "out": 5, "kernel": 3, "padding": 1, "activation": "tanh")", 0, true},
      {{4, 9}, R"("type": "conv1d", "out": 6, "kernel": 2, "groups": 2, "dilation": 2, "stride": 2)", 0, true},
      {{2, 5, 6}, R"("type": "conv2d", "out": 17, "kernel": [3, 2], "padding": [1, 0], "bias": false)", 0, true},
      {{2, 3, 4, 3}, R"("type": "conv3d", "out": 5, "kernel": 2, "padding": 1, "stride": 2)", 0, true},
      {{3, 6}, R"("type": "conv_transposed1d", "out": 5, "kernel": 3, "stride": 2, "output_padding": 1)", 0, true},
      {{4, 3, 4},
       R"("type": "conv_transposed2d", "out": 6, "kernel": 3, "stride": 2, "padding": 1, "groups": 2)",
       0,
       true},
      {{2, 2, 3, 2}, R"("type": "conv_transposed3d", "out": 3, "kernel": 2)", 0, true},
      {{3, 6, 5}, R"("type": "max_pool", "kernel": 2, "padding": 1)", 0, true},
      {{3, 9}, R"("type": "max_pool", "kernel": 2, "dilation": 3, "stride": 1)", 0, true},
      {{3, 6, 5}, R"("type": "avg_pool", "kernel": 3, "stride": 2, "padding": 1)"},
      {{3, 6, 5}, R"("type": "avg_pool", "kernel": 3, "padding": 1, "count_include_pad": false)", 0, true},
      {{3, 4, 6}, R"("type": "adaptive_max_pool", "size": [2, 3])"},
      {{3, 7, 5}, R"("type": "adaptive_max_pool", "size": 1)"},
      {{3, 7, 5}, R"("type": "adaptive_avg_pool", "size": 1)"},
      {{4, 6}, R"("type": "sequential", "layers": [{"type": "rms_norm", "name": "n"}, {"type": "swiglu", "hidden": 17,
                  "name": "f"}, {"type": "residual", "from": ["input", "f"], "name": "r"}, {"type": "dense", "out": 3,
                  "view": [24], "name": "d"}, {"type": "identity", "from": ["d", "d"], "combine": "gate"}])"},
      {{6}, R"("type": "parallel", "layers": [{"type": "dense", "out": 5}, {"type": "lstm", "out": 4}])"},
      {{6},
       R"("type": "parallel", "merge": "avg", "layers": [{"type": "dense", "out": 5}, {"type": "dense", "out": 5}])"},
      {{2, 3}, R"("type": "standardize", "mean": [1, 2, 3], "deviation": [0.5, 2, 3])"},
      {{9}, R"("type": "soft_cap", "cap": 0.5)", 0, true},
      {{9}, R"("type": "sign")"},
      {{7}, R"("type": "crelu")"},
      {{4, 3, 5}, R"("type": "crelu")"},
      {{4, 3, 5}, R"("type": "crelu", "axis": "first")"},
      {{6, 5}, R"("type": "magnitude")"},
      {{9}, R"("type": "select", "first": [0, 8, 9, 2], "count": [9, 4, 2, 3], "step": [1, -2, 0, 0])"}};
  return kRows;
}

/// Types that have no form, and why not.
const std::map<std::string, std::string>& formless() {
  static const std::map<std::string, std::string> kFormless{
      {"kmeans", R"("out": 3)"},
      {"adaptive_softmax", R"("out": 12, "cutoffs": [4, 7], "div_value": 2)"},
      {"mixture_of_softmaxes", R"("out": 7, "components": 3)"},
      {"argmax", ""},
      {"diagonal", R"("out": 4)"},
      {"running_standardize", ""}};
  return kFormless;
}

MeshPointer mesh_of(const Row& row) {
  std::string in;
  for (const std::size_t extent : row.in) in += (in.empty() ? "" : ", ") + std::to_string(extent);
  const std::string text = R"({"weft": 2, "seed": 7, "inputs": {"x": [)" + in + R"(]}, "grid": {"z": 1}, "outputs":
      {"y": [0, 0, 0, 0]}, "layers": [{"at": [0, 0, 0, 0], )" +
                           row.layer + "}]}";
  auto mesh = mesh::load_mesh(as_bytes(text), "row");
  EXPECT_TRUE(mesh) << row.layer << ": " << mesh.error().text();
  return mesh ? std::make_shared<mesh::Mesh>(*std::move(mesh)) : nullptr;
}

Floats inputs_of(const Row& row, std::size_t samples) {
  std::size_t count = samples;
  for (const std::size_t extent : row.in) count *= extent;
  Floats values;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t drawn = (i * 2654435761u + 12345) % 4093;
    values.push_back(row.indices ? static_cast<float>(drawn % row.indices)
                                 : static_cast<float>(drawn) / 1024.0f - 2.0f);
  }
  return values;
}

/// Outputs of a mesh tick by tick, in one session.
Floats ticked(mesh::Mesh& mesh, const Floats& x, std::size_t ticks) {
  Floats y(ticks * mesh.graph().nodes()[mesh.graph().outputs()[0]].width);
  const mesh::RunInput input{mesh.graph().spec().inputs[0].name, x};
  const mesh::RunOutput output{mesh.graph().spec().outputs[0].name, y};
  const Status ran = mesh.run({&input, 1}, ticks, {&output, 1});
  EXPECT_TRUE(ran) << ran.error().text();
  return y;
}

std::string written(const MeshPointer& mesh, const std::string& path, bool keeps_codes = false) {
  std::vector<std::string> notes;
  auto model = onnx_model_of(mesh, notes, keeps_codes);
  EXPECT_TRUE(model) << model.error().text();
  if (!model) return path;
  const auto source = formats::onnx_source(*std::move(model));
  EXPECT_TRUE(source) << source.error().text();
  EXPECT_TRUE(storage::write_file_durably(storage::real_file_system(), path, *source));
  return path;
}

TEST(OnnxExport, EveryLayerHasAFormOrIsRefusedByName) {
  std::set<std::string> known;
  for (const Row& row : rows()) {
    const auto mesh = mesh_of(row);
    std::vector<std::string> notes;
    const auto model = onnx_model_of(mesh, notes);
    EXPECT_TRUE(model) << row.layer << ": " << model.error().text();
    known.insert(mesh->graph().spec().layers[0].type);
  }
  for (const auto& [type, options] : formless()) {
    known.insert(type);
    const auto mesh = mesh_of({{9}, "\"type\": \"" + type + "\"" + (options.empty() ? "" : ", ") + options});
    std::vector<std::string> notes;
    const auto model = onnx_model_of(mesh, notes);
    ASSERT_FALSE(model) << type;
    EXPECT_NE(model.error().text().find(type + " has no form in ONNX"), std::string::npos) << model.error().text();
  }
  known.insert("metacognition");  // it watches another layer
  for (const std::string& type : mesh::layer_types())
    if (mesh::layer_declaration(type)->is_own) {
      EXPECT_TRUE(known.contains(type)) << type << ": give it a row here";
    }
}

TEST(OnnxExport, TellsAllThatHasNoFormAtOnce) {
  auto mesh = mesh::load_mesh(as_bytes(std::string_view(R"({"weft": 2, "inputs": {"x": [4]}, "grid": {"z": 3},
      "outputs": {"y": [2, 0, 0, 0]}, "layers": [
      {"at": [0, 0, 0, 0], "type": "dense", "out": 4, "from": ["x", [2, 0, 0, 0]]},
      {"at": [1, 0, 0, 0], "type": "softmax", "kind": "sparsemax", "from": ["x"]},
      {"at": [2, 0, 0, 0], "type": "argmax", "from": [[0, 0, 0, 0]]}]})")),
                              "n");
  ASSERT_TRUE(mesh) << mesh.error().text();
  std::vector<std::string> notes;
  const auto model = onnx_model_of(std::make_shared<mesh::Mesh>(*std::move(mesh)), notes);
  ASSERT_FALSE(model);
  for (const char* part : {"a link backwards has no form", "softmax of kind sparsemax has no form"})
    EXPECT_NE(model.error().text().find(part), std::string::npos) << model.error().text();
}

const mesh::WeightStore& weights_of(const mesh::Mesh& mesh) { return mesh::MeshAccess::weights(mesh); }

/// The mesh of a graph; its parameters are as many as those of the mesh that was written, or it is an error.
Result<mesh::Mesh> read_back(const std::string& path, const mesh::Mesh& from) {
  WEFT_TRY(mesh::Mesh again, imported_onnx(path));
  if (weights_of(again).parameters().size() != weights_of(from).parameters().size())
    return fail(Errc::shape_mismatch, "another number of parameters");
  return again;
}

TEST(OnnxExport, IsReadBackAsTheSameWeightsAndOutputs) {
  const storage::TemporaryDirectory folder;
  std::size_t tried = 0;
  for (const Row& row : rows()) {
    if (!row.is_read_back) continue;
    SCOPED_TRACE(row.layer);
    const auto mesh = mesh_of(row);
    auto again = read_back(written(mesh, folder.path() + "/r.onnx"), *mesh);
    ASSERT_TRUE(again) << again.error().text();
    const mesh::WeightStore &own = weights_of(*mesh), &other = weights_of(*again);
    for (std::size_t i = 0; i < own.parameters().size(); ++i)
      EXPECT_EQ(own.read(own.parameters()[i]), other.read(other.parameters()[i])) << own.parameters()[i].spec->name;
    const Floats x = inputs_of(row, 3);
    EXPECT_EQ(ticked(*mesh, x, 3), ticked(*again, x, 3));
    ++tried;
  }
  EXPECT_GE(tried, 40u);
}

/// Layers whose matrices are codes of some types. A table takes no inputs.
std::vector<Row> coded_rows(const std::vector<const char*>& dtypes, const std::vector<const char*>& granularities,
                            const std::string& activations) {
  std::vector<Row> made;
  for (const char* dtype : dtypes)
    for (const char* granularity : granularities)
      for (const Row& row : std::vector<Row>{
               {{37}, R"("type": "dense", "out": 18)"},
               {{3, 67}, R"("type": "dense", "out": 5, "bias": false)"},
               {{2, 64}, R"("type": "dense", "out": 5, "activation": "relu")"},
               {{4}, R"("type": "embedding", "out": 5, "vocabulary": 40)", 40},
               {{5, 12}, R"("type": "attention", "heads": 3, "kv_heads": 1, "causal": true, "rope": "half")"},
               {{3, 7}, R"("type": "swiglu", "hidden": 35, "inner_norm": "rms")"}}) {
        if (row.indices != 0 && activations != "float") continue;
        made.push_back({row.in,
                        row.layer + R"(, "activations": ")" + activations + R"(", "dtype": ")" + dtype +
                            R"(", "granularity": ")" + granularity + "\"",
                        row.indices});
      }
  return made;
}
const std::vector<const char*> kStored{"int8", "uint8", "int4", "uint4"},
    kIntegers{"int8", "uint8", "int4", "uint4", "int2", "uint2", "ternary", "binary"},
    kAll{"tensor", "channel", "block32"};

/// Holds a layer against what import makes of its graph: types, codes, scales and outputs.
void expect_codes_read_back(const Row& row, bool keeps_codes) {
  SCOPED_TRACE(row.layer);
  const storage::TemporaryDirectory folder;
  const auto mesh = mesh_of(row);
  const std::string path = written(mesh, folder.path() + "/r.onnx", keeps_codes);
  EXPECT_EQ(formats::load_onnx(storage::real_file_system(), path)->model().opsets.at(""), keeps_codes ? 21 : 18);
  auto again = read_back(path, *mesh);
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(again->graph().spec().layers[0].layers[0].activations, mesh->graph().nodes()[1].activations);
  const mesh::WeightStore &own = weights_of(*mesh), &other = weights_of(*again);
  for (std::size_t i = 0; i < own.parameters().size(); ++i) {
    EXPECT_EQ(to_string(own.encoding_of(i)), to_string(other.encoding_of(i))) << own.parameters()[i].spec->name;
    if (!own.stored(i) || !other.stored(i)) continue;
    const auto a = own.stored(i)->ordered(), b = other.stored(i)->ordered();
    const auto text = [](const auto& bytes) { return as_text({bytes.data(), bytes.size()}); };
    EXPECT_TRUE(text(a.codes) == text(b.codes)) << own.parameters()[i].spec->name;
    EXPECT_TRUE(text(a.scales) == text(b.scales)) << own.parameters()[i].spec->name;
    EXPECT_TRUE(text(a.zero_points) == text(b.zero_points)) << own.parameters()[i].spec->name;
  }
  const Floats x = inputs_of(row, 2);
  EXPECT_EQ(ticked(*mesh, x, 2), ticked(*again, x, 2));
}

TEST(OnnxExport, WritesCodesThatAreReadBack) {
  for (const Row& row : coded_rows(kStored, kAll, "float")) expect_codes_read_back(row, true);
}

TEST(OnnxExport, InputsAsInt8AreReadBack) {
  for (const char* activations : {"int8", "int8_row"}) {
    for (const Row& row : coded_rows(kStored, kAll, activations)) expect_codes_read_back(row, true);
    for (const Row& row : coded_rows({"int8", "int4", "ternary", "binary"}, {"tensor", "channel"}, activations))
      expect_codes_read_back(row, false);
  }
}

TEST(OnnxExport, TellsOfLayersWhoseInputsStayFloat32) {
  const auto notes_of = [](const char* layer) {
    std::vector<std::string> notes;
    EXPECT_TRUE(onnx_model_of(mesh_of({{3, 9}, std::string(layer) + R"(, "dtype": "int8")"}), notes));
    return notes;
  };
  for (const char* layer : {R"("type": "conv1d", "out": 5, "kernel": 3)", R"("type": "lstm", "out": 7)"}) {
    const auto notes = notes_of(layer);
    ASSERT_EQ(notes.size(), 1u) << layer;
    EXPECT_NE(notes[0].find("as int8; the ONNX graph does as float32"), std::string::npos) << notes[0];
  }
  for (const char* layer : {R"("type": "dense", "out": 5)", R"("type": "conv_transposed1d", "out": 5, "kernel": 3)",
                            R"("type": "conv1d", "out": 5, "kernel": 3, "activations": "float")"})
    EXPECT_TRUE(notes_of(layer).empty()) << layer;
}

TEST(OnnxExport, WidensScalesOfBinary16) {
  const storage::TemporaryDirectory folder;
  for (const char* dtype : {"int8", "uint4"}) {
    const Row row{{3, 37},
                  std::string(R"("type": "dense", "out": 18, "activations": "float", "dtype": ")") + dtype +
                      R"(", "granularity": "block32_f16")"};
    const auto mesh = mesh_of(row);
    const auto imported = import_onnx(storage::real_file_system(), written(mesh, folder.path() + "/r.onnx", true));
    ASSERT_TRUE(imported) << imported.error().text();
    auto again = mesh::load_mesh(*collect(imported->content), "again");
    ASSERT_TRUE(again) << again.error().text();
    EXPECT_EQ(to_string(mesh::MeshAccess::weights(std::as_const(*again)).encoding_of(0)),
              std::string(dtype) + "/block32");
    const Floats x = inputs_of(row, 2);
    EXPECT_EQ(ticked(*mesh, x, 2), ticked(*again, x, 2));
  }
}

/// A language model of a family as m.entity and m.onnx of a folder, and what another program computes of it.
Result<Golden> exported_family(const std::string& family, const storage::TemporaryDirectory& folder) {
  auto& files = storage::real_file_system();
  const std::string path = shared_data("language/families/" + family);
  Golden golden = read_golden(path + "/golden.json");
  WEFT_TRY(const ImportedModel model, import_model(files, path, {.tokens = golden.ids.size()}));
  WEFT_CHECK(storage::write_file_durably(files, folder.path() + "/m.entity", model.content));
  WEFT_TRY(const ExportedOnnx made, export_onnx(files, folder.path() + "/m.entity", folder.path() + "/m.onnx"));
  EXPECT_TRUE(made.notes.empty()) << made.notes[0];
  return golden;
}

// Rotary positions, windows, caps, norms of heads, fused and tied matrices, and the int8 inputs of packed BitNet come
// back as the layers that they were.
TEST(OnnxExport, LanguageModelsAreReadBack) {
  if (shared_data("language/families").empty()) GTEST_SKIP() << "no ../shared/data";
  for (const char* family : {"llama", "llama-3", "llama-linear", "llama-yarn", "qwen2", "qwen3", "gemma", "gemma2",
                             "phi3", "gpt2", "bitnet", "bitnet-2b4t-style"}) {
    SCOPED_TRACE(family);
    const storage::TemporaryDirectory folder;
    const auto golden = exported_family(family, folder);
    ASSERT_TRUE(golden) << golden.error().text();
    const auto is = imported_onnx(folder.path() + "/m.onnx");
    ASSERT_TRUE(is) << is.error().text();
    const auto was = mesh::Mesh::load(folder.path() + "/m.entity");
    const std::size_t vocabulary = golden->logits[0].size();
    const Floats expected = logits_of(*was, golden->ids, vocabulary), found = logits_of(*is, golden->ids, vocabulary);
    EXPECT_EQ(found, expected);
    EXPECT_LT(largest_error(found, golden->logits), 2e-5);
    const auto& layers = is->graph().spec().layers[0].layers;
    EXPECT_EQ(std::count_if(layers.begin(), layers.end(), [](const auto& layer) { return layer.type == "attention"; }),
              3);
  }
}

TEST(OnnxExport, AnImportedPackedBitnetComesBackToTheByte) {
  if (shared_data("language/families").empty()) GTEST_SKIP() << "no ../shared/data";
  auto& files = storage::real_file_system();
  const storage::TemporaryDirectory folder;
  ASSERT_TRUE(exported_family("bitnet-2b4t-style", folder));
  const std::string graph = folder.path() + "/m.onnx", entity = folder.path() + "/n.entity";
  const auto first = import_onnx(files, graph);
  ASSERT_TRUE(first) << first.error().text();
  ASSERT_TRUE(storage::write_file_durably(files, entity, first->content));
  const ByteBuffer bytes = *collect(first->content);
  ASSERT_TRUE(export_onnx(files, entity, graph));
  const auto second = import_onnx(files, graph);
  ASSERT_TRUE(second) << second.error().text();
  EXPECT_TRUE(as_text(bytes) == as_text(*collect(second->content)));
}

/// Onnxruntime's folder, or nothing.
const char* onnxruntime() { return std::getenv("ONNXRUNTIME"); }

/// Inputs for the runs of a graph: of stateful ones a sample a run, of others two samples in one.
Json runs_of(const formats::OnnxModel& model, std::size_t ticks, const Floats& x) {
  Json runs = Json::array();
  const std::size_t samples = ticks == 1 ? 2 : 1, each = x.size() / (ticks * samples);
  for (std::size_t t = 0; t < ticks; ++t) {
    Json run = Json::object(), carry = Json::object();
    for (const formats::OnnxPort& port : model.graph.inputs) {
      Json shape = Json::array();
      std::size_t count = samples;
      shape.push_back(samples);
      for (std::size_t a = 1; a < port.axes->size(); ++a) {
        shape.push_back(static_cast<std::size_t>(*(*port.axes)[a].extent));
        count *= static_cast<std::size_t>(*(*port.axes)[a].extent);
      }
      const bool is_state = port.name.starts_with("state.");
      Json values = Json::array();
      for (std::size_t i = 0; i < count; ++i) values.push_back(is_state ? 0.0 : static_cast<double>(x[t * each + i]));
      run[port.name] = Json{{"type", port.type}, {"shape", std::move(shape)}, {"values", std::move(values)}};
      if (is_state) carry[port.name] = "next_" + port.name;
    }
    run["carry"] = std::move(carry);
    runs.push_back(std::move(run));
  }
  return runs;
}

/// True where what a layer computes becomes int8 again: a value between two codes takes one or the other by last bits.
bool rounds_inside(const Row& row) {
  return row.layer.find("\"int8") < row.layer.find("\"dtype\"") && row.layer.find("dense") == std::string::npos;
}

/// The largest difference between what a mesh and what onnxruntime computes, in parts of the largest value or of 1.
double largest_difference(const std::vector<Row>& rows, bool keeps_codes) {
  const storage::TemporaryDirectory folder;
  std::string command = "node " + source_path("tools/run_onnx.mjs");
  std::vector<Floats> expected;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const auto mesh = mesh_of(row);
    const std::string base = folder.path() + "/" + std::to_string(i);
    written(mesh, base + ".onnx", keeps_codes);
    std::vector<std::string> notes;
    const auto model = onnx_model_of(mesh, notes);
    const bool has_state = model->graph.inputs.size() > 1;
    const std::size_t ticks = has_state ? 3 : 1;
    const Floats x = inputs_of(row, has_state ? 3 : 2);
    // Samples are ticks of a layer without a state.
    expected.push_back(ticked(*mesh, x, has_state ? 3 : 2));
    const std::string text = runs_of(*model, ticks, x).dump();
    EXPECT_TRUE(storage::write_file_durably(storage::real_file_system(), base + ".json", ByteSource(as_bytes(text))));
    command += " " + base + ".onnx " + base + ".json";
  }
  if (std::system(command.c_str()) != 0) return INFINITY;
  double worst = 0;
  std::size_t steps = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto bytes = storage::real_file_system().read(folder.path() + "/" + std::to_string(i) + ".json.out", 1 << 24);
    const Json runs = *parse_json(as_text(*bytes), "out");
    std::vector<double> made;
    for (const Json& run : runs)
      for (const double value : run["y"]["values"].get<std::vector<double>>()) made.push_back(value);
    EXPECT_EQ(made.size(), expected[i].size()) << rows[i].layer;
    if (made.size() != expected[i].size()) return INFINITY;
    double error = 0, largest = 1;
    for (std::size_t k = 0; k < made.size(); ++k) {
      error = std::max(error, std::abs(made[k] - static_cast<double>(expected[i][k])));
      largest = std::max(largest, std::abs(made[k]));
    }
    if (error > 1e-5 * largest && rounds_inside(rows[i]) && error <= 0.01 * largest) {
      ++steps;
      continue;
    }
    EXPECT_LE(error, 1e-5 * largest) << rows[i].layer;
    worst = std::max(worst, error / largest);
  }
  EXPECT_LE(20 * steps, rows.size());
  return worst;
}

TEST(OnnxExport, OnnxruntimeComputesTheSame) {
  if (!onnxruntime()) GTEST_SKIP() << "ONNXRUNTIME names no folder with onnxruntime-node";
  const double worst = largest_difference(rows(), false),
               of_codes = largest_difference(coded_rows(kStored, kAll, "float"), true);
  EXPECT_LE(worst, 1e-5);
  EXPECT_LE(of_codes, 1e-5);
  RecordProperty("worst", std::to_string(worst));
  RecordProperty("worst_of_codes", std::to_string(of_codes));
}

TEST(OnnxExport, OnnxruntimeComputesTheSameOfInputsAsInt8) {
  if (!onnxruntime()) GTEST_SKIP() << "ONNXRUNTIME names no folder with onnxruntime-node";
  for (const char* activations : {"int8", "int8_row"}) {
    const double worst = largest_difference(coded_rows(kIntegers, kAll, activations), false),
                 of_codes = largest_difference(coded_rows(kStored, kAll, activations), true);
    EXPECT_LE(worst, 1e-5) << activations;
    EXPECT_LE(of_codes, 1e-5) << activations;
    RecordProperty(activations, std::to_string(worst) + ", stored " + std::to_string(of_codes));
  }
}

/// Language models: their logits by onnxruntime against those that were computed in binary64, and against Weft's.
TEST(OnnxExport, OnnxruntimeComputesLanguageModels) {
  if (!onnxruntime()) GTEST_SKIP() << "ONNXRUNTIME names no folder with onnxruntime-node";
  if (shared_data("language/families").empty()) GTEST_SKIP() << "no ../shared/data";
  for (const char* family : {"llama", "llama-3", "llama-yarn", "qwen2", "qwen3", "gemma", "gemma2", "phi3", "gpt2",
                             "bitnet", "bitnet-2b4t-style"}) {
    SCOPED_TRACE(family);
    const storage::TemporaryDirectory folder;
    const auto golden = exported_family(family, folder);
    ASSERT_TRUE(golden) << golden.error().text();
    const Json run{{"tokens", Json{{"type", "int64"},
                                   {"shape", std::vector<std::size_t>{1, golden->ids.size()}},
                                   {"values", std::vector<double>(golden->ids.begin(), golden->ids.end())}}}};
    Json runs = Json::array();
    runs.push_back(run);
    const std::string text = runs.dump();
    ASSERT_TRUE(storage::write_file_durably(storage::real_file_system(), folder.path() + "/in.json",
                                            ByteSource(as_bytes(text))));
    const std::string command =
        "node " + source_path("tools/run_onnx.mjs") + " " + folder.path() + "/m.onnx " + folder.path() + "/in.json";
    ASSERT_EQ(std::system(command.c_str()), 0);
    const auto bytes = storage::real_file_system().read(folder.path() + "/in.json.out", std::size_t{1} << 26);
    const Json out = *parse_json(as_text(*bytes), "out");
    const auto logits = out[0]["logits"]["values"].get<std::vector<float>>();
    EXPECT_LE(largest_error(logits, golden->logits), 2e-5);
    const auto own = mesh::Mesh::load(folder.path() + "/m.entity");
    const Floats found = logits_of(*own, golden->ids, golden->logits[0].size());
    Golden of_own;
    for (std::size_t t = 0; t < golden->ids.size(); ++t)
      of_own.logits.emplace_back(found.begin() + static_cast<std::ptrdiff_t>(t * golden->logits[0].size()),
                                 found.begin() + static_cast<std::ptrdiff_t>((t + 1) * golden->logits[0].size()));
    const double error = largest_error(logits, of_own.logits);
    EXPECT_LE(error, 1e-5);
    RecordProperty(family, std::to_string(error));
  }
}

TEST(OnnxExport, WritesAFileOfAnEntity) {
  const storage::TemporaryDirectory folder;
  const auto mesh = mesh_of({{4}, R"("type": "dense", "out": 3, "dtype": "int8", "activations": "float")"});
  const auto bytes = mesh::encode_mesh(*mesh, false);
  const std::string entity = folder.path() + "/n.entity", out = folder.path() + "/n.onnx";
  ASSERT_TRUE(storage::write_file_durably(storage::real_file_system(), entity, ByteSource(ByteSpan(*bytes))));
  const auto made = export_onnx(storage::real_file_system(), entity, out);
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ(made->tensors, 2u);
  EXPECT_TRUE(made->notes.empty());
  const auto file = formats::load_onnx(storage::real_file_system(), out);
  ASSERT_TRUE(file) << file.error().text();
  // Every value is one that the stored codes stand for.
  const auto& weights = mesh::MeshAccess::weights(std::as_const(*mesh));
  const auto values = file->tensors().values<float>("[0,0,0,0].weight", {3, 4});
  ASSERT_TRUE(values) << values.error().text();
  EXPECT_NE(Floats(values->begin(), values->end()), weights.read(weights.parameters()[0]))
      << "the masters, not what computes";
}

}  // namespace
}  // namespace weft::models::onnx_export_test
