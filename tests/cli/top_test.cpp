// SPDX-License-Identifier: Apache-2.0
// A running agent seen through its socket, by weft top and by clients that mean no good.

#include <sys/stat.h>

#include <pty.h>

#include "tests/cli/agent.hpp"
#include <cstdio>
#include <map>
#include <memory>
#include <sstream>

namespace weft::cli_test::top_test {
namespace {

using std::chrono::milliseconds;

const std::string kGet = "{\"get\":\"statistics\"}\n";

TEST(Top, ShowsARunningAgentOnceAsTextAndAsJson) {
  Folder folder;
  Process agent(endless(folder / "c"));
  wait_for_progress(agent);
  const Outcome text = weft({"top", folder / "c", "--once"});
  ASSERT_EQ(text.exit, 0) << text.told();
  for (const char* word : {"digits", "running", "samples", "ticks", "accuracy", "cells", "4 running", "faults", "none",
                           "busiest", "memory", "checkpoint"})
    EXPECT_NE(text.out.find(word), std::string::npos) << word << "\n" << text.told();
  EXPECT_EQ(text.out.find('\x1b'), std::string::npos) << "no terminal, so plain lines";

  const Outcome json = weft({"top", socket_in(folder / "c"), "--once", "--json"});
  ASSERT_EQ(json.exit, 0) << json.told();
  ASSERT_EQ(json.events().size(), 1u);
  const Json statistics = json.last();
  EXPECT_EQ(statistics["weft_top"], 2);
  EXPECT_EQ(statistics["network"], "digits");
  EXPECT_EQ(statistics["phase"], "running");
  EXPECT_GT(statistics["ticks"], 0);
  EXPECT_GT(statistics["ticks_per_second"], 0.0);
  EXPECT_EQ(statistics["cells"]["running"], 4);
  EXPECT_EQ(statistics["faults"]["threw"], 0);
  EXPECT_GT(statistics["memory"]["resident"], statistics["memory"]["weights"]);
  EXPECT_TRUE(statistics["checkpoint"].is_null());
  ASSERT_FALSE(statistics["busiest"].empty());
  double all = 0;
  for (const Json& cell : statistics["busiest"]) all += cell["share"].get<double>();
  EXPECT_GT(all, 0.0);
  EXPECT_LE(all, 1.0 + 1e-9);
}

TEST(Top, TellsHowEachLayerLearns) {
  Folder folder;
  Process agent(endless(folder / "c"));
  wait_for_progress(agent);
  const Outcome csv = weft({"top", folder / "c", "--once", "--csv"});
  ASSERT_EQ(csv.exit, 0) << csv.told();
  std::istringstream lines(csv.out);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "tick,z,y,x,layer,error,budget,update,relative_update,error_age,weight,dormant");
  // Pipelined: twice as many ticks as links to the output.
  std::map<std::string, int> ages{{"0,0,0,0", 4}, {"0,0,1,0", 2}, {"0,1,0,0", 0}, {"0,1,1,0", 6}};
  while (std::getline(lines, line)) {
    int tick, z, y, x, l, age;
    double error, budget, update, relative, weight, dormant;
    ASSERT_EQ(std::sscanf(line.c_str(), "%d,%d,%d,%d,%d,%lf,%lf,%lf,%lf,%d,%lf,%lf", &tick, &z, &y, &x, &l, &error,
                          &budget, &update, &relative, &age, &weight, &dormant),
              12)
        << line;
    EXPECT_GE(dormant, 0.0);
    EXPECT_LT(dormant, 0.5);
    char at[64];
    std::snprintf(at, sizeof at, "%d,%d,%d,%d", z, y, x, l);
    ASSERT_TRUE(ages.contains(at)) << line;
    EXPECT_EQ(age, ages[at]) << line;
    EXPECT_GT(error, 0.0);
    EXPECT_GT(weight, 0.0);
    EXPECT_GE(budget, 0.0);
    EXPECT_LE(budget, 1.0);
    ages.erase(at);
  }
  EXPECT_TRUE(ages.empty()) << csv.out;
  EXPECT_EQ(weft({"top", folder / "c", "--csv", "--json"}).exit, 2);
}

TEST(Top, SaysWhenTheLastCheckpointWasWrittenAndFollowsUntilTheAgentGoes) {
  Folder folder;
  Process agent(endless(folder / "c") + Words{"--checkpoint-every", "1000"});
  while (!agent.has_ended() && agent.out_so_far().find("\"checkpoint\"") == std::string::npos)
    std::this_thread::sleep_for(milliseconds(1));
  Process top({"top", folder / "c", "--json", "--interval", "0.1"});
  const auto lines = [&] {
    const std::string out = top.out_so_far();
    return std::count(out.begin(), out.end(), '\n');
  };
  while (!top.has_ended() && lines() < 3) std::this_thread::sleep_for(milliseconds(5));
  const std::string socket = socket_in(folder / "c");
  agent.send(SIGTERM);
  const Outcome stopped = agent.wait();
  EXPECT_EQ(stopped.exit, 143) << stopped.told();
  const Outcome seen = top.wait();
  EXPECT_EQ(seen.exit, 0) << seen.told();
  EXPECT_NE(seen.err.find("the agent has gone"), std::string::npos) << seen.err;
  const auto events = seen.events();
  ASSERT_GE(events.size(), 3u);
  const Json saved = events[1]["checkpoint"];
  ASSERT_TRUE(saved.is_object()) << events[1];
  EXPECT_EQ(saved["samples"].get<std::uint64_t>() % 1000, 0u);
  EXPECT_GT(saved["bytes"], 0);
  EXPECT_GT(saved["pause_seconds"], 0.0);
  EXPECT_GE(events.back()["ticks"], events.front()["ticks"]);
  EXPECT_FALSE(std::filesystem::exists(socket)) << "removed at the end";
  EXPECT_FALSE(std::filesystem::exists(folder / "c/top.path")) << "removed at the end";
}

// A data directory is copied with any tool, after a kill too; a socket in it is what many of them stop at.
TEST(Top, LeavesPlainFilesAloneInTheDirectoryOfAKilledAgent) {
  Folder folder;
  std::string socket;
  {
    Process agent(endless(folder / "c"));
    wait_for_progress(agent);
    socket = socket_in(folder / "c");
    agent.send(SIGKILL);
    agent.wait();
  }
  for (const auto& each : std::filesystem::recursive_directory_iterator(folder / "c"))
    EXPECT_TRUE(each.is_regular_file() || each.is_directory()) << each.path();
  EXPECT_EQ(weft({"top", folder / "c", "--once"}).exit, 3) << "nobody listens";
  // The same command takes the place of the socket that was left behind.
  Process again(endless(folder / "c") + Words{"--resume"});
  wait_for_progress(again);
  EXPECT_EQ(socket_in(folder / "c"), socket);
  EXPECT_EQ(weft({"top", folder / "c", "--once"}).exit, 0);
}

TEST(Top, FindsASocketThatWasGivenToo) {
  Folder folder;
  Process agent(endless(folder / "c") + Words{"--socket", folder / "here.sock"});
  wait_for_progress(agent);
  EXPECT_EQ(socket_in(folder / "c"), folder / "here.sock");
  EXPECT_EQ(weft({"top", folder / "c", "--once"}).exit, 0);
}

TEST(Top, WaitsForAnAgentWhenAskedAndElseSaysThatThereIsNone) {
  Folder folder;
  const Outcome none = weft({"top", folder / "c"});
  EXPECT_EQ(none.exit, 3) << none.told();
  EXPECT_NE(none.err.find("--wait"), std::string::npos) << none.err;
  Process top({"top", folder / "c", "--wait", "--once"});
  Process agent(endless(folder / "c"));
  const Outcome seen = top.wait();
  EXPECT_EQ(seen.exit, 0) << seen.told();
  EXPECT_NE(seen.out.find("digits"), std::string::npos) << seen.told();
}

TEST(Top, EndsOnASignalWithoutAnError) {
  Folder folder;
  Process agent(endless(folder / "c"));
  wait_for_progress(agent);
  Process top({"top", folder / "c", "--json"});
  while (!top.has_ended() && top.out_so_far().empty()) std::this_thread::sleep_for(milliseconds(1));
  top.send(SIGINT);
  const Outcome ended = top.wait();
  EXPECT_EQ(ended.exit, 0) << ended.told();
  EXPECT_EQ(ended.err, "");
}

TEST(TopSocket, IsPrivateAndTakesThePlaceOfAStaleOneOnly) {
  Folder folder;
  const std::string path = folder / "s";
  {
    Process killed(endless(folder / "a") + Words{"--socket", path});
    wait_for_progress(killed);
    struct stat made {};
    ASSERT_EQ(stat(path.c_str(), &made), 0);
    EXPECT_EQ(made.st_mode & 0777, 0600u);
    EXPECT_TRUE(S_ISSOCK(made.st_mode));
    const Outcome second = weft(endless(folder / "b") + Words{"--socket", path});
    EXPECT_EQ(second.exit, 5) << second.told();
    EXPECT_NE(second.err.find("another process listens there"), std::string::npos) << second.err;
    EXPECT_TRUE(Client(path).is_connected()) << "the first one's is left alone";
    killed.send(SIGKILL);
    killed.wait();
  }
  EXPECT_TRUE(std::filesystem::exists(path)) << "left behind by a killed process";
  Process next(endless(folder / "d") + Words{"--socket", path});
  wait_for_progress(next);
  Client client(path);
  ASSERT_TRUE(client.send(kGet));
  EXPECT_EQ(client.read()["network"], "digits");
}

TEST(TopSocket, ThatCannotBeMadeIsAnErrorWhenAskedForAndAWarningWhenNot) {
  Folder folder;
  const std::string longer = folder / std::string(120, 'x');
  const Outcome asked = weft({"run", kDigits, "--max-samples", "50", "--socket", longer});
  EXPECT_EQ(asked.exit, 2) << asked.told();
  EXPECT_NE(asked.err.find("107"), std::string::npos) << asked.err;
  const Outcome unasked = weft({"run", kDigits, "--quiet", "--max-samples", "50", "--checkpoint", longer});
  EXPECT_EQ(unasked.exit, 0) << unasked.told();
  EXPECT_EQ(unasked.err.find("weft top cannot"), std::string::npos) << "its socket is elsewhere: " << unasked.err;
  const Outcome nowhere = weft({"run", kDigits, "--quiet", "--max-samples", "50", "--checkpoint", folder / "c"},
                               {{"RUNTIME_DIRECTORY", folder / "none"}});
  EXPECT_EQ(nowhere.exit, 0) << nowhere.told();
  EXPECT_NE(nowhere.err.find("weft top cannot look at this run"), std::string::npos) << nowhere.err;
  write_file(folder / "file", "precious");
  const Outcome occupied = weft({"run", kDigits, "--max-samples", "50", "--socket", folder / "file"});
  EXPECT_EQ(occupied.exit, 5) << occupied.told();
  EXPECT_EQ(read_file(folder / "file"), "precious");
}

TEST(TopSocket, AnswersErrorsAndClosesWhereTheyAreMade) {
  Folder folder;
  Process agent(endless(folder / "c"));
  wait_for_progress(agent);
  for (const std::string& bad :
       {std::string("what\n"), std::string("[1]\n"), std::string("{}\n"), std::string("{\"get\":\"weights\"}\n"),
        std::string("{\"subscribe\":0}\n"), std::string("{\"subscribe\":1e999}\n"), std::string("\xff\xfe\n"),
        std::string(4096, 'a'), std::string(200, '[') + "\n", "{\"get\":\"" + std::string(3000, 'x') + "\"}\n"}) {
    Client client(socket_in(folder / "c"));
    ASSERT_TRUE(client.send(bad));
    const Json answer = client.read();
    ASSERT_TRUE(answer.is_object() && answer.contains("error")) << bad.substr(0, 40) << ": " << answer;
    EXPECT_TRUE(client.read().is_null()) << bad.substr(0, 40);
  }
  Client client(socket_in(folder / "c"));
  ASSERT_TRUE(client.send("{\"get\":") && client.send("\"statistics\"}\n" + kGet)) << "in pieces, and two at once";
  EXPECT_EQ(client.read()["weft_top"], 2);
  EXPECT_EQ(client.read()["weft_top"], 2);
}

TEST(TopSocket, IsNotHeldUpByClientsThatDoNotReadNorByTooMany) {
  Folder folder;
  Process agent(endless(folder / "c"));
  wait_for_progress(agent);
  const std::string path = socket_in(folder / "c");
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 6; ++i) {
    idle.push_back(std::make_unique<Client>(path));
    ASSERT_TRUE(idle.back()->send("{\"subscribe\":0.1}\n"));  // and never read
  }
  // One that asks without end and reads nothing: it is cut off, or its own sends wait; nobody else is.
  Client flood(path);
  std::string many;
  for (int i = 0; i < 200; ++i) many += kGet;
  for (int i = 0; i < 50; ++i)
    if (send(flood.descriptor(), many.data(), many.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
  Client patient(path);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(patient.send(kGet));
    ASSERT_EQ(patient.read()["weft_top"], 2);
  }
  // Eight are served; once there are so many the next is told.
  std::vector<std::unique_ptr<Client>> more;
  bool was_refused = false;
  for (int i = 0; i < 9 && !was_refused; ++i) {
    more.push_back(std::make_unique<Client>(path));
    more.back()->send(kGet);
    const Json answer = more.back()->read();
    was_refused = answer.is_object() && answer.contains("error");
  }
  EXPECT_TRUE(was_refused);
  ASSERT_TRUE(patient.send(kGet));
  EXPECT_EQ(patient.read()["weft_top"], 2) << "those that were there are still served";
  more.clear();
  idle.clear();
  agent.send(SIGTERM);
  EXPECT_EQ(agent.wait().exit, 143);
}

TEST(TopSocket, ChangesNothingThatIsComputed) {
  Folder folder;
  const Words run{"run", kDigits, "--json", "--max-samples", "12000"};
  const Json expected = weft(run).last()["state_hash"];
  Process agent(run + Words{"--socket", folder / "s"});
  while (!agent.has_ended() && !std::filesystem::exists(folder / "s")) std::this_thread::sleep_for(milliseconds(1));
  Client client(folder / "s");
  client.send("{\"subscribe\":0.1}\n");
  const Outcome watched = agent.wait();
  ASSERT_EQ(watched.exit, 0) << watched.told();
  EXPECT_EQ(watched.last()["state_hash"], expected);
}

/// weft top on a pseudo terminal of `columns`; `q` is pressed once it has drawn.
std::string on_terminal(const std::string& place, unsigned short columns) {
  winsize size{24, columns, 0, 0};
  int master = -1;
  Words arguments{program_path(), "top", place, "--interval", "0.1"};
  auto environment = environment_with({{"TERM", "xterm-256color"}, {"LC_ALL", "C.UTF-8"}});
  const auto words = pointers(arguments), variables = pointers(environment);
  const pid_t child = forkpty(&master, nullptr, nullptr, &size);
  if (child < 0) return {};
  if (child == 0) {
    execve(program_path(), words.data(), variables.data());
    _exit(127);
  }
  std::string out;
  char chunk[4096];
  bool has_asked = false;
  for (ssize_t n; (n = read(master, chunk, sizeof chunk)) > 0;) {
    out.append(chunk, static_cast<std::size_t>(n));
    if (has_asked || out.find("checkpoint") == std::string::npos) continue;
    has_asked = write(master, "q", 1) == 1;
  }
  close(master);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << out;
  return out;
}

TEST(Top, RedrawsInPlaceFitsEveryWidthAndLeavesOnQ) {
  int master = -1, slave = -1;
  if (openpty(&master, &slave, nullptr, nullptr, nullptr) != 0) GTEST_SKIP() << "no pseudo terminal here";
  close(slave), close(master);
  Folder folder;
  Process agent(endless(folder / "c"));
  wait_for_progress(agent);
  for (const unsigned short columns : {20, 40, 80, 200}) {
    const std::string out = on_terminal(folder / "c", columns);
    EXPECT_NE(out.find("\x1b[?1049h"), std::string::npos) << "a page of its own";
    EXPECT_NE(out.find("\x1b[?1049l"), std::string::npos) << "and the shell's again";
    EXPECT_NE(out.find("\x1b[H"), std::string::npos);
    std::size_t column = 0, widest = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto c = static_cast<unsigned char>(out[i]);
      if (c == '\r' || c == '\n')
        column = 0;
      else if (c == 0x1b)
        while (i + 1 < out.size() && !std::isalpha(static_cast<unsigned char>(out[++i]))) {
        }
      else if ((c & 0xC0) != 0x80)
        widest = std::max(widest, ++column);
    }
    EXPECT_LT(widest, columns) << out;
  }
}

}  // namespace
}  // namespace weft::cli_test::top_test
