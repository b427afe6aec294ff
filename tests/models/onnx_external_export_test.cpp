// SPDX-License-Identifier: Apache-2.0
// Graphs whose weights have a file of their own.

#include "models/onnx/onnx_export.hpp"

#include "mesh/persistence/entity_model.hpp"
#include "mesh/persistence/mesh_load.hpp"

#include "formats/onnx/onnx.hpp"
#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include "tests/models/onnx_graph.hpp"
#include "tests/support/source_path.hpp"
#include "tests/support/temporary_directory.hpp"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

namespace weft::models::onnx_external_export_test {
namespace {

/// Tokens, an embedding whose rows are the last matrix, and layers between: small tensors and large ones.
std::string tied_network(const std::string& coded) {
  return R"({"weft": 2, "seed": 7, "inputs": {"tokens": [5]}, "grid": {"z": 4}, "outputs": {"y": [3, 0, 0, 0]}, "layers": [
    {"at": [0, 0, 0, 0], "type": "embedding", "out": 64, "vocabulary": 40, "weight": [3, 0, 0, 0], "shape": [5, 64],
     "from": ["tokens"]},
    {"at": [1, 0, 0, 0], "type": "rms_norm"},
    {"at": [2, 0, 0, 0], "type": "dense", "out": 64)" +
         coded + R"(},
    {"at": [3, 0, 0, 0], "type": "dense", "out": 40, "bias": false)" +
         coded + "}]}";
}
const std::vector<std::string> kForms{"", R"(, "dtype": "int8", "activations": "float")",
                                      R"(, "dtype": "int4", "granularity": "block32")",
                                      R"(, "dtype": "uint4", "granularity": "channel", "activations": "int8_row")"};

class OnnxExternalExport : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_.path() + "/" + name; }
  void make_entity(const std::string& coded) {
    auto mesh = mesh::load_mesh(as_bytes(tied_network(coded)), "n");
    ASSERT_TRUE(mesh) << mesh.error().text();
    const auto bytes = mesh::encode_mesh(*mesh, false);
    ASSERT_TRUE(storage::write_file_durably(files_, at("n.entity"), ByteSource(ByteSpan(*bytes))));
  }
  Result<ExportedOnnx> write(const std::string& name, const OnnxExportOptions& options) {
    return export_onnx(files_, at("n.entity"), at(name), options);
  }
  ExportedOnnx written(const std::string& name, const OnnxExportOptions& options) {
    auto made = write(name, options);
    EXPECT_TRUE(made) << made.error().text();
    return made ? *std::move(made) : ExportedOnnx();
  }
  std::string imported(const std::string& name) {
    const auto model = import_onnx(files_, at(name));
    EXPECT_TRUE(model) << model.error().text();
    if (!model) return name;
    const auto bytes = collect(model->content);
    return bytes ? std::string(as_text(*bytes)) : name;
  }
  std::string content(const std::string& name) const {
    std::ifstream in(at(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void put(const std::string& name, const std::string& text) { std::ofstream(at(name), std::ios::binary) << text; }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      found.insert(entry.path().filename().string());
    return found;
  }

  storage::TemporaryDirectory folder_;
  storage::FileSystem& files_ = storage::real_file_system();
};

// Two files of other names would name different networks, so both have one name and a folder each.
TEST_F(OnnxExternalExport, HasTheNetworkAndTheBitsOfOneFile) {
  for (const bool keeps_codes : {false, true})
    for (const std::string& form : kForms) {
      SCOPED_TRACE(form + (keeps_codes ? ", stored" : ""));
      make_entity(form);
      std::filesystem::create_directory(at("one"));
      std::filesystem::create_directory(at("two"));
      const ExportedOnnx one = written("one/m.onnx", {.keeps_codes = keeps_codes, .is_forced = true}),
                         two = written("two/m.onnx", {keeps_codes, true, true});
      EXPECT_EQ(one.files, std::vector<std::string>{at("one/m.onnx")});
      EXPECT_EQ(two.files, (std::vector<std::string>{at("two/m.onnx"), at("two/m.onnx.data")}));
      EXPECT_EQ(two.bytes,
                std::filesystem::file_size(at("two/m.onnx")) + std::filesystem::file_size(at("two/m.onnx.data")));
      EXPECT_EQ(one.tensors, two.tensors);
      // Import refuses whole numbers of blocks times their scales as a matrix for inputs as int8.
      if (!keeps_codes && form.find("block32") != form.npos) continue;
      EXPECT_TRUE(imported("one/m.onnx") == imported("two/m.onnx"));
    }
}

TEST_F(OnnxExternalExport, HasTensorsOfAKibibyteAtMultiplesOfAPage) {
  make_entity("");
  written("m.onnx", {.is_external = true});
  const auto graph = formats::load_onnx(files_, at("m.onnx"));
  ASSERT_TRUE(graph) << graph.error().text();
  const std::string data = content("m.onnx.data"), own = content("m.onnx");
  // Of float32: the shared table, [40, 64], and a matrix, [64, 64]; gains and biases have 256 bytes.
  EXPECT_EQ(data.size(), 12288u + 16384u) << "10240 bytes and 2048 of filling, then the other";
  std::size_t large = 0;
  for (const formats::Tensor& tensor : graph->tensors().tensors()) {
    const std::string bytes(as_text(tensor.bytes));
    const std::size_t place = bytes.size() < 1024 ? own.find(bytes) : data.find(bytes);
    ASSERT_NE(place, std::string::npos) << tensor.name;
    if (bytes.size() < 1024) continue;
    EXPECT_EQ(place % 4096, 0u) << tensor.name;
    EXPECT_EQ(own.find(bytes), std::string::npos) << tensor.name;
    ++large;
  }
  EXPECT_EQ(large, 2u) << "a tied table is there once";
  EXPECT_EQ(own.find(folder_.path()), std::string::npos) << "the name alone";
}

TEST_F(OnnxExternalExport, ATiedTableOfCodesIsThereOnce) {
  for (const std::string& form : kForms) {
    SCOPED_TRACE(form);
    make_entity(form);
    written("m.onnx", {.keeps_codes = true, .is_forced = true});
    const auto graph = formats::load_onnx(files_, at("m.onnx"));
    ASSERT_TRUE(graph) << graph.error().text();
    const auto& tensors = graph->tensors().tensors();
    EXPECT_EQ(std::count_if(tensors.begin(), tensors.end(),
                            [](const auto& tensor) {
                              return tensor.shape == Shape{40, 64} || tensor.shape == Shape{64, 40};
                            }),
              1);
  }
}

TEST_F(OnnxExternalExport, ReplacesBothFilesAsOneAndNothingElse) {
  make_entity("");
  put("m.onnx.data", "Chapter 1");
  const auto refused = write("m.onnx", {.is_external = true});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text().find("m.onnx.data: is there, and is none of a model"), std::string::npos)
      << refused.error().text();
  EXPECT_EQ(content("m.onnx.data"), "Chapter 1");
  EXPECT_EQ(names(), (std::set<std::string>{"n.entity", "m.onnx.data"}));
  // One file beside it: no part of the model, so it stays.
  written("m.onnx", {});
  EXPECT_EQ(content("m.onnx.data"), "Chapter 1");
  EXPECT_FALSE(write("m.onnx", {.is_external = true}));
  EXPECT_NE(imported("m.onnx"), "m.onnx");
  written("m.onnx", {.is_external = true, .is_forced = true});
  const std::string first = imported("m.onnx");
  const ExportedOnnx again = written("m.onnx", {.is_external = true});
  ASSERT_EQ(again.notes.size(), 1u);
  EXPECT_NE(again.notes[0].find("replaced, of an earlier model at this place: "), std::string::npos) << again.notes[0];
  EXPECT_TRUE(first == imported("m.onnx"));
  // Data that the graph before named goes with it.
  const ExportedOnnx alone = written("m.onnx", {});
  ASSERT_EQ(alone.notes.size(), 2u);
  EXPECT_NE(alone.notes[1].find("removed, of an earlier model at this place: m.onnx.data"), std::string::npos)
      << alone.notes[1];
  EXPECT_EQ(names(), (std::set<std::string>{"n.entity", "m.onnx"}));
  EXPECT_TRUE(first == imported("m.onnx"));
}

TEST_F(OnnxExternalExport, WritesNothingWhereOneOfItsFilesCannotBe) {
  make_entity("");
  std::filesystem::create_directory(at("m.onnx.data"));
  EXPECT_FALSE(write("m.onnx", {.is_external = true, .is_forced = true}));
  EXPECT_EQ(names(), (std::set<std::string>{"n.entity", "m.onnx.data"}));
  const auto named = write("a:b.onnx", {.is_external = true});
  ASSERT_FALSE(named);
  EXPECT_NE(named.error().text().find("has '\\', ':' or a zero byte"), std::string::npos) << named.error().text();
  std::filesystem::rename(at("n.entity"), at("e.onnx.data"));
  const auto read = export_onnx(files_, at("e.onnx.data"), at("e.onnx"), {.is_external = true, .is_forced = true});
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().text().find("is the file that is read"), std::string::npos) << read.error().text();
}

