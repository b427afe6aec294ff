// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <poll.h>

#include "tests/cli/program.hpp"
#include <optional>

namespace weft::cli_test {

/// The program with pipes for stdin and stdout.
class Conversation {
 public:
  explicit Conversation(Words arguments) {
    signal(SIGPIPE, SIG_IGN);  // of a program that ends before it has heard all
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_addopen(&actions, 2, (folder_ / "err").c_str(), O_WRONLY | O_CREAT, 0600);
    arguments.insert(arguments.begin(), program_path());
    auto environment = environment_with({});
    const int error =
        posix_spawn(&pid_, program_path(), &actions, nullptr, pointers(arguments).data(), pointers(environment).data());
    posix_spawn_file_actions_destroy(&actions);
    EXPECT_EQ(error, 0) << std::strerror(error);
    close(in[0]), close(out[1]);
    to_ = in[1], from_ = out[0];
  }
  ~Conversation() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      wait();
    }
    close(from_);
  }
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  /// False: nobody reads it any more.
  bool say(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t written = write(to_, text.data(), text.size());
      if (written <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
  }
  /// The next line; empty: none within half a minute, or the end.
  std::string hear() {
    for (;;) {
      if (const auto end = heard_.find('\n'); end != heard_.npos) {
        const std::string line = heard_.substr(0, end);
        heard_.erase(0, end + 1);
        return line;
      }
      pollfd one{from_, POLLIN, 0};
      char chunk[4096];
      if (poll(&one, 1, 30000) <= 0) return "";
      const ssize_t got = read(from_, chunk, sizeof chunk);
      if (got <= 0) return "";
      heard_.append(chunk, static_cast<std::size_t>(got));
    }
  }
  /// The next event of that name; null: the end.
  Json hear_event(const std::string& name) {
    for (std::string line = hear(); !line.empty(); line = hear())
      if (Json event = Json::parse(line); event["event"] == name) return event;
    return nullptr;
  }
  void send(int signal) const { kill(pid_, signal); }
  /// Closes the pipe and waits for the end; what had not been heard is in `out`.
  Outcome end() {
    close(std::exchange(to_, -1));
    Outcome outcome;
    char chunk[4096];
    for (ssize_t got = read(from_, chunk, sizeof chunk); got > 0; got = read(from_, chunk, sizeof chunk))
      heard_.append(chunk, static_cast<std::size_t>(got));
    outcome.out = heard_;
    outcome.exit = wait();
    outcome.err = read_file(folder_ / "err");
    return outcome;
  }

 private:
  int wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) == -1 && errno == EINTR) {
    }
    pid_ = -1;
    if (to_ >= 0) close(std::exchange(to_, -1));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  Folder folder_;
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string heard_;
};

}  // namespace weft::cli_test
