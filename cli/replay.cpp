// SPDX-License-Identifier: Apache-2.0
// weft replay, weft diff: runs replayed, and compared.

#include "agent/replay.hpp"

#include "cli/json_line.hpp"
#include "cli/progress.hpp"
#include "cli/replay_texts.hpp"
#include "cli/setup.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"

#include "agent/diff.hpp"

#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct ReplayRequest {
  std::string directory, from, until, model;
  std::vector<std::string> set;
  std::string device;
  std::size_t threads = 0;
  std::uint64_t max_memory = 0;
  bool verify = false, json = false;
};

/// "tick=N", or N.
Result<std::optional<std::uint64_t>> parse_tick(const std::string& flag, const std::string& text) {
  if (text.empty()) return std::optional<std::uint64_t>();
  const std::string digits = text.starts_with("tick=") ? text.substr(5) : text;
  const bool is_number =
      !digits.empty() && digits.size() < 20 && digits.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number) return fail(Errc::invalid_argument, flag + " " + text + ": give tick=N, such as tick=4096");
  return std::optional<std::uint64_t>(std::stoull(digits));
}

/// The run as it was, where a changed replay of it ended.
struct Original {
  std::string hash;
  std::optional<double> mean_return;  // of an agent that acts
};

/// From the newest checkpoint before that end. Nothing: it is not known, since one of them ended at another tick, or
/// the journal reads no more.
std::optional<Original> original_of(const ReplayRequest& request, std::optional<std::uint64_t> until,
                                    agent::Replay& changed) {
  agent::ReplayOptions options;
  options.from = until.value_or(UINT64_MAX);
  options.mesh.threads = request.threads;
  options.mesh.max_memory = request.max_memory;
  options.mesh.device = request.device;
  auto found = agent::Replay::open(storage::real_file_system(), request.directory, std::move(options));
  if (!found || !found->run(changed.tick()) || found->tick() != changed.tick()) return std::nullopt;
  Original original{to_string(found->replayable().hash()), std::nullopt};
  const agent::EnvironmentLoop *const loop = found->replayable().loop(), *const other = changed.replayable().loop();
  if (loop && other && loop->steps() != other->steps()) return std::nullopt;
  if (loop) original.mean_return = loop->mean_return();
  return original;
}

/// A file is the request log of a server of language models.
Status replay_log(const ReplayRequest& request) {
  if (!request.from.empty() || !request.until.empty() || request.verify || !request.set.empty())
    return fail(Errc::invalid_argument, request.directory +
                                            ": of a request log each text is compared as it is; --from, --until, "
                                            "--verify and --set are those of a data directory");
  return replay_request_log(
      {request.directory, request.model, request.device, request.threads, request.max_memory, request.json});
}

