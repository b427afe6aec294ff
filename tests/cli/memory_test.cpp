// SPDX-License-Identifier: Apache-2.0
// Small files that ask for much: looked at at once, refused before anything is allocated, with both figures.

#include <sys/resource.h>

#include <unistd.h>

#include "tests/cli/program.hpp"
#include <algorithm>
#include <filesystem>
#include <fstream>

namespace weft::cli_test::memory_test {
namespace {

/// Bounds the address space of what is started while it exists.
class AddressSpace {
 public:
  explicit AddressSpace(rlim_t bytes) {
    getrlimit(RLIMIT_AS, &before_);
    const rlimit tight{std::min(before_.rlim_max, bytes), before_.rlim_max};
    setrlimit(RLIMIT_AS, &tight);
  }
  ~AddressSpace() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

/// A control group of its own with a limit of memory, in which this process and what it starts are while it exists.
class ControlGroup {
 public:
  explicit ControlGroup(std::uint64_t bytes) {
    std::ifstream membership("/proc/self/cgroup");
    for (std::string line; std::getline(membership, line);) {
      const std::size_t names = line.find(':') + 1, path = line.find(':', names) + 1;
      const bool is_first = line.substr(names, path - names - 1) == "memory", is_second = names == path - 1;
      if (!is_first && !is_second) continue;
      const std::filesystem::path root = is_first ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
      parent_ = root / line.substr(path + 1);
      group_ = parent_ / ("weft_test_" + std::to_string(getpid()));
      limit_ = group_ / (is_first ? "memory.limit_in_bytes" : "memory.max");
      std::error_code error;
      if (!std::filesystem::create_directory(group_, error)) continue;
      is_made_ = std::filesystem::exists(limit_) && put(limit_, std::to_string(bytes)) && enter(group_);
      if (is_made_) return;
      std::filesystem::remove(group_, error);
    }
  }
  ~ControlGroup() {
    if (!is_made_) return;
    EXPECT_TRUE(enter(parent_));
    std::error_code error;
    std::filesystem::remove(group_, error);
  }
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;
  /// False where this machine lets us make none.
  bool is_made() const { return is_made_; }
  std::string limit() const { return limit_.string(); }

