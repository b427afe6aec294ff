// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "tests/cli/agent.hpp"
#include <algorithm>
#include <optional>
#include <random>
#include <string>

namespace weft::cli_test {

/// A run of the digits that a test sees the end of.
inline const Words kDigitsRun{"run", kDigits, "--json", "--quiet", "--max-samples", "20000"};

inline Words run_in(const std::string& directory) { return kDigitsRun + Words{"--state", directory}; }

/// The lines of stdout that were written whole: a process that is killed may leave half a one.
inline std::vector<Json> whole_events(const std::string& out) {
  std::vector<Json> found;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);)
    if (Json event = Json::parse(line, nullptr, false); !event.is_discarded()) found.push_back(std::move(event));
  return found;
}

/// The last event of that name; null without one.
inline Json last_event(const std::string& out, const std::string& name) {
  Json found;
  for (const Json& event : whole_events(out))
    if (event["event"] == name) found = event;
  return found;
}

/// State hash of the same run when nothing interrupts it and nothing is saved.
inline std::string uninterrupted_run() {
  static const Outcome run = weft(kDigitsRun);
  EXPECT_EQ(run.exit, 0) << run.told();
  return run.exit == 0 ? run.last()["state_hash"] : Json("no run");
}

inline void expect_uninterrupted_run(const Outcome& run, const std::string& where = "") {
  ASSERT_EQ(run.exit, 0) << where << run.told();
  EXPECT_EQ(run.last()["state_hash"], uninterrupted_run()) << where << run.told();
}

/// Last tick that the output acknowledged as durable.
inline std::uint64_t acknowledged_tick(const std::string& out) {
  std::uint64_t tick = 0;
  for (const Json& event : whole_events(out))
    if (event.contains("acknowledged_tick")) tick = std::max(tick, event["acknowledged_tick"].get<std::uint64_t>());
  return tick;
}

/// Starts a run that `signal` stops between its first sample and its last; each attempt in a data directory of its own.
inline Outcome stopped_run(int signal, const Folder& folder, std::string& directory, const Words& more = {}) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    directory = folder / ("agent" + std::to_string(attempt));
    Process process(run_in(directory) + more);
    wait_for_progress(process);
    process.send(signal);
    Outcome outcome = process.wait();
    if (outcome.exit != 0) return outcome;
  }
  ADD_FAILURE() << "twenty runs ended before their signal came";
  return {};
}

/// The file in `directory` whose name begins so and is the last in the order of the numbers in it.
inline std::string newest_in(const std::string& directory, const std::string& prefix) {
  std::string newest;
  for (const auto& each : std::filesystem::directory_iterator(directory)) {
    const std::string name = each.path().filename();
    if (!name.starts_with(prefix)) continue;
    const auto order = [](const std::string& text) { return std::pair(text.size(), text); };
    if (newest.empty() || order(name) > order(newest)) newest = name;
  }
  return directory + "/" + newest;
}

inline void flip_middle_byte(const std::string& path) {
  std::string bytes = read_file(path);
  ASSERT_GT(bytes.size(), 100u) << path;
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x10);
  write_file(path, bytes);
}

/// Runs `run`, and again with its state in `directory` but killed four times at random moments, there with a checkpoint
/// every `every` samples: both have the same `keys` in their last event, and the journal replays.
inline void expect_same_end_after_kills(const Words& run, const std::string& directory, const std::string& every,
                                        std::initializer_list<const char*> keys) {
  const Outcome whole = weft(run);
  ASSERT_EQ(whole.exit, 0) << whole.told();
  std::mt19937 random(std::random_device{}());
  const Words kept = run + Words{"--state", directory, "--checkpoint-every", every, "--durability", "interval=20ms"};
  for (int kills = 0; kills < 4; ++kills) {
    Process process(kept);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20 + random() % 150);
    while (!process.has_ended() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    process.send(SIGKILL);
    process.wait();
  }
  const Outcome last = weft(kept);
  ASSERT_EQ(last.exit, 0) << last.told();
  for (const char* const key : keys) EXPECT_EQ(last.last()[key], whole.last()[key]) << key;
  const Outcome replayed = weft({"replay", directory, "--verify", "--json"});
  EXPECT_EQ(replayed.exit, 0) << replayed.told();
}

}  // namespace weft::cli_test
