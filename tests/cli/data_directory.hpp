// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "tests/cli/agent.hpp"
#include <algorithm>
#include <cstdlib>
#include <iostream>
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

/// The last event of that name that was written whole; null without one. The name is the first in an event.
inline Json last_event(const std::string& out, const std::string& name) {
  const std::string begin = "{\"event\":\"" + name + "\"";
  for (std::size_t at = out.rfind(begin); at != std::string::npos; at = at == 0 ? at - 1 : out.rfind(begin, at - 1)) {
    Json event = Json::parse(out.substr(at, out.find('\n', at) - at), nullptr, false);
    if (!event.is_discarded()) return event;
  }
  return {};
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

/// Draws that differ from run to run. Their seed is told; WEFT_TEST_SEED gives it again.
inline std::mt19937 told_draws() {
  const char* const given = std::getenv("WEFT_TEST_SEED");
  const auto seed = given ? static_cast<std::uint32_t>(std::stoul(given)) : std::random_device{}();
  std::cout << "moments of the kills: WEFT_TEST_SEED=" << seed << std::endl;
  return std::mt19937(seed);
}

/// Kills the program as soon as an event `name` tells a `key` of at least `least`: 128 + SIGKILL is its exit then, and
/// 0 where it ended before.
inline Outcome killed_at(const Words& words, const std::string& name, const std::string& key, std::uint64_t least) {
  Process process(words);
  const auto is_there = [&] {
    const Json event = last_event(process.out_so_far(), name);
    return !event.is_null() && event[key].get<std::uint64_t>() >= least;
  };
  while (!process.has_ended() && !is_there()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  process.send(SIGKILL);
  return process.wait();
}

/// Runs `run`, and again with its state in a directory whose name begins with `directory`, killed at four samples drawn
/// over the run, there with a checkpoint every `every` samples: all have the same `keys` in their last event, and the
/// journal replays. Goes on in a new directory until four kills came in time and a run went on from midway.
inline void expect_same_end_after_kills(const Words& run, const std::string& directory, const std::string& every,
                                        std::initializer_list<const char*> keys) {
  constexpr int kKills = 4, kDirectories = 6;
  const Outcome whole = weft(run);
  ASSERT_EQ(whole.exit, 0) << whole.told();
  const std::uint64_t samples = last_event(whole.out, "start")["samples"];
  std::mt19937 random = told_draws();
  int kills = 0, from_midway = 0;
  const auto count_midway = [&](const Outcome& outcome) {
    const Json found = last_event(outcome.out, "found");
    from_midway += !found.is_null() && found["samples"] > 0 && found["samples"] < samples;
  };
  for (int place = 0; kills < kKills || from_midway == 0; ++place) {
    ASSERT_LT(place, kDirectories) << kills << " kills before the end, " << from_midway << " runs gone on with midway";
    const std::string kept_in = directory + std::to_string(place);
    const Words kept = run + Words{"--state", kept_in, "--checkpoint-every", every, "--durability", "interval=20ms"};
    for (std::uint64_t part = 0; part < kKills; ++part) {
      // One in each fifth, none in the last.
      const Outcome killed = killed_at(kept, "progress", "samples", samples * (part * 100 + random() % 100) / 500);
      count_midway(killed);
      if (killed.exit == 0) break;
      ASSERT_EQ(killed.exit, 128 + SIGKILL) << killed.told();
      ++kills;
    }
    const Outcome last = weft(kept);
    ASSERT_EQ(last.exit, 0) << last.told();
    count_midway(last);
    for (const char* const key : keys) EXPECT_EQ(last.last()[key], whole.last()[key]) << key;
    const Outcome replayed = weft({"replay", kept_in, "--verify", "--json"});
    EXPECT_EQ(replayed.exit, 0) << replayed.told();
  }
}

}  // namespace weft::cli_test
