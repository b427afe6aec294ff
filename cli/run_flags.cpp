// SPDX-License-Identifier: Apache-2.0

#include "cli/run_flags.hpp"

#include "cli/verb.hpp"

#include "learning/options.hpp"
#include "learning/stream_options.hpp"

namespace weft::cli {
namespace {

void add_sample_flags(CLI::App& app, SampleFlags& r) {
  add_argument(app, "NETWORK", r.file, "A network file with a section \"stream\", or an .entity file").required();
  names_a_file(add_option(app, "data", r.data,
                          "The samples, -: as they arrive at standard input; else those of the file's section "
                          "\"stream\""))
      .type_name("FILE");
  names_a_file(add_option(app, "follow", r.follow,
                          "Samples as they arrive: in files of a directory, or at a Unix socket that is made there"))
      .type_name("PATH");
  add_row_format(app, r.format);
  one_of(add_option(app, "bad-rows", r.bad_rows, "A row that is refused ends the run, or is counted and passed over"),
         {"stop", "skip"});
  add_flag(app, "answers", r.answers, "Print the answer to each sample that arrives, a JSON object a line");
  names_a_file(add_option(app, "validation", r.validation, "Samples to measure with at the end")).type_name("FILE.csv");
  names_a_file(add_option(app, "test", r.test, "The same, instead of the held-out share")).type_name("FILE.csv");
  add_table_flags(app, r.table);
}

void add_learning_flags(CLI::App& app, LearningFlags& r) {
  const auto &learning = learning::learning_rows(), &stream = learning::stream_rows();
  names_a_file(add_option(app, "learning", r.section, "A section \"learning\", in place of the network's"))
      .type_name("FILE.json");
  add_option(app, "freeze", r.freeze, "Place z,y,x,layer of a layer that does not learn; may be repeated").one_a_flag();
  add_option(app, "rule", r.rule, option_row(learning, "rule"));
  add_option(app, "schedule", r.schedule, option_row(learning, "schedule"));
  add_option(app, "lr", r.lr, "Learning rate; with another --rule than the file's, that rule's default counts")
      .within(1e-9, 1000.0);
  add_option(app, "learners", r.learners, option_row(learning, "learners"));
  add_option(app, "sessions", r.sessions, "Sessions of the mesh; those beyond the learners look on")
      .within(std::uint64_t{1}, std::uint64_t{65536});
  add_encoding_flags(app, r.encoding);
  one_of(add_option(app, "activations", r.activations, "What integer types of 8 bits and fewer make of their inputs"),
         {"int8", "float", "int8_row"});
  add_option(app, "epochs", r.epochs, option_row(stream, "epochs"));
  add_option(app, "seed", r.seed, "Seed of weights, split, order and drift");
}

void add_pace_flags(CLI::App& app, PaceFlags& r) {
  add_option(app, "threads", r.threads, "Threads at most; 0: all usable cores").within(std::uint64_t{0}, kMostThreads);
  add_max_memory(app, r.max_memory);
  add_device(app, r.device);
  add_executor(app, r.executor);
  add_option(app, "rate", r.rate, "Samples a second, each begun at its time; else one after the other")
      .within(0.001, 1e6)
      .type_name("HZ");
  one_of(add_option(app, "overrun", r.overrun, "What becomes of times missed while an earlier sample ran"),
         {"skip", "catch_up", "stretch"});
  add_option(app, "held-out", r.held_out, option_row(learning::stream_rows(), "held_out"));
  add_option(app, "max-samples", r.max_samples, "Stop the stream after so many samples")
      .within(std::uint64_t{1}, UINT64_MAX);
}

void add_storage_flags(CLI::App& app, StorageFlags& r) {
  names_a_file(add_option(app, "save", r.save, "Write the model with its live state there at the end"))
      .type_name("FILE.entity");
  names_a_file(
      add_option(app, "matrix", r.matrix, "Write the accuracies on each task after each there, of stream.tasks"))
      .type_name("FILE.csv");
  add_option(app, "checkpoint", r.checkpoint, "Keep checkpoints there: at the end, and on Ctrl-C").type_name("DIR");
  add_option(app, "checkpoint-every", r.checkpoint_every, "A checkpoint every so many samples")
      .within(std::uint64_t{1}, UINT64_MAX);
  add_option(app, "state", r.state, "The agent's data directory; the agent is kept there, and continues from there")
      .type_name("DIR");
  add_option(app, "durability", r.durability,
             "When a sample counts as kept: tick, interval=2s (the default) or checkpoint");
  add_option(app, "keep", r.keep, "Checkpoints kept in the agent's data directory")
      .within(std::uint64_t{1}, std::uint64_t{100000});
  add_flag(app, "salvage", r.salvage, "Go on where a damaged journal ends, and forget what came after");
  add_flag(app, "resume", r.resume, "Go on from the newest checkpoint; afresh where there is none");
}

void add_monitor_flags(CLI::App& app, MonitorFlags& r) {
  add_option(app, "socket", r.socket,
             "Answer weft top there; else, with --state or --checkpoint, in the user's runtime directory")
      .type_name("PATH");
  add_option(app, "log", r.log, "Also write the log to the end of that file; SIGHUP opens it anew").type_name("FILE");
  add_option(app, "logdir", r.logdir, "Also write the run's numbers there: for TensorBoard, and as scalars.csv")
      .type_name("DIR");
  add_option(app, "hang-limit", r.hang_limit, "Seconds that a cell may take for one tick; 0: as long as it likes")
      .within(0.0, 1e6);
  one_of(add_option(app, "on-hang", r.on_hang, "Tell of a cell that takes longer, or also end with SIGABRT"),
         {"report", "abort"});
  add_option(app, "probe", r.probe,
             "Measure each layer with so many samples, as the run goes and at its end: dormant units, effective rank, "
             "norm of the weights")
      .type_name("N")
      .within(std::uint64_t{1}, std::uint64_t{4096});
  add_flag(app, "json", r.json, "Events on stdout, a JSON object a line");
  add_flag(app, "quiet", r.quiet, "No progress on stderr; notes stay");
}

}  // namespace

void add_run_flags(CLI::App& app, RunRequest& request) {
  add_sample_flags(app, request.sample);
  add_learning_flags(app, request.learning);
  add_pace_flags(app, request.pace);
  add_storage_flags(app, request.storage);
  add_monitor_flags(app, request.monitor);
}

}  // namespace weft::cli