TEST_F(OnnxExternalExport, OfSmallTensorsIsOneFile) {
  auto mesh = mesh::load_mesh(as_bytes(std::string_view(R"({"weft": 2, "inputs": {"x": [3]}, "grid": {"z": 1},
      "outputs": {"y": [0, 0, 0, 0]}, "layers": [{"at": [0, 0, 0, 0], "type": "dense", "out": 4}]})")),
                              "n");
  const auto bytes = mesh::encode_mesh(*mesh, false);
  ASSERT_TRUE(storage::write_file_durably(files_, at("n.entity"), ByteSource(ByteSpan(*bytes))));
  const ExportedOnnx made = written("m.onnx", {.is_external = true});
  EXPECT_EQ(made.files.size(), 1u);
  ASSERT_EQ(made.notes.size(), 1u);
  EXPECT_NE(made.notes[0].find("no weight has 1024 bytes"), std::string::npos) << made.notes[0];
  EXPECT_EQ(names(), (std::set<std::string>{"n.entity", "m.onnx"}));
}

// Both files by onnxruntime, to the bit, and against Weft's own.
TEST_F(OnnxExternalExport, OnnxruntimeComputesTheSameOfBoth) {
  if (!std::getenv("ONNXRUNTIME")) GTEST_SKIP() << "ONNXRUNTIME names no folder with onnxruntime-node";
  const std::vector<float> ids{0, 17, 3, 39, 3};
  for (const bool keeps_codes : {false, true})
    for (const std::string& form : kForms) {
      SCOPED_TRACE(form + (keeps_codes ? ", stored" : ""));
      make_entity(form);
      written("one.onnx", {.keeps_codes = keeps_codes, .is_forced = true});
      written("two.onnx", {keeps_codes, true, true});
      const std::string runs = R"([{"tokens": {"type": "int64", "shape": [1, 5], "values": [0, 17, 3, 39, 3]}}])";
      std::string command = "node " + source_path("tools/run_onnx.mjs");
      for (const char* const name : {"one", "two"}) {
        put(std::string(name) + ".json", runs);
        command += " " + at(std::string(name) + ".onnx") + " " + at(std::string(name) + ".json");
      }
      ASSERT_EQ(std::system(command.c_str()), 0);
      EXPECT_EQ(content("one.json.out"), content("two.json.out"));
      const std::string text = content("two.json.out");
      const Json out = *parse_json(text, "out");
      const auto made = out[0]["y"]["values"].get<std::vector<double>>();
      const auto mesh = mesh::Mesh::load(at("n.entity"));
      std::vector<float> y(made.size());
      const mesh::RunInput input{"tokens", ids};
      const mesh::RunOutput output{"y", y};
      ASSERT_TRUE(mesh->forward({&input, 1}, 1, {&output, 1}));
      double error = 0, largest = 1;
      for (std::size_t i = 0; i < y.size(); ++i) {
        error = std::max(error, std::abs(made[i] - static_cast<double>(y[i])));
        largest = std::max(largest, std::abs(made[i]));
      }
      // A value between two codes takes one or the other by the last bits of the layers before.
      EXPECT_LE(error, (form.find("int8_row") == form.npos ? 1e-5 : 0.01) * largest);
    }
}

}  // namespace
}  // namespace weft::models::onnx_external_export_test
