// SPDX-License-Identifier: Apache-2.0
// Running with all weights in one numeric type.

#include "tests/cli/dtypes.hpp"

namespace weft::cli_test::dtype_test {
namespace {

TEST(RunDtype, IsTheSameOnEveryThreadCountAndInstructionSet) {
  const Json doctor = weft({"doctor", "--json"}).last();
  for (const char* dtype : {"float64", "bfloat16", "fp8_e4m3", "fp4", "int16", "int8", "uint4", "ternary", "binary"}) {
    const Words run{"run", kDigits, "--json", "--max-samples", "120", "--dtype", dtype};
    const Json expected = weft(run + Words{"--threads", "1"}).last();
    ASSERT_EQ(expected["event"], "done") << dtype << " " << expected;
    EXPECT_EQ(weft(run + Words{"--threads", "2"}).last()["state_hash"], expected["state_hash"]) << dtype;
    for (const std::string isa : doctor["isa"]["available"])
      EXPECT_EQ(weft(run, {{"WEFT_ISA", isa}}).last()["state_hash"], expected["state_hash"]) << dtype << " " << isa;
  }
}

TEST(RunDtype, GivesAllMatricesTheTypeAndLearnsThroughIt) {
  Folder folder;
  save_digits(folder / "m.entity", {"--dtype", "int4", "--granularity", "channel", "--activations", "float"});
  for (std::size_t i = 0; i < 4; ++i) {
    const Json seen = layer(folder / "m.entity", i);
    EXPECT_EQ(seen["dtype"], "int4");
    EXPECT_EQ(seen["granularity"], "channel");
    EXPECT_EQ(seen["activations"], "float");
    EXPECT_TRUE(seen["qat"]);
    EXPECT_TRUE(seen["learns"]);
    EXPECT_GT(seen["matrices"][0]["rmse"], 0.0) << "the stored weights are not the masters";
  }
}

TEST(RunDtype, EndsTheSameWhenKilledAndResumed) {
  for (const char* dtype : {"int8", "binary", "fp8_e5m2"}) {
    Folder folder;
    const Words run{"run", kDigits, "--json", "--max-samples", "1500", "--dtype", dtype};
    const Json whole = weft(run).last();
    const Words kept = run + Words{"--checkpoint", folder / "c", "--checkpoint-every", "100"};
    Process killed(kept);
    // Until the second checkpoint stands, or the end: then resuming says the result again.
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!killed.has_ended() && !std::filesystem::exists(folder / "c/ckpt-200/manifest.json") &&
           std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    killed.send(SIGKILL);
    killed.wait();
    const Outcome resumed = weft(kept + Words{"--resume", "--threads", "1"});
    ASSERT_EQ(resumed.exit, 0) << dtype << resumed.told();
    EXPECT_FALSE(resumed.events().front()["resumed_at"].is_null()) << dtype;
    EXPECT_EQ(resumed.last()["state_hash"], whole["state_hash"]) << dtype;
    const Outcome other = weft({"run", kDigits, "--max-samples", "1500", "--checkpoint", folder / "c", "--resume"});
    EXPECT_EQ(other.exit, 2);
    EXPECT_NE(other.err.find("layers[0].dtype: \"" + std::string(dtype) + "\" there"), std::string::npos) << other.err;
  }
}

TEST(RunDtype, RefusesWhatSaysNothing) {
  expect_refused({"run", kDigits, "--dtype", "itn8"}, 2, "'itn8' is none of float64|float32");
  expect_refused({"run", kDigits, "--granularity", "tensor"}, 2, "--dtype");
  expect_refused({"run", kDigits, "--activations", "float"}, 2, "--dtype");
  expect_refused({"run", kDigits, "--dtype", "float16", "--granularity", "tensor"}, 2, "float16 has no scales");
}

}  // namespace
}  // namespace weft::cli_test::dtype_test
