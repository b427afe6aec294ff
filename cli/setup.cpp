// SPDX-License-Identifier: Apache-2.0

#include "cli/setup.hpp"

#include "formats/idx/idx.hpp"
#include "storage/file_system.hpp"

#include "gpu/device.hpp"

#include "core/json.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

namespace weft::cli {
namespace {

constexpr std::size_t kMostSection = std::size_t{1} << 20;  // bytes of a file of `--learning`

Status check(const RunRequest& r) {
  WEFT_CHECK(check_device(r.pace.device));
  if (r.storage.checkpoint.empty() && r.storage.resume)
    return fail(Errc::invalid_argument, "--resume: name the directory of checkpoints with --checkpoint DIR");
  if (r.storage.checkpoint.empty() && r.storage.state.empty() && r.storage.checkpoint_every)
    return fail(Errc::invalid_argument,
                "--checkpoint-every: name the directory of checkpoints with --checkpoint DIR or --state DIR");
  if (!r.storage.checkpoint.empty() && !r.storage.state.empty())
    return fail(Errc::invalid_argument,
                "--checkpoint and --state: an agent's data directory holds its checkpoints; give one");
  if (r.storage.state.empty() && (r.storage.durability || r.storage.salvage))
    return fail(Errc::invalid_argument, std::string(r.storage.salvage ? "--salvage" : "--durability") +
                                            ": name the agent's data directory with --state DIR");
  const bool is_fed = !r.sample.follow.empty() || r.sample.data == "-";
  if (!r.sample.follow.empty() && !r.sample.data.empty())
    return fail(Errc::invalid_argument, "--follow and --data: samples arrive, or are a file's; give one");
  if (!is_fed && (r.sample.answers || r.sample.bad_rows || r.sample.format))
    return fail(Errc::invalid_argument, std::string(r.sample.answers    ? "--answers"
                                                    : r.sample.bad_rows ? "--bad-rows"
                                                                        : "--format") +
                                            ": for samples that arrive; give --data - or --follow PATH");
  if (is_fed && (r.learning.epochs || r.pace.held_out))
    return fail(Errc::invalid_argument, std::string(r.learning.epochs ? "--epochs" : "--held-out") +
                                            ": samples that arrive are shown once, and all are learned from; "
                                            "--test FILE measures");
  if (r.pace.overrun && !r.pace.rate)
    return fail(Errc::invalid_argument, "--overrun: say how many samples a second are due with --rate HZ");
  return {};
}

void apply(const LearningFlags& r, learning::LearningOptions& o) {
  if (r.rule) {
    const learning::Rule rule = *learning::parse_rule(*r.rule);
    if (rule != o.rule) {
      // Step sizes are a rule's own: those of another rule would be noise or a standstill.
      o.optimizer.lr = 0;
      o.feedback_scale = 0;
      o.output_step = 0;
      o.step_limit = o.displacement_limit = o.activation_limit = o.gradient_limit = 0;
    }
    o.rule = rule;
  }
  if (r.schedule) o.schedule = *learning::parse_schedule(*r.schedule);
  if (r.lr) o.optimizer.lr = static_cast<float>(*r.lr);
  if (r.learners) o.learners = *r.learners;
  o = learning::with_defaults(o);
}

/// `--dtype` gives every layer with a weight matrix that type and lets it learn through it.
Status apply_encoding(const LearningFlags& r, mesh::NetworkSpec& spec) {
  WEFT_TRY(const auto encoding, read_encoding(r.encoding));
  if (!encoding) {
    if (r.activations)
      return fail(Errc::invalid_argument, "--activations: say which type the weights have with --dtype");
    return {};
  }
  // The graph knows the layers that have a matrix.
  WEFT_TRY(const mesh::Graph graph, mesh::Graph::build(spec));
  const std::vector<mesh::NodeId> nodes = matrix_layers(graph);
  for (mesh::LayerSpec& layer : spec.layers) {
    if (std::find(nodes.begin(), nodes.end(), *graph.find_layer(layer.at)) == nodes.end()) continue;
    layer.dtype = encoding->dtype;
    layer.granularity.reset();
    if (r.encoding.granularity) layer.granularity = encoding->granularity;
    layer.quantization_aware = encoding->dtype != Dtype::float32;
    if (r.activations) layer.activations = *parse_activations(*r.activations);
  }
  return {};
}

/// `--freeze`: layers that learning never moves.
Status apply_freeze(const std::vector<std::string>& places, mesh::NetworkSpec& spec) {
  if (places.empty()) return {};
  WEFT_TRY(const mesh::Graph graph, mesh::Graph::build(spec));
  for (const std::string& place : places) {
    WEFT_TRY(const std::vector<mesh::NodeId> found, find_layers(graph, place, "--freeze"));
    for (mesh::LayerSpec& layer : spec.layers)
      layer.is_frozen |= std::find(found.begin(), found.end(), *graph.find_layer(layer.at)) != found.end();
  }
  return {};
}

/// The section "learning": of a file of its own (`--learning`), or the network's.
Result<learning::LearningOptions> read_section(const std::string& file, const Model& model) {
  if (file.empty() && model.spec.learning.empty()) return learning::LearningOptions();
  const std::string& path = file.empty() ? model.path : file;
  std::string text = model.spec.learning;
  if (!file.empty()) {
    WEFT_TRY(const ByteBuffer bytes, storage::real_file_system().read(file, kMostSection));
    text = as_text(bytes);
  }
  auto options = learning::read_learning(text);
  if (!options) return fail(std::move(options).error().within(path));
  return options;
}

/// A table's labels are in the table.
bool has_labels_beside(const std::string& path) {
  std::array<std::byte, 4> first{};
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(first.data()), first.size());
  const ByteSpan bytes(first.data(), static_cast<std::size_t>(file.gcount()));
  return formats::may_be_idx(bytes, path);
}

FeedOptions feed_options(const RunRequest& request) {
  FeedOptions feed;
  feed.pipe = request.sample.follow.empty() ? "-" : "";
  feed.follow = request.sample.follow;
  if (request.sample.format) feed.format = *learning::parse_row_format(*request.sample.format);
  feed.skips_bad = request.sample.bad_rows == "skip";
  feed.answers = request.sample.answers;
  feed.json = request.monitor.json || request.sample.answers;
  return feed;
}

void apply(const RunRequest& request, learning::StreamOptions& to) {
  if (request.learning.seed) to.seed = *request.learning.seed;
  if (request.learning.epochs) to.epochs = *request.learning.epochs;
  if (request.pace.held_out) to.held_out = *request.pace.held_out;
  if (request.pace.max_samples) to.max_samples = *request.pace.max_samples;
  apply(request.sample.table, to.table);
}

/// Samples of a file are given to the learners one each; those that arrive at their times come one by one.
Status check_learners(const RunRequest& r, const learning::LearningOptions& o) {
  const std::size_t rows = o.learners + o.replay.rows();
  if (r.learning.sessions && *r.learning.sessions < rows)
    return fail(Errc::invalid_argument,
                "--sessions " + std::to_string(*r.learning.sessions) + ": " + std::to_string(rows) +
                    " learners and stored samples have a session each; give as many, or fewer --learners");
  if (r.pace.rate && o.learners > 1)
    return fail(Errc::invalid_argument, "--rate: samples come one by one at their times, and " +
                                            std::to_string(o.learners) +
                                            " learners take as many at once; give --learners 1");
  return {};
}

void apply(const RunRequest& request, const std::string& device, std::size_t learners, mesh::MeshOptions& to) {
  to.threads = request.pace.threads;
  to.max_memory = request.pace.max_memory;
  to.device = request.pace.device.empty() ? device : request.pace.device;
  to.sessions = std::max<std::size_t>(request.learning.sessions.value_or(1), learners);
  to.executor = *scheduler::parse_executor(request.pace.executor);
}

}  // namespace

