// SPDX-License-Identifier: Apache-2.0
// The program on a terminal of its own: what it draws never reaches the last column, so nothing wraps.

#include <sys/ioctl.h>

#include <pty.h>

#include "tests/cli/program.hpp"
#include <cerrno>
#include <cstring>

namespace weft::cli_test {
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
  for (const char* wanted : {"acc ", "labels permuted", "held out", "prequential", "recovery", "state hash", "ticks"})
    EXPECT_NE(out.find(wanted), std::string::npos) << wanted << " in:\n" << out;
  const std::string hash = weft(kRun + Words{"--json"}).last()["state_hash"];
  EXPECT_NE(out.find(hash), std::string::npos) << out;
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
  EXPECT_NE(outcome.err.find("smp/s"), std::string::npos) << "progress goes to stderr";
  EXPECT_NE(outcome.out.find("held out"), std::string::npos) << "results go to stdout";
  EXPECT_EQ(outcome.out.find("smp/s"), std::string::npos);
  EXPECT_EQ(weft(kRun + Words{"--quiet"}).err, "");
}

TEST_F(Terminal, TablesBecomeListsWhenTooWide) {
  EXPECT_LE(widest(on_terminal({"inspect", kDigits}, 60, kXterm)), 60u);
  EXPECT_NE(on_terminal({"inspect", kDigits}, 100, kXterm).find("activation  dtype"), std::string::npos);
}

}  // namespace
}  // namespace weft::cli_test
