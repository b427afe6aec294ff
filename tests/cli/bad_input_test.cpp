// SPDX-License-Identifier: Apache-2.0
// Whatever is wrong with a file or a flag: one line on stderr that names the place, nothing else, and the right exit
// code.

#include "tests/cli/program.hpp"
#include "tests/support/shared_data.hpp"

namespace weft::cli_test::bad_input_test {
namespace {

void expect_refused(const Words& arguments, int exit, const std::string& fragment) {
  const Outcome outcome = weft(arguments);
  std::string shown;
  for (const std::string& word : arguments) shown += word + " ";
  EXPECT_EQ(outcome.exit, exit) << shown << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("weft: error: ")) << shown << outcome.err;
  EXPECT_NE(outcome.err.find(fragment), std::string::npos)
      << shown << "should name " << fragment << ": " << outcome.err;
  EXPECT_EQ(outcome.out, "") << shown;
  const Outcome with_json = weft(arguments + Words{"--json"});
  EXPECT_EQ(with_json.exit, exit) << shown;
  ASSERT_EQ(with_json.events().size(), 1u) << shown << with_json.out;
  EXPECT_EQ(with_json.last()["event"], "error");
  EXPECT_EQ("weft: error: " + with_json.last()["text"].get<std::string>() + "\n", with_json.err);
}

TEST(Usage, IsRefusedWithExit2) {
  expect_refused({}, 2, "a verb is required");
  expect_refused({"fly"}, 2, "fly");
  expect_refused({"run"}, 2, "NETWORK");
  expect_refused({"run", kDigits, "--fast"}, 2, "--fast");
  expect_refused({"run", kDigits, "--rule", "hebb"}, 2, "backprop|gap|chain|fw_dtp|dfa");
  expect_refused({"run", kDigits, "--schedule", "never"}, 2, "settle|pipelined");
  expect_refused({"run", kDigits, "--executor", "omp"}, 2, "auto|resident|graph|deterministic");
  expect_refused({"run", kDigits, "--executor", "tbb"}, 2, "'tbb' is named 'resident' now");
  expect_refused({"run", kDigits, "--epochs", "0"}, 2, "--epochs");
  expect_refused({"run", kDigits, "--epochs", "-1"}, 2, "--epochs");
  expect_refused({"run", kDigits, "--epochs", "many"}, 2, "--epochs");
  expect_refused({"run", kDigits, "--seed", "-5"}, 2, "--seed");
  expect_refused({"run", kDigits, "--held-out", "1.5"}, 2, "--held-out");
  expect_refused({"run", kDigits, "--max-samples", "0"}, 2, "--max-samples");
  expect_refused({"run", kDigits, "--threads", "100000"}, 2, "--threads");
  expect_refused({"run", kDigits, "--resume"}, 2, "--checkpoint");
  expect_refused({"run", kDigits, "--checkpoint-every", "9"}, 2, "--checkpoint");
  for (const char* rate : {"0", "-1", "nan", "inf", "1e-9", "1e12", "fast", "", "60Hz", "0x10"})
    expect_refused({"run", kDigits, "--rate", rate}, 2, "--rate");
  expect_refused({"run", kDigits, "--overrun", "skip"}, 2, "--rate HZ");
  expect_refused({"run", kDigits, "--rate", "10", "--overrun", "hurry"}, 2, "skip|catch_up|stretch");
  expect_refused({"bench", "nothing"}, 2, "nothing");
}

TEST(Usage, ComesFromTheEnvironmentTooAndOnlyOfTheVerbAskedFor) {
  const Outcome refused = weft({"run", kDigits}, {{"WEFT_ARG_RULE", "hebb"}});
  EXPECT_EQ(refused.exit, 2);
  EXPECT_NE(refused.err.find("hebb"), std::string::npos) << refused.err;
  EXPECT_EQ(weft({"hash", kDigits}, {{"WEFT_ARG_RULE", "hebb"}}).exit, 0);
}

TEST(Usage, HelpAndVersionGoToStdout) {
  for (const Words& words : {Words{"--help"}, Words{"run", "--help"}, Words{"inspect", "--help"},
                             Words{"doctor", "--help"}, Words{"hash", "--help"}, Words{"bench", "--help"}}) {
    const Outcome help = weft(words);
    EXPECT_EQ(help.exit, 0) << words[0];
    EXPECT_NE(help.out.find("Usage: weft"), std::string::npos) << help.out;
    EXPECT_EQ(help.err, "");
  }
  const Outcome version = weft({"--version"});
  EXPECT_EQ(version.exit, 0);
  EXPECT_TRUE(version.out.starts_with("weft ")) << version.out;
}

TEST(Usage, RefusesAnInstructionSetThatIsNotThere) {
  const Outcome refused = weft({"hash", kDigits}, {{"WEFT_ISA", "mmx"}});
  EXPECT_EQ(refused.exit, 3);
  EXPECT_NE(refused.err.find("mmx"), std::string::npos) << refused.err;
}

/// One thing wrong with the digits network, and what the message has to name.
struct Flaw {
  const char* pointer;
  const char* value;  // JSON
  const char* names;
};

TEST(BadNetwork, IsRefusedWithExit3NamingThePlace) {
  Folder folder;
  const std::string file = folder / "flawed.json";
  for (const Flaw& flaw : std::initializer_list<Flaw>{
           {"/weft", "3", "weft"},
           {"/grid/x", "0", "grid"},
           {"/grid/x", "4294967295", "grid"},
           {"/grid/depth", "1", "grid.depth"},
           {"/layers/1/at", "[0,0,9,0]", "layers[1]"},
           {"/layers/1/at", "[0,0,0,0]", "layers[1]"},
           {"/layers/1/at", "[0,0,-1,0]", "layers[1].at[2]"},
           {"/layers/1/at", "[0,0,1]", "layers[1].at"},
           {"/layers/1/type", "\"sense\"", "sense"},
           {"/layers/1/out", "0", "layers[1].out"},
           {"/layers/1/out", "4000000000", "layers[1]"},
           {"/layers/1/dtype", "\"int9\"", "layers[1].dtype"},
           {"/layers/1/activation", "\"tan\"", "layers[1]"},
           {"/layers/1/depth", "3", "layers[1]"},
           {"/layers/0/from", "[\"pictures\"]", "pictures"},
           {"/layers/0/from", "[[0,5,0,0]]", "[0,5,0,0]"},
           {"/layers/0/combine", "\"add\"", "layers[0]"},
           {"/layers/0/combine", "\"glue\"", "layers[0].combine"},
           {"/outputs/digit", "[0,1,0,7]", "outputs.digit"},
           {"/inputs/pixels", "[63]", "digits.csv.gz: 64 values a sample; input 'pixels' takes 63"},
           {"/layers/2/out", "9", "the network's output has 9 values"},
           {"/learning/rule", "\"hebb\"", "learning.rule"},
           {"/learning/rate", "1", "learning.rate"},
           {"/learning/optimizer/lr", "\"fast\"", "learning.optimizer.lr"},
           {"/stream/csv", "\"nowhere.csv\"", "nowhere.csv"},
           {"/stream/held_out", "2", "stream.held_out"},
           {"/stream/drift/kind", "\"up\"", "stream.drift.kind"},
           {"/surprise", "1", "surprise"}}) {
    Json network = digits_json();
    network[Json::json_pointer(flaw.pointer)] = Json::parse(flaw.value);
    write_file(file, network.dump());
    SCOPED_TRACE(std::string(flaw.pointer) + " = " + flaw.value);
    expect_refused({"run", file, "--max-samples", "10"}, 3, flaw.names);
  }
}

TEST(BadNetwork, IsRefusedWhenTheTextIsNotJson) {
  Folder folder;
  const std::string file = folder / "flawed.json", good = digits_json().dump();
  const std::string deep(100000, '[');
  for (const auto& [text, names] : std::initializer_list<std::pair<std::string, std::string>>{
           {"", "flawed.json:1:1"},
           {"{", "flawed.json:1"},
           {good + "}", "flawed.json:1"},
           {good.substr(0, good.size() / 2), "flawed.json:1"},
           {deep, "deeper than 64"},
           {"{\"weft\": 2, \"weft\": 2}", "weft"},
           {"{\"weft\": 2, \"grid\": {\"x\": 1e999}}", "flawed.json:1"},
           {std::string("\xff\xfe", 2), "flawed.json:1"},
           {"[]", "object"},
           {"{}", "weft"}}) {
    write_file(file, text);
    SCOPED_TRACE(text.substr(0, 60));
    for (const char* verb : {"run", "inspect", "hash"}) expect_refused({verb, file}, 3, names);
  }
}

TEST(BadFile, IsCalledWhatItIs) {
  Folder folder;
  for (const auto& [name, text, words] : std::initializer_list<std::array<std::string, 3>>{
           {"part.gguf", std::string("GGUF\3\0\0\0", 8), "is no network but a GGUF file; weft import"},
           {"lfs.gguf", "version https://git-lfs.github.com/spec/v1\n", "is no network but a Git LFS pointer"},
           {"config.json", R"({"model_type": "llama"})", "is no network but a part of a model's folder"},
           {"model.index.json", R"({"weight_map": {}})", "is no network but a part of a model's folder"},
           {"tokenizer.json", R"({"added_tokens": []})", "is no network but a tokenizer; give it to weft tokenize"}}) {
    write_file(folder / name, text);
    expect_refused({"hash", folder / name}, 3, words);
    if (!name.ends_with("gguf") && name != "tokenizer.json") expect_refused({"inspect", folder / name}, 3, words);
  }
  expect_refused({"import", folder / "config.json", "-o", folder / "x.entity"}, 2, "give the folder that it is in");
  write_file(folder / "model.safetensors", "");
  expect_refused({"inspect", folder / "config.json"}, 3, "model.safetensors");
}

TEST(BadFile, IsNamed) {
  Folder folder;
  for (const char* verb : {"run", "inspect", "hash", "doctor"})
    expect_refused({verb, folder / "missing.json"}, 3, "missing.json");
  std::filesystem::create_directory(folder / "d");
  expect_refused({"inspect", folder / "d"}, 5, "/d");
  expect_refused({"run", kDigits, "--max-samples", "64", "--save", folder / "no/such/x.entity"}, 5, "no/such");
  write_file(folder / "occupied", "");
  expect_refused({"run", kDigits, "--max-samples", "64", "--checkpoint", folder / "occupied"}, 5, "occupied");
}

TEST(BadFile, DataAreRefusedByRow) {
  Folder folder;
  Json network = digits_json();
  network["inputs"]["pixels"] = {2};
  network["stream"]["csv"] = "data.csv";
  write_file(folder / "n.json", network.dump());
  for (const auto& [data, names] :
       std::initializer_list<std::pair<std::string, std::string>>{{"", "data.csv"},
                                                                  {"1,2,0\n1,2\n", "data.csv:2"},
                                                                  {"1,2,0\n1,x,0\n", "data.csv:2"},
                                                                  {"1,2,0\n1,2,0.5\n", "data.csv:2"}}) {
    write_file(folder / "data.csv", data);
    expect_refused({"run", folder / "n.json"}, 3, names);
  }
}

TEST(BadEntity, IsRefusedHoweverItWasCutOrFlipped) {
  Folder folder;
  const std::string good = folder / "good.entity", bad = folder / "bad.entity";
  ASSERT_EQ(weft({"run", kDigits, "--max-samples", "64", "--quiet", "--save", good}).exit, 0);
  const std::string bytes = read_file(good);
  ASSERT_GT(bytes.size(), 1000u);
  for (const std::size_t size :
       {std::size_t{6}, std::size_t{8}, std::size_t{31}, std::size_t{64}, bytes.size() / 2, bytes.size() - 1}) {
    write_file(bad, bytes.substr(0, size));
    expect_refused({"hash", bad}, 3, "bad.entity");
  }
  for (std::size_t i = 0; i < 24; ++i) {
    std::string flipped = bytes;
    const std::size_t at = 8 + i * (bytes.size() - 9) / 23;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << (i % 8)));
    write_file(bad, flipped);
    const Outcome outcome = weft({"hash", bad});
    EXPECT_EQ(outcome.exit, 3) << "byte " << at << ": " << outcome.out << outcome.err;
  }
}

