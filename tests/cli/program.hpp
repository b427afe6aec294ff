// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include "tests/support/source_path.hpp"
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

extern char** environ;

namespace weft::cli_test {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

inline const std::string kDigits = source_path("examples/digits.json");

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
}

/// The program under test.
const char* program_path();

/// A directory of a test's own, gone when it ends.
class Folder {
 public:
  Folder() {
    std::string path = std::filesystem::temp_directory_path() / "weft-cli-XXXXXX";
    if (!mkdtemp(path.data())) ADD_FAILURE() << "mkdtemp " << path;
    path_ = path;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Ours without WEFT_... and what decides how a terminal looks, with `more` set.
inline std::vector<std::string> environment_with(const Environment& more) {
  std::vector<std::string> out;
  for (char** each = environ; *each; ++each) {
    const std::string text = *each;
    const std::string name = text.substr(0, text.find('='));
    if (name.starts_with("WEFT_") || name == "NO_COLOR" || name == "TERM" || name == "COLUMNS" || name == "LANG" ||
        name.starts_with("LC_") || more.contains(name))
      continue;
    out.push_back(text);
  }
  for (const auto& [name, value] : more) out.push_back(name + "=" + value);
  return out;
}

inline std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

struct Outcome {
  int exit = -1;  // 128 + signal when killed
  std::string out, err;
  /// The lines of stdout as JSON.
  std::vector<Json> events() const {
    std::vector<Json> found;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) found.push_back(Json::parse(line));
    return found;
  }
  Json last() const {
    const auto all = events();
    return all.empty() ? Json() : all.back();
  }
  /// All that is known, for the message of a failed expectation.
  std::string told() const { return "exit " + std::to_string(exit) + "\nstderr:\n" + err + "\nstdout:\n" + out; }
};

/// The program, running.
class Process {
 public:
  explicit Process(Words arguments, const Environment& more = {}, const std::string& stdout_path = "") {
    out_ = stdout_path.empty() ? folder_ / "out" : stdout_path;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out_.c_str(), O_WRONLY | O_CREAT, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, (folder_ / "err").c_str(), O_WRONLY | O_CREAT, 0600);
    arguments.insert(arguments.begin(), program_path());
    auto environment = environment_with(more);
    pid_t child = -1;
    const int error = posix_spawn(&child, program_path(), &actions, nullptr, pointers(arguments).data(),
                                  pointers(environment).data());
    posix_spawn_file_actions_destroy(&actions);
    if (error == 0)
      pid_ = child;
    else  // such as ETXTBSY, when a build writes the program anew while its tests run
      ADD_FAILURE() << "cannot start " << program_path() << ": " << std::strerror(error);
  }
  ~Process() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    reap();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Nothing without a process: kill(-1) would reach all that we may signal.
  void send(int signal) const {
    if (pid_ > 0) kill(pid_, signal);
  }
  bool has_ended() const {
    siginfo_t info{};
    return pid_ <= 0 || waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid == pid_;
  }
  std::string out_so_far() const { return read_file(out_); }
  std::string err_so_far() const { return read_file(folder_ / "err"); }
  Outcome wait() {
    if (pid_ <= 0) return {};
    const int status = reap();
    // Only a file of ours is read: a device given in its place may have no end.
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            out_ == folder_ / "out" ? read_file(out_) : std::string(), read_file(folder_ / "err")};
  }

 private:
  int reap() {
    int status = 0;
    while (waitpid(pid_, &status, 0) == -1 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

  Folder folder_;
  std::string out_;
  pid_t pid_ = -1;
};

inline Outcome weft(Words arguments, const Environment& more = {}) {
  return Process(std::move(arguments), more).wait();
}

inline Words operator+(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// The digits network as JSON, its data named by full path, for a test to change.
inline Json digits_json() {
  Json network = Json::parse(read_file(kDigits));
  network["stream"]["csv"] = source_path("examples/data/digits.csv.gz");
  return network;
}

inline const std::string kCartPole = source_path("examples/cartpole.json");

/// That network with smaller layers, at `path`.
inline std::string small_agent(const std::string& path, const std::string& example = kCartPole) {
  Json network = Json::parse(read_file(example));
  for (Json& layer : network["layers"])
    for (Json& inner : layer["layers"])
      if (inner.contains("out") && inner["out"] == 128) inner["out"] = 16;
  write_file(path, network.dump());
  return path;
}

}  // namespace weft::cli_test
