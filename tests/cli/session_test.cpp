// SPDX-License-Identifier: Apache-2.0
// Sessions out of one model's file and into another's.

#include "tests/cli/program.hpp"

namespace weft::cli_test::session_test {
namespace {

/// digits after some samples, with two sessions beside the one that was trained.
void save_sessions(const Folder& folder, const std::string& path) {
  const Outcome ran = weft({"run", kDigits, "--max-samples", "60", "--save", folder / "ran.entity", "--json"});
  ASSERT_EQ(ran.exit, 0) << ran.told();
  ASSERT_EQ(weft({"session", "detach", folder / "ran.entity", "--session", "0", "-o", folder / "first.session"}).exit,
            0);
  const Words attach{"session", "attach"};
  ASSERT_EQ(weft(attach + Words{folder / "ran.entity", folder / "first.session", "-o", folder / "two.entity"}).exit, 0);
  // Another one, new.
  ASSERT_EQ(weft({"session", "detach", kDigits, "--session", "0", "-o", folder / "started.session"}).exit, 0);
  const Outcome three =
      weft(attach + Words{folder / "two.entity", folder / "started.session", "--other-weights", "-o", path});
  ASSERT_EQ(three.exit, 0) << three.told();
}

std::string hash_of(const std::string& file) { return weft({"hash", file}).out; }

TEST(Session, GoesOutAndInAgain) {
  Folder folder;
  const std::string model = folder / "m.entity", file = folder / "s.session", out = folder / "out.entity";
  save_sessions(folder, model);
  const std::string before = read_file(model), hash = hash_of(model);
  const Outcome copied = weft({"session", "detach", model, "--session", "1", "-o", file, "--json"});
  ASSERT_EQ(copied.exit, 0) << copied.told();
  EXPECT_EQ(copied.last()["session"], 1);
  EXPECT_EQ(copied.last()["sessions"], 3);
  EXPECT_EQ(copied.last()["removed"], false);
  EXPECT_EQ(copied.last()["file_bytes"], std::filesystem::file_size(file));
  EXPECT_EQ(read_file(model), before) << "only a copy was asked for";

  const Outcome removed = weft({"session", "detach", model, "--session", "1", "-o", file, "--remove", "--json"});
  ASSERT_EQ(removed.exit, 0) << removed.told();
  EXPECT_EQ(removed.last()["sessions"], 2);
  EXPECT_EQ(hash_of(model), hash) << "session 0 did not notice";

  const Outcome attached = weft({"session", "attach", model, file, "-o", out, "--json"});
  ASSERT_EQ(attached.exit, 0) << attached.told();
  EXPECT_EQ(attached.last()["session"], 2);
  EXPECT_EQ(attached.last()["sessions"], 3);
  EXPECT_EQ(hash_of(out), hash);
  // It is the session that it was.
  const std::string again = folder / "again.session";
  ASSERT_EQ(weft({"session", "detach", out, "--session", "2", "-o", again}).exit, 0);
  EXPECT_EQ(read_file(again), read_file(file));
}

TEST(Session, MovesIntoAModelOfWeightsAlone) {
  Folder folder;
  const std::string model = folder / "m.entity", file = folder / "s.session", bare = folder / "w.entity",
                    out = folder / "out.entity", again = folder / "again.session";
  save_sessions(folder, model);
  ASSERT_EQ(weft({"session", "detach", model, "--session", "1", "-o", file}).exit, 0);
  ASSERT_EQ(weft({"morph", model, "--dtype", "float32", "--weights-only", "-o", bare}).exit, 0);
  const Outcome attached = weft({"session", "attach", bare, file, "-o", out, "--json"});
  ASSERT_EQ(attached.exit, 0) << attached.told();
  EXPECT_EQ(attached.last()["session"], 0);
  EXPECT_EQ(attached.last()["sessions"], 1);
  ASSERT_EQ(weft({"session", "detach", out, "--session", "0", "-o", again}).exit, 0);
  EXPECT_EQ(read_file(again).size(), read_file(file).size());
}

TEST(Session, RefusesWithBothSidesNamed) {
  Folder folder;
  const std::string model = folder / "m.entity", file = folder / "s.session", out = folder / "out.entity";
  save_sessions(folder, model);
  const auto refuses = [&](const Words& words, int exit, const Words& fragments) {
    const Outcome outcome = weft(words);
    EXPECT_EQ(outcome.exit, exit) << outcome.told();
    for (const std::string& fragment : fragments)
      EXPECT_NE(outcome.err.find(fragment), std::string::npos) << fragment << outcome.told();
  };
  const std::string before = read_file(model);
  refuses({"session", "detach", model, "--session", "0", "-o", file, "--remove"}, 3, {"session 0", "without --remove"});
  refuses({"session", "detach", model, "--session", "7", "-o", file}, 3, {"session 7 of 3"});
  refuses({"session", "detach", kDigits, "--session", "0", "-o", file, "--remove"}, 2, {"the last one"});
  refuses({"session", "detach", model, "--session", "1", "-o", model}, 2, {"--output"});
  refuses({"session", "detach", model, "-o", file}, 2, {"--session"});
  refuses({"session"}, 2, {"session"});
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(read_file(model), before);

  ASSERT_EQ(weft({"session", "detach", model, "--session", "1", "-o", file}).exit, 0);
  refuses({"session", "attach", model, model, "-o", out}, 3, {"no session alone"});
  ASSERT_EQ(weft({"morph", model, "--dtype", "int8", "-o", folder / "int8.entity"}).exit, 0);
  refuses({"session", "attach", folder / "int8.entity", file, "-o", out}, 2, {"run with the weights", "the mesh has"});
  EXPECT_FALSE(std::filesystem::exists(out));
  const Outcome allowed = weft({"session", "attach", folder / "int8.entity", file, "-o", out, "--other-weights"});
  EXPECT_EQ(allowed.exit, 0) << allowed.told();
  refuses({"session", "attach", source_path("examples/digits_gru.json"), file, "-o", folder / "x"}, 3,
          {"of network", "the mesh of network"});
}

}  // namespace
}  // namespace weft::cli_test::session_test