Status replay(const ReplayRequest& request) {
  std::error_code unknown;
  if (std::filesystem::is_regular_file(request.directory, unknown)) return replay_log(request);
  if (!request.model.empty())
    return fail(Errc::invalid_argument,
                request.directory + ": --model is for the request log of weft serve, a file; this is none");
  agent::ReplayOptions options;
  WEFT_TRY(options.from, parse_tick("--from", request.from));
  WEFT_TRY(const auto until, parse_tick("--until", request.until));
  if (request.verify && !request.set.empty())
    return fail(Errc::invalid_argument, "--verify and --set: a changed run differs on purpose; give one");
  options.set = request.set;
  options.verifies = request.verify;
  WEFT_CHECK(check_device(request.device));
  options.mesh.threads = request.threads;
  options.mesh.max_memory = request.max_memory;
  options.mesh.device = request.device;
  ProgressLine progress;
  options.watch = [&progress](std::uint64_t tick, std::uint64_t records) {
    if (progress.is_due()) progress.show("tick " + grouped(tick) + ", " + grouped(records) + " records");
  };
  const auto begin = Clock::now();
  WEFT_TRY(auto replayed, agent::Replay::open(storage::real_file_system(), request.directory, std::move(options)));
  if (until && *until < replayed.tick())
    return fail(Errc::invalid_argument, "--until tick=" + std::to_string(*until) + ": the run begins at tick " +
                                            std::to_string(replayed.tick()) +
                                            " here; its older checkpoints are gone, or --from is later");
  WEFT_CHECK(replayed.run(until));
  progress.clear();
  const std::chrono::nanoseconds took = Clock::now() - begin;
  const auto& findings = replayed.findings();
  std::vector<std::string> damages = findings.damages;
  damages.insert(damages.end(), replayed.missing().begin(), replayed.missing().end());
  const std::string hash = to_string(replayed.replayable().hash());
  const agent::EnvironmentLoop* const loop = replayed.replayable().loop();
  std::optional<Original> original;
  if (!request.set.empty() && replayed.records() > 0) original = original_of(request, until, replayed);
  const bool is_same = original && original->hash == hash;
  if (request.json) {
    Json event({{"event", "done"},
                {"from_tick", replayed.start().tick},
                {"tick", replayed.tick()},
                {"records", replayed.records()},
                {"compared", replayed.compared()},
                {"state_hash", hash},
                {"anew", replayed.anew()},
                {"targets_left_out", replayed.replayable().left_out()},
                {"device", where_it_ran(replayed.replayable().mesh().device_statistics())},
                {"torn_bytes", findings.torn_bytes},
                {"damages", damages},
                {"seconds", std::chrono::duration<double>(took).count()}});
    if (loop) {
      event["steps"] = loop->steps();
      event["episodes"] = loop->episodes();
      event["mean_return"] = loop->mean_return();
    }
    if (original) {
      event["original_state_hash"] = original->hash;
      if (original->mean_return) event["original_mean_return"] = *original->mean_return;
    }
    print_json(event);
  } else {
    std::printf("from        checkpoint of tick %s\n", grouped(replayed.start().tick).c_str());
    std::printf("at          tick %s, %s records replayed in %s\n", grouped(replayed.tick()).c_str(),
                grouped(replayed.records()).c_str(), milliseconds(took).c_str());
    if (request.verify && replayed.compared() == 0)
      std::printf("compared    nothing: no marker follows that checkpoint\n");
    else if (request.verify)
      std::printf("compared    %s markers, all equal\n", grouped(replayed.compared()).c_str());
    if (loop) {
      std::printf("steps       %s in %s episodes\n", grouped(loop->steps()).c_str(), grouped(loop->episodes()).c_str());
      const bool is_known = original && original->mean_return;
      std::printf("return      %s, mean of the last 100 episodes%s\n", two_digits(loop->mean_return()).c_str(),
                  is_known ? ("; of the original " + two_digits(*original->mean_return)).c_str() : "");
    }
    for (const std::string& change : request.set) std::printf("changed     %s\n", escaped(change).c_str());
    for (const std::string& part : replayed.anew()) std::printf("anew        %s\n", part.c_str());
    if (const std::uint64_t left_out = replayed.replayable().left_out())
      std::printf("left out    %s targets of samples that had expired\n", grouped(left_out).c_str());
    if (findings.torn_bytes) std::printf("torn        %s bytes at the end\n", grouped(findings.torn_bytes).c_str());
    for (const std::string& damage : damages) std::printf("damaged     %s\n", escaped(damage).c_str());
    if (const auto* const device = replayed.replayable().mesh().device_statistics())
      std::printf("device      %s\n", escaped(where_it_ran(device)).c_str());
    std::printf("state hash  %s\n", hash.c_str());
    if (is_same)
      std::printf("note        the change had no effect on the state: the original has the same hash at tick %s\n",
                  grouped(replayed.tick()).c_str());
  }
  if (request.verify && !damages.empty()) return fail(Errc::corrupt, request.directory + ": " + damages.front());
  return {};
}

struct DiffRequest {
  std::string a, b;
  std::size_t threads = 0;
  std::uint64_t max_memory = 0;
  bool json = false;
};

Json coordinates(const std::vector<Coord>& cells) {
  Json all = Json::array();
  for (const Coord at : cells) all.push_back({at.z, at.y, at.x});
  return all;
}

std::string cell_name(Coord at) {
  return "[" + std::to_string(at.z) + "," + std::to_string(at.y) + "," + std::to_string(at.x) + "]";
}