TEST(BadOutput, IsAnyFileOfTheModelThatIsRead) {
  const std::string source = shared_data("language/families/llama");
  if (source.empty()) GTEST_SKIP() << "no ../shared/data";
  Folder folder;
  const std::string entity = folder / "m.entity", hf = folder / "hf", gguf = folder / "w.gguf";
  ASSERT_EQ(weft({"import", source, "-o", entity}).exit, 0);
  const Words sharded{"--shard-size", "120000", "--json"};
  const Outcome shards = weft(Words{"export", entity, "-o", hf} + sharded);
  const Outcome parts = weft(Words{"export", entity, "--format", "gguf", "-o", gguf} + sharded);
  ASSERT_EQ(parts.exit, 0) << parts.err;
  const auto second = [](const Outcome& made) { return made.last()["files"][1].get<std::string>(); };
  for (const auto& [model, out] :
       {std::pair(parts.last()["files"][0].get<std::string>(), second(parts)), std::pair(hf, second(shards)),
        std::pair(hf, hf + "/config.json"), std::pair(hf, hf + "/model.safetensors.index.json")}) {
    const std::string before = read_file(out);
    expect_refused({"import", model, "-o", out}, 2, out + ": is the file that is read, a file of MODEL, ");
    EXPECT_EQ(read_file(out), before);
  }
  // Files beside a model, and a second model that is read.
  EXPECT_EQ(weft({"import", hf, "-o", hf + "/m.entity"}).exit, 0);
  const std::string described = folder / "d.gguf";
  std::filesystem::copy(entity, described);
  expect_refused({"export", entity, "--model", described, "--format", "gguf", "-o", described}, 2,
                 "--model " + described);
  EXPECT_EQ(read_file(described), read_file(entity));
}

