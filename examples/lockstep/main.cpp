// SPDX-License-Identifier: Apache-2.0

// Two processes that exchange only inputs, predict, roll back, and stay the same to the bit. See README.md.

#include <sys/wait.h>

#include <unistd.h>

#include "game.hpp"
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {
namespace {

constexpr const char* kUsage =
    "lockstep --demo | --listen PORT|PATH | --connect PORT|PATH\n"
    "  --frames N   600   --seed S  1    --every N  20   frames from hash to hash\n"
    "  --latency L  3     --jitter J  6  frames that an input takes: L to L + J, at most 12\n"
    "  --quit-at F        the right side (or this one) drops dead at frame F\n"
    "  --stray-at F       the right side (or this one) plays something else than it says\n";

struct Command {
  enum class Way { demo, listen, connect } way = Way::demo;
  std::string place;
  Settings settings;
};

std::optional<Command> parse(int argc, char** argv) {
  Command command;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--demo") {
      command.way = Command::Way::demo;
      continue;
    }
    if (i + 1 == argc) return std::nullopt;
    const std::string_view value = argv[++i];
    if (flag == "--listen" || flag == "--connect") {
      command.way = flag == "--listen" ? Command::Way::listen : Command::Way::connect;
      command.place = value;
      continue;
    }
    Settings& s = command.settings;
    std::uint32_t* const number = flag == "--frames"     ? &s.frames
                                  : flag == "--seed"     ? &s.seed
                                  : flag == "--every"    ? &s.every
                                  : flag == "--latency"  ? &s.latency
                                  : flag == "--jitter"   ? &s.jitter
                                  : flag == "--quit-at"  ? &s.quit_at
                                  : flag == "--stray-at" ? &s.stray_at
                                                         : nullptr;
    if (!number) return std::nullopt;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *number);
    if (error != std::errc() || end != value.data() + value.size()) return std::nullopt;
  }
  if (command.settings.every == 0 || command.settings.frames > 1'000'000) return std::nullopt;
  return command;
}

int play(Side side, const Settings& settings, weft::Result<Link> link) {
  const auto told = [&]() -> weft::Status {
    WEFT_TRY(Link open, std::move(link));
    WEFT_TRY(Game game, Game::make(side, settings));
    WEFT_TRY(const Report report, game.play(open));
    std::printf("%s: %u frames, %u rollbacks, deepest %u, %u frames played again, hash %s, same as the other's\n",
                name(side), report.frames, report.rollbacks, report.deepest, report.played_again,
                to_string(report.hash).c_str());
    return {};
  };
  const weft::Status done = told();
  if (!done) std::fprintf(stderr, "lockstep: error: %s: %s\n", name(side), done.error().text().c_str());
  std::fflush(stdout);
  return done ? 0 : 1;
}

int demo(Settings settings) {
  auto ends = Link::pair();
  if (!ends) {
    std::fprintf(stderr, "lockstep: error: %s\n", ends.error().text().c_str());
    return 1;
  }
  std::fflush(stdout);
  const pid_t child = fork();
  if (child < 0) {
    std::perror("lockstep: error: fork");
    return 1;
  }
  // Each keeps one end only, so that it notices when the other is gone.
  if (child == 0) {
    { const Link not_mine = std::move(ends->first); }
    _exit(play(Side::right, settings, std::move(ends->second)));
  }
  { const Link not_mine = std::move(ends->second); }
  settings.quit_at = settings.stray_at = UINT32_MAX;
  const int left = play(Side::left, settings, std::move(ends->first));
  int status = 0;
  (void)waitpid(child, &status, 0);
  return left ? left : WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main_of(int argc, char** argv) {
  const auto command = parse(argc, argv);
  if (!command) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  switch (command->way) {
    case Command::Way::demo:
      return demo(command->settings);
    case Command::Way::listen:
      return play(Side::left, command->settings, Link::listen(command->place));
    case Command::Way::connect:
      return play(Side::right, command->settings, Link::connect(command->place));
  }
  return 2;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) { return lockstep::main_of(argc, argv); }