void print(const agent::Comparison& found) {
  if (!found.divergence) {
    std::printf("equal from tick %s to tick %s\n", grouped(found.from).c_str(), grouped(found.until).c_str());
    if (!found.longer.empty()) std::printf("%s goes further\n", escaped(found.longer).c_str());
    return;
  }
  const agent::Divergence& divergence = *found.divergence;
  constexpr std::size_t kShown = 8;
  std::string cells;
  for (std::size_t i = 0; i < std::min(divergence.cells.size(), kShown); ++i)
    cells += " " + cell_name(divergence.cells[i]);
  if (divergence.cells.size() > kShown) cells += " and " + grouped(divergence.cells.size() - kShown) + " more";
  std::printf("differ at tick %s, cell%s%s\n", grouped(divergence.tick).c_str(), divergence.cells.size() > 1 ? "s" : "",
              cells.c_str());
  if (divergence.tick > found.from)
    std::printf("equal from tick %s on until then\n", grouped(found.from).c_str());
  else
    std::printf("no earlier tick is kept by both, so what led there is not known\n");
  if (divergence.external_since)
    std::printf("external inputs differ since tick %s\n", grouped(*divergence.external_since).c_str());
}

Status diff(const DiffRequest& request) {
  mesh::MeshOptions options;
  options.threads = request.threads;
  options.max_memory = request.max_memory;
  WEFT_TRY(const auto found, agent::diff(storage::real_file_system(), request.a, request.b, options));
  if (request.json) {
    Json line{{"event", "done"}, {"equal", !found.divergence}, {"from_tick", found.from}, {"compared", found.compared}};
    if (found.divergence) {
      line["tick"] = found.divergence->tick;
      line["cells"] = coordinates(found.divergence->cells);
      if (found.divergence->external_since) line["external_since"] = *found.divergence->external_since;
    } else {
      line["until_tick"] = found.until;
      line["longer"] = found.longer;
    }
    print_json(line);
  } else {
    print(found);
  }
  // As diff(1): 1 says that they differ.
  if (found.divergence)
    return fail(Errc::differs, request.a + " and " + request.b + " differ at tick " +
                                   std::to_string(found.divergence->tick) + ", cell " +
                                   cell_name(found.divergence->cells.front()));
  return {};
}

void add_threads(CLI::App& app, std::size_t& threads) {
  add_option(app, "threads", threads, "Threads at most; 0: all usable cores").within(std::uint64_t{0}, kMostThreads);
}

}  // namespace

Verb add_replay(CLI::App& program) {
  CLI::App* app =
      add_verb(program, "replay", "Replay an agent from a checkpoint and the journal, or the texts of a request log");
  auto request = std::make_shared<ReplayRequest>();
  ReplayRequest& r = *request;
  add_argument(
      *app, "DIR|FILE", r.directory,
      "The agent's data directory; it is only read, so the agent may be running. Or a request log of weft serve")
      .required();
  add_option(*app, "from", r.from, "Begin at the newest checkpoint at or before it, not at the oldest")
      .type_name("tick=N");
  add_option(*app, "until", r.until, "Stop at the last boundary at or before it").type_name("tick=N");
  add_flag(*app, "verify", r.verify, "Compare tick and state hash with every marker and checkpoint");
  add_option(*app, "set", r.set, "What if: change the network first, such as layers[3].dtype=int8")
      .type_name("PATH=VALUE")
      .take_all();
  add_option(*app, "model", r.model, "Of a request log: the language model that writes its texts again");
  add_threads(*app, r.threads);
  add_max_memory(*app, r.max_memory);
  add_device(*app, r.device);
  add_flag(*app, "json", r.json, "The result as a JSON object on stdout");
  return {app, [request] { return replay(*request); }};
}

Verb add_diff(CLI::App& program) {
  CLI::App* app = add_verb(program, "diff", "The first tick and cell where two runs differ");
  auto request = std::make_shared<DiffRequest>();
  DiffRequest& r = *request;
  add_argument(*app, "A", r.a, "An agent's data directory, or an .entity file with live state").required();
  add_argument(*app, "B", r.b, "Another one").required();
  add_threads(*app, r.threads);
  add_max_memory(*app, r.max_memory);
  add_flag(*app, "json", r.json, "The result as a JSON object on stdout");
  return {app, [request] { return diff(*request); }};
}

}  // namespace weft::cli
