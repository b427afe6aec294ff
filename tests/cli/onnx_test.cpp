// SPDX-License-Identifier: Apache-2.0
// Graphs of ONNX: in, out, and what is in them.

#include "tests/cli/program.hpp"

namespace weft::cli_test::onnx_test {
namespace {

/// A graph that the onnx package wrote, under a name that says what it is.
std::string copied(const Folder& folder, const std::string& name) {
  const std::string path = folder / (name + ".onnx");
  write_file(path, read_file(source_path("tests/data/fuzz/onnx/" + name)));
  return path;
}

TEST(OnnxFiles, GoInAndOutAgain) {
  Folder folder;
  const std::string file = copied(folder, "gemm"), entity = folder / "m.entity", again = folder / "n.entity";
  const auto made = weft({"import", file, "-o", entity, "--json"});
  ASSERT_EQ(made.exit, 0) << made.err;
  EXPECT_EQ(made.last()["family"], "onnx");
  EXPECT_EQ(made.last()["parameters"], 17);
  Folder other;  // the file's name is the network's
  const std::string graph = other / "gemm.onnx";
  const auto written = weft({"export", entity, "--format", "onnx", "-o", graph, "--json"});
  ASSERT_EQ(written.exit, 0) << written.err;
  EXPECT_EQ(written.last()["nodes"], 4);
  EXPECT_EQ(written.last()["tensors"], 4);
  ASSERT_EQ(weft({"import", graph, "-o", again}).exit, 0);
  EXPECT_EQ(weft({"hash", entity}).out, weft({"hash", again}).out);
}

TEST(OnnxFiles, MayHaveTheirWeightsInAnother) {
  Folder folder, one, two;
  const std::string network = folder / "n.json", entity = folder / "m.entity";
  write_file(network, R"({"weft": 2, "seed": 3, "inputs": {"x": [40]}, "grid": {"z": 1}, "outputs": {"y": [0, 0, 0, 0]},
      "layers": [{"at": [0, 0, 0, 0], "type": "dense", "out": 30}]})");
  ASSERT_EQ(weft({"morph", network, "--dtype", "float32", "-o", entity}).exit, 0);
  ASSERT_EQ(weft({"export", entity, "--format", "onnx", "-o", one / "m.onnx"}).exit, 0);
  const auto written = weft({"export", entity, "--format", "onnx", "--external-data", "-o", two / "m.onnx", "--json"});
  ASSERT_EQ(written.exit, 0) << written.err;
  EXPECT_EQ(written.last()["files"].size(), 2u);
  EXPECT_EQ(read_file(two / "m.onnx.data").size(), 4800u);
  for (Folder* each : {&one, &two}) ASSERT_EQ(weft({"import", *each / "m.onnx", "-o", *each / "m.entity"}).exit, 0);
  EXPECT_EQ(weft({"hash", one / "m.entity"}).out, weft({"hash", two / "m.entity"}).out);
  const auto refused = weft({"export", entity, "--format", "gguf", "--external-data", "-o", folder / "m.gguf"});
  EXPECT_EQ(refused.exit, 2);
  EXPECT_NE(refused.err.find("--external-data"), std::string::npos) << refused.err;
}

TEST(OnnxFiles, ShowWhatTheyHoldAndWhatCannotBeImported) {
  Folder folder;
  const std::string file = copied(folder, "conv");
  const Json told = weft({"inspect", file, "--json"}).last();
  EXPECT_EQ(told["kind"], "onnx");
  EXPECT_EQ(told["parameters"], 10);
  EXPECT_EQ(told["metadata"]["opset"], 17);
  EXPECT_EQ(told["metadata"]["inputs"], "x float32 [1, 1, 9]");
  EXPECT_EQ(told["metadata"]["operators.BatchNormalization"], 1);
  EXPECT_TRUE(told["warnings"].empty()) << told["warnings"];
  std::string bytes = read_file(file);
  bytes.replace(bytes.find("MaxPool"), 7, "MaxTool");
  write_file(file, bytes);
  const Json warned = weft({"inspect", file, "--json"}).last();
  ASSERT_EQ(warned["warnings"].size(), 1u);
  EXPECT_NE(warned["warnings"][0].get<std::string>().find("(MaxTool): no layer does it"), std::string::npos);
  EXPECT_NE(weft({"inspect", file}).out.find("ONNX"), std::string::npos);
  const auto refused = weft({"import", file, "-o", folder / "m.entity"});
  EXPECT_EQ(refused.exit, 3);
  EXPECT_TRUE(refused.err.starts_with("weft: error: " + file)) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "m.entity"));
}

TEST(OnnxFiles, TakeShapesAndPins) {
  Folder folder;
  const std::string file = copied(folder, "gemm"), out = folder / "m.entity";
  const auto import = [&](const Words& more) {
    Words words{"import", file, "-o", out};
    words.insert(words.end(), more.begin(), more.end());
    return weft(words);
  };
  EXPECT_EQ(import({"--shape", "x=1,2"}).exit, 0);
  for (const char* const wrong : {"x", "=1,2", "x=", "x=1,,2", "x=0", "x=1,-2"}) {
    const auto done = import({"--shape", wrong});
    EXPECT_EQ(done.exit, 2) << wrong;
    EXPECT_NE(done.err.find("--shape"), done.err.npos) << done.err;
  }
  EXPECT_EQ(import({"--pin", "x=y"}).exit, 2);
  EXPECT_NE(import({"--pin", "z=1"}).err.find("no input and no axis of one is named 'z'"), std::string::npos);
  EXPECT_NE(import({"--pin", "x=1"}).err.find("known before the network runs"), std::string::npos);
  EXPECT_EQ(import({"--tokens", "4"}).exit, 2);
  EXPECT_EQ(weft({"import", folder / "other", "-o", out, "--pin", "x=1"}).exit, 2) << "no ONNX file";
}

}  // namespace
}  // namespace weft::cli_test::onnx_test
