// SPDX-License-Identifier: Apache-2.0
// The program on a terminal of its own: what it draws never reaches the last column, so nothing wraps.

#include <sys/ioctl.h>

#include <pty.h>

#include "tests/cli/program.hpp"
#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft::cli_test::terminal_test {
namespace {

/// Skipped where there are no pseudo terminals: a container without /dev/pts, or all of them in use.
class Terminal : public ::testing::Test {
 protected:
  void SetUp() override {
    int master = -1, slave = -1;
    if (openpty(&master, &slave, nullptr, nullptr, nullptr) != 0)
      GTEST_SKIP() << "no pseudo terminal here: " << std::strerror(errno);
    close(slave);
    close(master);
  }
};

/// Runs the program on a pseudo terminal (all three streams) and returns all that it wrote.
std::string on_terminal(Words arguments, unsigned short columns, const Environment& more) {
  winsize size{24, columns, 0, 0};
  int master = -1;
  arguments.insert(arguments.begin(), program_path());
  auto environment = environment_with(more);
  const auto words = pointers(arguments), variables = pointers(environment);
  const pid_t child = forkpty(&master, nullptr, nullptr, &size);
  if (child < 0) {
    ADD_FAILURE() << "no pseudo terminal to run on: " << std::strerror(errno);
    return {};
  }
  if (child == 0) {
    execve(program_path(), words.data(), variables.data());
    _exit(127);
  }
  std::string out;
  char chunk[4096];
  for (ssize_t n; (n = read(master, chunk, sizeof chunk)) > 0;) out.append(chunk, static_cast<std::size_t>(n));
  close(master);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << out;
  return out;
}

/// The rightmost column written, counted from 1.
std::size_t widest(const std::string& text) {
  std::size_t column = 0, most = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '\r' || c == '\n')
      column = 0;
    else if (c == 0x1b) {
      while (i + 1 < text.size() && !std::isalpha(static_cast<unsigned char>(text[++i]))) {
      }
    } else if ((c & 0xC0) != 0x80) {
      most = std::max(most, ++column);
    }
  }
  return most;
}

const Words kRun{"run", kDigits, "--max-samples", "4000"};
const Environment kXterm{{"TERM", "xterm-256color"}, {"LC_ALL", "C.UTF-8"}};

TEST_F(Terminal, NeverWrapsAtAnyWidth) {
  for (const unsigned short columns : {20, 40, 60, 80, 200}) {
    const std::string out = on_terminal(kRun, columns, kXterm);
    EXPECT_LT(widest(out), columns) << out;
    EXPECT_NE(out.find("\x1b[K"), std::string::npos) << "a redrawn line is expected";
    EXPECT_NE(out.find("100 %"), std::string::npos);
  }
}

TEST_F(Terminal, ShowsEverythingThatCountsOn40Columns) {
  const std::string out = on_terminal(kRun, 40, kXterm);
  for (const char* wanted :
       {"accuracy ", "labels permuted", "held out", "prequential", "recovery", "state hash", "ticks"})
    EXPECT_NE(out.find(wanted), std::string::npos) << wanted << " in:\n" << out;
  const std::string hash = weft(kRun + Words{"--json"}).last()["state_hash"];
  EXPECT_NE(out.find(hash), std::string::npos) << out;
}

// An agent that acts: its returns as a curve.
TEST_F(Terminal, DrawsReturnsAndNeverWraps) {
  const Words live{"live", source_path("examples/cartpole.json"), "--steps", "1500", "--threads", "1"};
  for (const unsigned short columns : {20, 60, 100}) {
    const std::string out = on_terminal(live, columns, kXterm);
    EXPECT_NE(out.find("\x1b[K"), std::string::npos) << "a redrawn line is expected";
    EXPECT_NE(out.find("return"), std::string::npos) << out;
    const std::size_t curve = out.find("curve       ");
    ASSERT_NE(curve, std::string::npos) << out;
    const std::string line = out.substr(curve, out.find_first_of("\r\n", curve) - curve);
    EXPECT_GE(widest(line), 12u + 4u) << out;
    EXPECT_LT(widest(line), columns) << out;
  }
}