TEST(BadOutput, IsAFileThatNoModelIs) {
  Folder folder;
  const std::string graph = folder / "g.onnx", thesis = folder / "thesis.txt";
  write_file(graph, read_file(source_path("tests/data/fuzz/onnx/gemm")));
  write_file(thesis, "Chapter 1");
  expect_refused({"import", graph, "-o", thesis}, 5, thesis + ": is there, and is none of a model");
  EXPECT_EQ(read_file(thesis), "Chapter 1");
  EXPECT_EQ(weft({"import", graph, "-o", thesis, "--force"}).exit, 0);
  const Outcome again = weft({"import", graph, "-o", thesis});
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_NE(again.err.find(thesis + " replaces the .entity file that was there"), std::string::npos) << again.err;
  const std::string out = folder / "out.onnx";
  write_file(out, "Chapter 2");
  expect_refused({"export", thesis, "--format", "onnx", "-o", out}, 5, out + ": is there, and is none of a model");
  EXPECT_EQ(weft({"export", thesis, "--format", "onnx", "-o", out, "--force"}).exit, 0);
  expect_refused({"export", thesis, "--rank", "4", "-o", folder / "hf"}, 2, "--rank: adapters have one");
}

TEST(Stdout, IsMissedWhenItCannotBeWritten) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  const Outcome outcome = Process({"hash", kDigits}, {}, "/dev/full").wait();
  EXPECT_EQ(outcome.exit, 5);
  EXPECT_NE(outcome.err.find("stdout"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace weft::cli_test::bad_input_test