 private:
  static bool put(const std::filesystem::path& file, const std::string& text) {
    return bool(std::ofstream(file) << text << std::flush);
  }
  static bool enter(const std::filesystem::path& group) {
    return put(group / "cgroup.procs", std::to_string(getpid()));
  }
  std::filesystem::path parent_, group_, limit_;
  bool is_made_ = false;
};

/// Address space for the program and some 10^5 layers.
constexpr rlim_t kLittle = rlim_t{1} << 30;

/// 16 GiB of weights in 150 bytes: 4,096 inputs of 1,048,576 neurons.
const std::string kHuge = R"({"weft": 2,"grid":{},"inputs":{"a":[4096]},"layers":[{"at":[0,0,0,0],"type":"dense",)"
                          R"("out":1048576}],"outputs":{"o":[0,0,0,0]}})";

std::string chain(std::size_t cells) {
  const std::string x = std::to_string(cells);
  return R"({"weft": 2,"name":"chain","grid":{"x":)" + x +
         R"(},"inputs":{"a":[2]},"layers":[{"repeat":{},"type":"dense",)" + R"("out":2}],"outputs":{"o":[0,0,)" +
         std::to_string(cells - 1) + R"(,0]},"learning":{},"stream":{"csv":"d.csv"}})";
}

TEST(Memory, OfASmallFileWithHugeWeightsIsToldWithoutDrawingThem) {
  Folder folder;
  write_file(folder / "n.json", kHuge);
  const AddressSpace bound(kLittle);  // in which no sixteenth of the weights has room
  const Outcome outcome = weft({"inspect", folder / "n.json", "--json"});
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  const Json d = outcome.last();
  // 2^32 weights and 2^20 biases of four bytes.
  EXPECT_EQ(d["weight_bytes"], (std::uint64_t{1} << 34) + (std::uint64_t{1} << 22));
  EXPECT_EQ(d["memory"]["run"]["weights"], (std::uint64_t{1} << 34) + (std::uint64_t{1} << 22));
  EXPECT_TRUE(d["state_hash"].is_null());
  EXPECT_NE(weft({"inspect", folder / "n.json"}).out.find("to run      "), std::string::npos);
}

TEST(Memory, ThatIsNotThereIsRefusedWithBothFigures) {
  Folder folder;
  write_file(folder / "n.json", kHuge);
  const AddressSpace bound(rlim_t{8} << 30);
  for (const Words& words : {Words{"hash", folder / "n.json"}, Words{"doctor", folder / "n.json"}}) {
    const Outcome outcome = weft(words);
    EXPECT_EQ(outcome.exit, 3) << outcome.err;
    for (const char* part : {"n.json: ", "weights 16.0 GiB", " are free (", "smaller"})
      EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " in:\n" << outcome.err;
  }
}

TEST(Memory, ThatAControlGroupHasNotIsRefusedWithBothFigures) {
  Folder folder;
  write_file(folder / "n.json", kHuge);
  const ControlGroup group(std::uint64_t{600} << 20);
  if (!group.is_made()) GTEST_SKIP() << "no control group of memory may be made here";
  for (const char* verb : {"hash", "doctor"}) {
    const Outcome outcome = weft({verb, folder / "n.json"});
    EXPECT_EQ(outcome.exit, 3) << outcome.err;
    for (const std::string& part :
         {std::string("needs 32.0 GiB of memory"), std::string(" of 600.0 MiB are free ("), "(" + group.limit() + ")"})
      EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " in:\n" << outcome.err;
  }
  // The machine and its limits are shown all the same.
  EXPECT_NE(weft({"doctor", folder / "n.json"}).out.find("600.0 MiB, "), std::string::npos);
  EXPECT_EQ(weft({"hash", kDigits}).exit, 0);
}

TEST(Memory, AboveTheGivenBoundIsRefused) {
  Folder folder;
  const Outcome refused = weft({"hash", kDigits, "--max-memory", "64KiB"});
  EXPECT_EQ(refused.exit, 3) << refused.err;
  EXPECT_NE(refused.err.find("64.0 KiB are allowed (max_memory)"), std::string::npos) << refused.err;
  EXPECT_EQ(weft({"hash", kDigits, "--max-memory", "1GiB"}).out, weft({"hash", kDigits}).out);
  EXPECT_EQ(weft({"hash", kDigits}, {{"WEFT_ARG_MAX_MEMORY", "64K"}}).exit, 3);
  for (const char* size : {"0", "-1", "nan", "1GB", "lots", ""}) {
    const Outcome wrong = weft({"hash", kDigits, "--max-memory", size});
    EXPECT_EQ(wrong.exit, 2) << size << wrong.err;
    EXPECT_NE(wrong.err.find("--max-memory"), std::string::npos) << wrong.err;
  }
}

TEST(Memory, IsBoundedInEveryVerbThatReadsAModel) {
  Folder folder;
  const std::string model = folder / "m.entity";
  ASSERT_EQ(weft({"run", kDigits, "--max-samples", "20", "--quiet", "--save", model}).exit, 0);
  write_file(folder / "d.csv", "0\n");
  ASSERT_EQ(weft({"session", "detach", model, "--session", "0", "-o", folder / "s.entity"}).exit, 0);
  for (const Words& words :
       {Words{"inspect", kDigits}, Words{"inspect", model}, Words{"hash", model}, Words{"doctor", kDigits},
        Words{"predict", model, "--data", folder / "d.csv"}, Words{"run", kDigits, "--max-samples", "1"},
        Words{"sweep", model}, Words{"morph", model, "--dtype", "int8", "-o", folder / "o.entity"},
        Words{"diff", model, model}, Words{"pack", model, "-o", folder / "o.entity"},
        Words{"session", "detach", model, "--session", "0", "-o", folder / "o.entity"},
        Words{"session", "attach", model, folder / "s.entity", "-o", folder / "o.entity"}}) {
    const Outcome refused = weft(words + Words{"--max-memory", "4K"});
    EXPECT_EQ(refused.exit, 3) << words[0] << ": " << refused.told();
    EXPECT_NE(refused.err.find("4.0 KiB are allowed"), std::string::npos) << words[0] << ": " << refused.err;
    EXPECT_FALSE(std::filesystem::exists(folder / "o.entity")) << words[0];
  }
  EXPECT_EQ(weft({"inspect", kDigits, "--max-memory", "1GiB"}).exit, 0);
}

TEST(Memory, OfALearnersHistoryIsAskedForBeforeItIsAllocated) {
  Folder folder;
  write_file(folder / "n.json", chain(10000));
  write_file(folder / "d.csv", "a,b,y\n0,0,0\n0,1,1\n1,0,1\n1,1,0\n");
  // A new sample every tick: the first layer's activation waits 20,000 ticks for its error, in each of 10,000 layers.
  const Outcome outcome =
      weft({"run", folder / "n.json", "--schedule", "pipelined", "--quiet", "--max-memory", "2GiB"});
  EXPECT_EQ(outcome.exit, 3) << outcome.err;
  for (const char* part : {"learning", "history ", "2.0 GiB are allowed"})
    EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " in:\n" << outcome.err;
  // A chain that errors travel back a little way through is small.
  Json network = Json::parse(chain(10000));
  network["learning"]["horizon"] = 4;
  network["learning"]["hold"] = 16;
  write_file(folder / "n.json", network.dump());
  EXPECT_EQ(weft({"run", folder / "n.json", "--quiet", "--max-memory", "2GiB"}).exit, 0);
}

TEST(Memory, OfASettledChainIsLinearInItsDepth) {
  Folder folder;
  write_file(folder / "d.csv", "a,b,y\n0,0,0\n0,1,1\n1,0,1\n1,1,0\n");
  std::vector<std::uint64_t> learn;
  for (const std::size_t cells : {2500, 5000, 10000}) {
    write_file(folder / "n.json", chain(cells));
    const Outcome shown = weft({"inspect", folder / "n.json", "--json"});
    ASSERT_EQ(shown.exit, 0) << shown.err;
    learn.push_back(shown.last()["memory"]["learn"]["history"].get<std::uint64_t>());
  }
  EXPECT_LT(learn[1], 2 * learn[0] + 4096);
  EXPECT_LT(learn[2], 2 * learn[1] + 4096);
  // A ring of all ticks would take 1.6 GB.
  write_file(folder / "n.json", chain(3000));
  const AddressSpace bound(kLittle);
  const Outcome ran =
      weft({"run", folder / "n.json", "--max-samples", "1", "--held-out", "0", "--threads", "2", "--quiet"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
}

TEST(Memory, OfMoreLayersThanFitIsRefusedBeforeTheyAreMade) {
  Folder folder;
  write_file(folder / "n.json", chain(16000000));
  const AddressSpace bound(kLittle);
  const Outcome outcome = weft({"inspect", folder / "n.json"});
  EXPECT_EQ(outcome.exit, 3) << outcome.err;
  EXPECT_NE(outcome.err.find("16000000 layers"), std::string::npos) << outcome.err;
}

TEST(Inspect, OfManyCellsAndPortsTakesMemoryForThemAlone) {
  Folder folder;
  write_file(folder / "chain.json", chain(100000));
  Json ports{{"weft", 2}, {"grid", Json::object()}, {"outputs", {{"o", {0, 0, 0, 0}}}}};
  Json names = Json::array();
  std::string inputs;
  for (int i = 0; i < 50000; ++i) {
    const std::string port = "p" + std::to_string(i);
    names.push_back(port);
    inputs += (i ? ",\"" : "\"") + port + "\":[1]";
  }
  ports["layers"] = {{{"at", {0, 0, 0, 0}}, {"type", "dense"}, {"out", 2}, {"from", names}}};
  std::string text = ports.dump();
  text.insert(1, "\"inputs\":{" + inputs + "},");
  write_file(folder / "ports.json", text);
  // A bit for each pair of cells would not fit.
  const AddressSpace bound(kLittle);
  for (const char* name : {"chain.json", "ports.json"}) {
    const Outcome outcome = weft({"inspect", folder / name});
    ASSERT_EQ(outcome.exit, 0) << outcome.err;
  }
  const std::string shown = weft({"inspect", folder / "chain.json"}).out;
  EXPECT_NE(shown.find("[0,0,0,0] to [0,0,99999,0], 100,000 alike"), std::string::npos) << shown.substr(0, 2000);
  EXPECT_NE(weft({"inspect", folder / "ports.json"}).out.find("50,000 inputs to o: 1 to 1 ticks"), std::string::npos);
}

TEST(Hash, OfARepeatedNetworkIsThatOfTheSameWrittenOut) {
  Folder folder;
  Json written = Json::parse(chain(30));
  written["layers"] = Json::array();
  for (int x = 0; x < 30; ++x) written["layers"].push_back({{"at", {0, 0, x, 0}}, {"type", "dense"}, {"out", 2}});
  write_file(folder / "short.json", chain(30));
  write_file(folder / "long.json", written.dump());
  EXPECT_EQ(weft({"hash", folder / "short.json"}).out, weft({"hash", folder / "long.json"}).out);
}

}  // namespace
}  // namespace weft::cli_test::memory_test