TEST_F(Terminal, HasNoEscapesWhenDumb) {
  const std::string out = on_terminal(kRun, 40, {{"TERM", "dumb"}});
  EXPECT_EQ(out.find('\x1b'), std::string::npos) << out;
  EXPECT_LT(widest(out), 40u) << out;
  for (std::size_t at = out.find('\r'); at != out.npos; at = out.find('\r', at + 1))
    ASSERT_TRUE(at + 1 < out.size() && (out[at + 1] == '\n' || out[at + 1] == '\r')) << "redrawn at " << at;
  for (const char c : out) ASSERT_LT(static_cast<unsigned char>(c), 128) << "not a UTF-8 locale";
}

TEST_F(Terminal, HasNoColoursWhenAskedNotTo) {
  Environment plain = kXterm;
  plain["NO_COLOR"] = "1";
  const std::string out = on_terminal(kRun, 80, plain);
  EXPECT_EQ(out.find("\x1b[1m"), std::string::npos);
  EXPECT_NE(out.find("\x1b[K"), std::string::npos) << "redrawing is no colour";
  EXPECT_NE(on_terminal(kRun, 80, kXterm).find("\x1b[1m"), std::string::npos);
}

TEST(WithoutTerminal, PrintsPlainLines) {
  const Outcome outcome = weft(kRun);
  ASSERT_EQ(outcome.exit, 0);
  for (const std::string* text : {&outcome.out, &outcome.err}) {
    EXPECT_EQ(text->find('\x1b'), std::string::npos);
    EXPECT_EQ(text->find('\r'), std::string::npos);
  }
  EXPECT_NE(outcome.err.find("  samples "), std::string::npos) << "progress goes to stderr";
  EXPECT_NE(outcome.out.find("held out"), std::string::npos) << "results go to stdout";
  EXPECT_EQ(outcome.out.find("%  accuracy "), std::string::npos);
  EXPECT_EQ(weft(kRun + Words{"--quiet"}).err, "");
}

/// Texts that were drawn as one line each, to be drawn over: "\r" TEXT "\x1b[K".
std::vector<std::string> drawn_lines(const std::string& out) {
  std::vector<std::string> lines;
  for (std::size_t at = out.find('\r'); at != out.npos; at = out.find('\r', at + 1)) {
    const std::size_t end = out.find("\x1b[K", at);
    if (end != out.npos && end > at + 1 && out.find_first_of("\r\n", at + 1) > end)
      lines.push_back(out.substr(at + 1, end - at - 1));
  }
  return lines;
}

/// That progress was drawn, in lines that begin with `words`, and taken away before the results.
void expect_progress(const std::string& out, const std::string& words) {
  const auto lines = drawn_lines(out);
  EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [&](const std::string& line) { return line.starts_with(words); }))
      << words << " in:\n"
      << out;
  EXPECT_NE(out.find("\r\x1b[K"), out.npos) << "the line is still there:\n" << out;
}

// The first line is drawn at once, so none of these depends on how long the work takes.
TEST_F(Terminal, ShowsProgressOfInspectSweepAndReplay) {
  expect_progress(on_terminal({"inspect", kDigits}, 80, kXterm), "reading ");

  const Folder folder;
  ASSERT_EQ(
      weft({"run", kDigits, "--max-samples", "500", "--save", folder / "m.entity", "--state", folder / "agent"}).exit,
      0);
  expect_progress(on_terminal({"sweep", folder / "m.entity", "--seconds", "0.001"}, 80, kXterm), "float32, 1 of ");
  expect_progress(on_terminal({"replay", folder / "agent", "--verify"}, 80, kXterm), "tick ");
}

TEST_F(Terminal, ShowsNoProgressWhereItCannotDrawIt) {
  const std::string out = on_terminal({"inspect", kDigits}, 80, {{"TERM", "dumb"}});
  EXPECT_TRUE(drawn_lines(out).empty()) << out;
  EXPECT_EQ(out.find("reading "), out.npos) << out;
}

TEST_F(Terminal, TablesBecomeListsWhenTooWide) {
  EXPECT_LE(widest(on_terminal({"inspect", kDigits}, 60, kXterm)), 60u);
  EXPECT_NE(on_terminal({"inspect", kDigits}, 100, kXterm).find("activation  dtype"), std::string::npos);
}

}  // namespace
}  // namespace weft::cli_test::terminal_test
