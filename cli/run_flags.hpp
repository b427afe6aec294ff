// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/encoding_flags.hpp"
#include "cli/table_flags.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace weft::cli {

/// Network and samples of `weft run`; an empty option leaves the value in the file.
struct SampleFlags {
  std::string file, data;
  std::string follow;  // a directory or a socket; empty: none
  std::optional<std::string> format, bad_rows;
  bool answers = false;
  std::string validation, test;  // files; empty: the network's
  TableFlags table;
};

struct LearningFlags {
  std::optional<std::string> rule, schedule;
  std::optional<double> lr;
  std::optional<std::uint64_t> learners, sessions;
  EncodingFlags encoding;
  std::optional<std::string> activations;
  std::optional<std::uint64_t> epochs, seed;
  std::string section;              // a file with the section "learning"; empty: the network's
  std::vector<std::string> freeze;  // places of layers
};

/// Threads, device, clock and length of a run.
struct PaceFlags {
  std::size_t threads = 0;
  std::uint64_t max_memory = 0;  // bytes; 0: no bound but the machine's
  std::string device;            // empty: the network's
  std::string executor = "auto";
  std::optional<double> rate;          // samples a second; none: as fast as they go
  std::optional<std::string> overrun;  // of scheduler::Overrun
  std::optional<double> held_out;
  std::optional<std::uint64_t> max_samples;
};

struct StorageFlags {
  std::string save, checkpoint, matrix;
  std::optional<std::uint64_t> checkpoint_every;
  std::string state;  // the agent's data directory
  std::optional<std::string> durability;
  std::size_t keep = 3;
  bool salvage = false, resume = false;
};

struct MonitorFlags {
  std::string socket, log, logdir, on_hang = "report";
  double hang_limit = 10;   // seconds
  std::uint64_t probe = 0;  // samples to measure the layers with at the end; 0: they are not measured
  bool json = false, quiet = false;
};

/// Options of `weft run`, by group.
struct RunRequest {
  SampleFlags sample;
  LearningFlags learning;
  PaceFlags pace;
  StorageFlags storage;
  MonitorFlags monitor;
};

void add_run_flags(CLI::App& app, RunRequest& request);

}  // namespace weft::cli
