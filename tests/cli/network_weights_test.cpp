// SPDX-License-Identifier: Apache-2.0
// Weights alone, for a network that is there.

#include "tests/cli/program.hpp"

namespace weft::cli_test::network_weights_test {
namespace {

const std::string kWeights = source_path("tests/data/models/state_dicts/sequential.safetensors");

/// The network that the weights are of; `out`: what its last layer gives.
std::string network(const Folder& folder, int out = 4) {
  const std::string path = folder / "net.json";
  write_file(path, R"({"weft": 2, "name": "net", "inputs": {"x": [6]}, "grid": {"z": 4}, "outputs": {"y": [3, 0, 0, 0]},
      "layers": [{"at": [0, 0, 0, 0], "type": "dense", "out": 10, "activation": "relu"},
                 {"at": [1, 0, 0, 0], "type": "layer_norm"},
                 {"at": [2, 0, 0, 0], "type": "dense", "out": 10, "activation": "relu"},
                 {"at": [3, 0, 0, 0], "type": "dense", "out": )" +
                       std::to_string(out) + "}]}");
  return path;
}

TEST(NetworkWeights, GoIntoANetworkFileOrAnEntity) {
  Folder folder;
  const std::string chain = folder / "chain.entity", out = folder / "m.entity", again = folder / "n.entity";
  ASSERT_EQ(weft({"import", kWeights, "--activation", "relu", "-o", chain}).exit, 0);
  const auto made = weft({"import", kWeights, "--network", network(folder), "-o", out, "--json"});
  ASSERT_EQ(made.exit, 0) << made.err;
  EXPECT_EQ(made.last()["family"], "4 layers");
  EXPECT_EQ(made.last()["parameters"], 6 * 10 + 10 + 20 + 110 + 44);
  const auto of_entity = weft({"import", kWeights, "--network", chain, "-o", again});
  ASSERT_EQ(of_entity.exit, 0) << of_entity.err;
  EXPECT_EQ(weft({"hash", again}).out, weft({"hash", chain}).out);
  EXPECT_EQ(weft({"hash", out}).out, weft({"hash", chain}).out);
  const auto smaller =
      weft({"import", kWeights, "--network", chain, "--dtype", "int8", "--force", "-o", again, "--json"});
  ASSERT_EQ(smaller.exit, 0) << smaller.err;
}

TEST(NetworkWeights, ThatDoNotFitLeaveWhatIsThere) {
  Folder folder;
  const std::string out = folder / "m.entity", net = network(folder, 5);
  write_file(out, "");
  const auto refused = weft({"import", kWeights, "--network", net, "-o", out});
  EXPECT_EQ(refused.exit, 3) << refused.told();
  for (const char* part : {"[3,0,0,0]: dense (weight [5, 10], bias [5]): no tensors of the file fit",
                           "'5.weight' [4, 10], '5.bias' [4]: no layer has just these weights"})
    EXPECT_NE(refused.err.find(part), std::string::npos) << refused.err;
  EXPECT_EQ(read_file(out), "");
  write_file(out, "my notes");
  EXPECT_EQ(weft({"import", kWeights, "--network", network(folder), "-o", out}).exit, 5) << "no model, and no --force";
  EXPECT_EQ(read_file(out), "my notes");
  EXPECT_EQ(weft({"import", kWeights, "--network", network(folder), "--force", "-o", out}).exit, 0);
}

TEST(NetworkWeights, RefuseNonsense) {
  Folder folder;
  const std::string out = folder / "m.entity", net = network(folder);
  const auto expect = [&](const Words& more, const std::string& part) {
    Words words{"import", kWeights, "-o", out, "--network"};
    words.insert(words.end(), more.begin(), more.end());
    const auto done = weft(words);
    EXPECT_NE(done.exit, 0) << part;
    EXPECT_NE(done.err.find(part), std::string::npos) << done.err;
    EXPECT_FALSE(std::filesystem::exists(out));
  };
  expect({folder / "none.json"}, "none.json");
  expect({kWeights}, "is no network but a safetensors file");
  write_file(folder / "bad.json",
             R"({"weft": 2, "inputs": {"x": [6]}, "grid": {"z": 1}, "outputs": {"y": [0, 0, 0, 0]},
      "layers": [{"at": [0, 0, 0, 0], "type": "attention", "heads": 4}]})");
  expect({folder / "bad.json"}, "weft: error: " + folder / "bad.json");
  expect({net, "--shape", "x=6"}, "the network of --network says these");
  expect({net, "--activation", "relu"}, "the network of --network says these");
  expect({net, "--heads", "2"}, "the network of --network says these");
  expect({net, "--order", "0,2,3"}, "does not say where '5' is");
  expect({net, "--pin", "x=1"}, "--pin");
  const auto other = weft({"import", source_path("tests/data/fuzz/onnx/gemm"), "--network", net, "-o", out});
  EXPECT_NE(other.err.find("--network is for a safetensors file alone"), std::string::npos) << other.err;
  const auto onto = weft({"import", kWeights, "--network", net, "--force", "-o", net});
  EXPECT_NE(onto.exit, 0) << onto.told();
  EXPECT_TRUE(read_file(net).starts_with("{"));
}

}  // namespace
}  // namespace weft::cli_test::network_weights_test
