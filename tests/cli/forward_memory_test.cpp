// SPDX-License-Identifier: Apache-2.0
// Derivatives of the past are saved with the rest: the same end wherever it is killed, and in the journal's replay.

#include "tests/cli/data_directory.hpp"

namespace weft::cli_test::forward_memory_test {
namespace {

TEST(ForwardMemory, EndsTheSameAfterKills) {
  Json network = Json::parse(R"({"weft": 2, "inputs": {"pixels": [64]},
    "chain": [{"type": "diagonal", "out": 48, "activation": "tanh"}, {"type": "dense", "out": 10}],
    "learning": {"rule": "backprop", "schedule": "pipelined", "optimizer": {"type": "adamw", "lr": 0.002}},
    "stream": {"scale": 0.0625}})");
  network["stream"]["csv"] = source_path("examples/data/digits.csv.gz");
  const Folder folder;
  write_file(folder / "n.json", network.dump());
  const Words run{"run", folder / "n.json", "--json", "--quiet", "--epochs", "60", "--threads", "2"};
  expect_same_end_after_kills(run, folder / "data", "4000", {"state_hash"});
}

}  // namespace
}  // namespace weft::cli_test::forward_memory_test