Status check_device(const std::string& name) {
  if (name.empty() || mesh::is_device_name(name)) return {};
  std::string there = "cpu";
  const auto all = gpu::devices();
  if (all)
    for (const gpu::DeviceInfo& info : *all) there += ", vulkan:" + std::to_string(info.index) + " (" + info.name + ")";
  return fail(
      Errc::invalid_argument,
      "--device " + name + ": expected cpu, vulkan, vulkan:NUMBER or vulkan:PART-OF-A-NAME; there are: " + there);
}

std::vector<NamedFile> inputs_of(const Model& model) {
  std::vector<NamedFile> inputs{{"FILE", model.path}};
  if (model.spec.stream.empty()) return inputs;
  if (const auto stream = learning::read_stream(model.spec.stream, false))
    for (const auto& [role, path] :
         {std::pair("stream.csv", &stream->csv), std::pair("stream.validation", &stream->validation),
          std::pair("stream.test", &stream->test)})
      if (!path->empty()) {
        inputs.push_back({role, path_within(model.folder, *path)});
        if (const auto labels = learning::label_file(inputs.back().path);
            labels && has_labels_beside(inputs.back().path))
          inputs.push_back({role, *labels});
      }
  return inputs;
}

Result<RunSetup> make_setup(const Model& model, const RunRequest& request) {
  WEFT_CHECK(check(request));
  RunSetup setup;
  setup.spec = model.spec;
  const bool is_fed = !request.sample.follow.empty() || request.sample.data == "-";
  const bool has_data = is_fed || !request.sample.data.empty();
  if (setup.spec.stream.empty() && !has_data)
    return fail(Errc::not_found, model.path +
                                     ": stream: the network has no such section, so there is nothing to run "
                                     "on; name the data with --data");
  const auto within = [](const std::string& path, auto result) {
    return result ? std::move(result) : decltype(result)(fail(std::move(result).error().within(path)));
  };
  WEFT_TRY(setup.learning, read_section(request.learning.section, model));
  if (!setup.spec.stream.empty()) {
    WEFT_TRY(setup.stream, within(model.path, learning::read_stream(setup.spec.stream, !has_data)));
  }
  apply(request.learning, setup.learning);
  WEFT_CHECK(check_learners(request, setup.learning));
  setup.sessions = request.learning.sessions;
  if (request.learning.seed) setup.spec.seed = *request.learning.seed;
  apply(request, setup.stream);
  if (!setup.stream.table.weight.empty()) setup.learning.weights = true;
  WEFT_CHECK(apply_encoding(request.learning, setup.spec));
  WEFT_CHECK(apply_freeze(request.learning.freeze, setup.spec));
  setup.spec.learning = learning::write_learning(setup.learning);
  if (!request.sample.data.empty() && !(is_fed && !setup.stream.csv.empty())) setup.stream.csv = request.sample.data;
  if (is_fed && setup.stream.csv.empty()) setup.stream.csv = "-";
  const auto own_file = [&](std::string& key, const std::string& given) {
    if (!given.empty()) key = given;
    return given.empty() && !key.empty() ? path_within(model.folder, key) : key;
  };
  setup.validation_path = own_file(setup.stream.validation, request.sample.validation);
  setup.test_path = own_file(setup.stream.test, request.sample.test);
  setup.spec.stream = learning::write_stream(setup.stream);
  if (is_fed) setup.feed = feed_options(request);
  setup.csv_path = is_fed                        ? setup.feed.name()
                   : request.sample.data.empty() ? path_within(model.folder, setup.stream.csv)
                                                 : request.sample.data;
  std::error_code unknown;
  if (!is_fed && request.sample.data.empty() && !std::filesystem::exists(setup.csv_path, unknown))
    return fail(Errc::not_found, setup.csv_path + ": cannot open: no such file; stream.csv of " + model.path +
                                     " names it, from that file's directory on: give --data FILE.csv, or correct it");
  setup.has_given_data = !request.sample.data.empty();
  // Samples that come at their times come once.
  setup.has_open_epochs = model.spec.stream.empty() && !request.learning.epochs && !request.pace.max_samples &&
                          !request.pace.rate && !is_fed;
  setup.data_directory = request.storage.state;
  setup.keep = request.storage.keep;
  setup.salvage = request.storage.salvage;
  setup.probe = request.monitor.probe;
  if (request.storage.durability) {
    WEFT_TRY(setup.durability, agent::parse_durability(*request.storage.durability));
  }
  apply(request, setup.spec.device, setup.learning.learners + setup.learning.replay.rows(), setup.mesh);
  return setup;
}

}  // namespace weft::cli
