// SPDX-License-Identifier: Apache-2.0
// Derivatives of the past are saved with the rest: the same end wherever it is killed, and in the journal's replay.

#include "tests/cli/data_directory.hpp"

namespace weft::cli_test::forward_memory_test {
namespace {

void expect_same_end(const char* layers, const char* epochs, const char* every) {
  Json network = Json::parse(R"({"weft": 2, "inputs": {"pixels": [64]},
    "learning": {"rule": "backprop", "schedule": "pipelined", "optimizer": {"type": "adamw", "lr": 0.002}},
    "stream": {"scale": 0.0625}})");
  network["chain"] = Json::parse(layers);
  network["stream"]["csv"] = source_path("examples/data/digits.csv.gz");
  const Folder folder;
  write_file(folder / "n.json", network.dump());
  const Words run{"run", folder / "n.json", "--json", "--quiet", "--epochs", epochs, "--threads", "2"};
  expect_same_end_after_kills(run, folder / "data", every, {"state_hash"});
}

TEST(ForwardMemory, EndsTheSameAfterKills) {
  expect_same_end(R"([{"type": "diagonal", "out": 48, "activation": "tanh"}, {"type": "dense", "out": 10}])", "60",
                  "4000");
}

TEST(ForwardMemory, OfGatedCellsEndsTheSameAfterKills) {
  expect_same_end(R"([{"type": "gru", "out": 20, "through_time": "snap1"},
                      {"type": "lstm", "out": 16, "through_time": "eprop"}, {"type": "dense", "out": 10}])",
                  "12", "1500");
}

}  // namespace
}  // namespace weft::cli_test::forward_memory_test
