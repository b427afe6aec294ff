// SPDX-License-Identifier: Apache-2.0
// Messages to a service manager, received by a socket that plays one.

#include "tests/cli/agent.hpp"

namespace weft::cli_test::notify_test {
namespace {

/// systemd's end of NOTIFY_SOCKET.
class Manager {
 public:
  explicit Manager(const std::string& path) : socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const auto [address, size] = socket_address(path);
    EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&address), size), 0) << std::strerror(errno);
    const timeval timeout{60, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  }
  ~Manager() { close(socket_); }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  /// The next datagram; empty: none for a minute.
  std::string read() const {
    char text[4096];
    const ssize_t got = recv(socket_, text, sizeof text, 0);
    return got > 0 ? std::string(text, static_cast<std::size_t>(got)) : std::string();
  }
  /// Reads on to the first one that has `line`.
  std::string read_to(const std::string& line) const {
    std::string text;
    do text = read();
    while (!text.empty() && ("\n" + text + "\n").find("\n" + line) == std::string::npos);
    return text;
  }

 private:
  int socket_;
};

void expect_notifications(const std::string& address, const Folder& folder) {
  const Manager manager(address);
  Process agent(endless(folder / "c"), {{"NOTIFY_SOCKET", address}, {"WATCHDOG_USEC", "400000"}});
  const std::string ready = manager.read();
  EXPECT_EQ(ready.find("READY=1\nSTATUS=running, "), 0u) << ready;
  EXPECT_EQ(manager.read_to("WATCHDOG=1"), "WATCHDOG=1");
  const std::string status = manager.read_to("STATUS=running");
  EXPECT_NE(status.find(", ticks "), std::string::npos) << status;
  EXPECT_EQ(manager.read_to("WATCHDOG=1"), "WATCHDOG=1");
  agent.send(SIGHUP);  // reload: no log here, so nothing happens
  EXPECT_EQ(manager.read_to("WATCHDOG=1"), "WATCHDOG=1");
  agent.send(SIGTERM);
  EXPECT_EQ(manager.read_to("STOPPING=1").find("STOPPING=1\nSTATUS=stopping, "), 0u);
  EXPECT_EQ(agent.wait().exit, 143);
}

TEST(Notify, TellsReadyStatusHeartbeatsAndStopping) {
  Folder folder;
  expect_notifications(folder / "notify", folder);
}

TEST(Notify, SpeaksToAbstractSockets) {
  Folder folder;
  expect_notifications("@weft-test-" + std::to_string(getpid()), folder);
}

TEST(Notify, SendsNoHeartbeatsUnasked) {
  Folder folder;
  const Manager manager(folder / "notify");
  // Meant for another process: a parent that passed its environment on.
  const Words run{"run", kDigits, "--json", "--max-samples", "2000"};
  const Outcome ran =
      weft(run, {{"NOTIFY_SOCKET", folder / "notify"}, {"WATCHDOG_USEC", "1000"}, {"WATCHDOG_PID", "1"}});
  EXPECT_EQ(ran.exit, 0) << ran.told();
  std::string all;
  for (std::string text = "x"; text.find("STOPPING=1") == std::string::npos && !text.empty(); all += text + "\n")
    text = manager.read();
  EXPECT_NE(all.find("READY=1"), std::string::npos) << all;
  EXPECT_EQ(all.find("WATCHDOG=1"), std::string::npos) << all;
}

TEST(Notify, RunsOnWithoutAManagerOrWithOneThatIsGone) {
  Folder folder;
  const Words run{"run", kDigits, "--json", "--max-samples", "200"};
  for (const std::string& address :
       {folder / "nobody", std::string("@"), std::string("vsock:2:1"), std::string(300, '/')})
    EXPECT_EQ(weft(run, {{"NOTIFY_SOCKET", address}, {"WATCHDOG_USEC", "soon"}}).exit, 0) << address;
}

}  // namespace
}  // namespace weft::cli_test::notify_test
