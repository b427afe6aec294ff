// SPDX-License-Identifier: Apache-2.0

#include "cli/encoding_flags.hpp"
#include "cli/json_line.hpp"
#include "cli/progress.hpp"
#include "cli/report.hpp"
#include "cli/run_state.hpp"
#include "cli/samples.hpp"
#include "cli/table.hpp"
#include "cli/table_flags.hpp"
#include "cli/terminal.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/weights/weight_store.hpp"

#include "storage/file_system.hpp"

#include "core/json.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>

namespace weft::cli {
namespace {

struct SweepRequest {
  std::string file, data;
  TableFlags table;
  EncodingFlags encoding;
  double seconds = 0.2;
  bool json = false;
  std::uint64_t max_memory = 0;
};

/// A model, its data, and what it says to them.
class Sweep {
 public:
  static Result<std::unique_ptr<Sweep>> open(const SweepRequest& request);
  /// The row of one type. The first call must be float32's: the others are measured against it.
  Result<Json> row(const Encoding& encoding);

 private:
  Result<std::vector<float>> outputs() const;
  /// Without --data the network's own.
  SamplePaths paths(const std::string& csv) const {
    if (!request_.data.empty() || options_.test.empty()) return {csv, {}, {}};
    return {csv, {}, path_within(model_->folder, options_.test)};
  }
  Result<learning::Evaluation> evaluation(const std::vector<float>& outputs) const;
  Status morph(mesh::Mesh& mesh, const Encoding& encoding) const;
  Result<double> ticks_per_second(const Encoding& encoding);

  SweepRequest request_;
  std::optional<Model> model_;
  Loaded loaded_;
  std::unique_ptr<learning::Learner> learner_;  // of a model without live state
  learning::StreamOptions options_;
  learning::TaughtOutputs outputs_;
  learning::Dataset data_;
  std::optional<learning::SampleStream> stream_;  // none with --data: all of its rows are shown
  std::optional<mesh::Mesh> ticking_;             // the same weights without a learner: what is timed
  std::vector<float> reference_;
  std::uint64_t reference_bytes_ = 0;
};

/// Errors that name a place within a file name the file, too.
template <class T>
Result<T> within(const std::string& file, Result<T> result) {
  if (!result) return fail(blamed(std::move(result).error(), file));
  return result;
}

Result<std::unique_ptr<Sweep>> Sweep::open(const SweepRequest& request) {
  auto sweep = std::make_unique<Sweep>();
  sweep->request_ = request;
  WEFT_TRY(sweep->model_, read_model(request.file));
  const Model& model = *sweep->model_;
  if (model.spec.stream.empty() && request.data.empty())
    return fail(Errc::not_found, request.file + ": stream: the network has no such section; name the data with --data");
  mesh::MeshOptions options;
  options.max_memory = request.max_memory;
  options.device = "cpu";  // what types cost there is what it tells
  WEFT_TRY(sweep->loaded_, within(request.file, load(model, options)));
  learning::LearningOptions learning;
  if (!model.spec.learning.empty()) {
    WEFT_TRY(learning, within(request.file, learning::read_learning(model.spec.learning)));
  }
  if (!sweep->loaded_.learner) {
    // Measuring stores no samples, and holds no weights.
    learning.replay = {}, learning.consolidation = {}, learning.renew = {}, learning.perturb = {};
    learning.weights |= request.table.weight.has_value();
    WEFT_TRY(sweep->learner_, within(request.file, learning::Learner::build(*sweep->loaded_.mesh, learning)));
  }
  if (!model.spec.stream.empty()) {
    WEFT_TRY(sweep->options_, within(request.file, learning::read_stream(model.spec.stream, request.data.empty())));
  }
  if (!request.data.empty()) sweep->options_.held_out = 0;  // all rows are shown, however few
  const std::string path = request.data.empty() ? path_within(model.folder, sweep->options_.csv) : request.data;
  apply(request.table, sweep->options_.table);
  WEFT_TRY(Samples samples,
           read_samples(sweep->loaded_.mesh->graph(), sweep->options_, sweep->paths(path), model.entity.has_value()));
  for (const std::string& note : samples.notes) std::fprintf(stderr, "weft: note: %s\n", note.c_str());
  sweep->data_ = std::move(samples.data);
  learning::Learner& learner = sweep->learner_ ? *sweep->learner_ : *sweep->loaded_.learner;
  // Also checks that the data fit the network, and fills in the names of port and output.
  const std::string named = request.data.empty() ? request.file : "--data " + request.data;
  WEFT_TRY(auto stream, within(named, learning::SampleStream::build(learner, sweep->data_, sweep->options_)));
  sweep->options_ = stream.options();
  sweep->outputs_ = stream.outputs();
  if (request.data.empty()) {
    if (model.entity) {
      const std::string text = mesh::extras_of(*model.entity);
      WEFT_TRY(const auto extras, parse_json(text, "extras"));
      // After a drift the task is another one; the cursor knows.
      if (extras.contains("run") && extras["run"].contains("cursor"))
        WEFT_CHECK(stream.load_cursor(extras["run"]["cursor"].dump()));
    }
    sweep->stream_ = std::move(stream);
  }
  WEFT_TRY(sweep->ticking_, mesh::Mesh::build(model.spec, options));
  if (model.entity) WEFT_CHECK(mesh::restore_weights(*sweep->ticking_, *model.entity));
  return sweep;
}

Result<std::vector<float>> Sweep::outputs() const {
  const mesh::Mesh& mesh = *loaded_.mesh;
  std::vector<float> outputs(data_.size * outputs_.width());
  const mesh::RunInput input{options_.input, data_.inputs};
  const std::uint32_t hold = learner_ ? learner_->hold() : loaded_.learner->hold();
  WEFT_CHECK(outputs_.ask(data_.size, outputs, [&](std::span<const mesh::RunOutput> to) {
    return mesh::MeshAccess::evaluate_copies(mesh, 0, {&input, 1}, data_.size, hold, to);
  }));
  return outputs;
}

Result<learning::Evaluation> Sweep::evaluation(const std::vector<float>& outputs) const {
  if (stream_) return stream_->measure_held_out();
  std::vector<std::uint32_t> classes;
  for (std::size_t i = 0; i < std::max<std::size_t>(data_.heads.size(), 1); ++i)
    classes.push_back(data_.classes_of(i).count);
  const auto& learning = (learner_ ? *learner_ : *loaded_.learner).options();
  learning::Evaluation evaluation(outputs_, learning, classes, learning::TargetUnits(options_.table));
  const std::size_t width = outputs_.width();
  const kernels::ConstMatrixView all{outputs.data(), data_.size, width, width};
  if (data_.has_values())
    evaluation.add(all, std::span<const float>(data_.values));
  else
    evaluation.add(all, std::span<const std::uint32_t>(data_.labels));
  return evaluation;
}

Status Sweep::morph(mesh::Mesh& mesh, const Encoding& encoding) const {
  for (const mesh::NodeId node : matrix_layers(mesh.graph()))
    WEFT_CHECK(mesh::MeshAccess::weights(mesh).morph(node, mesh.graph().nodes()[node].object, encoding));
  return {};
}

Result<double> Sweep::ticks_per_second(const Encoding& encoding) {
  using Clock = std::chrono::steady_clock;
  WEFT_CHECK(morph(*ticking_, encoding));
  WEFT_CHECK(ticking_->set_input(options_.input, std::span(data_.inputs).first(data_.features)));
  WEFT_CHECK(ticking_->tick(256));
  const auto begin = Clock::now();
  double seconds = 0;
  std::uint64_t ticks = 0;
  while (seconds < request_.seconds) {
    WEFT_CHECK(ticking_->tick(1024));
    ticks += 1024;
    seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  return static_cast<double>(ticks) / seconds;
}

Result<Json> Sweep::row(const Encoding& encoding) {
  mesh::Mesh& mesh = *loaded_.mesh;
  WEFT_CHECK(morph(mesh, encoding));
  WEFT_TRY(const auto said, outputs());
  if (reference_.empty()) {
    reference_ = said;
    reference_bytes_ = mesh::MeshAccess::weights(mesh).bytes();
  }
  double squares = 0, power = 0;
  for (std::size_t i = 0; i < said.size(); ++i) {
    squares += std::pow(static_cast<double>(said[i]) - reference_[i], 2);
    power += std::pow(static_cast<double>(reference_[i]), 2);
  }
  WEFT_TRY(const learning::Evaluation measured, evaluation(said));
  WEFT_TRY(const double rate, ticks_per_second(encoding));
  const std::uint64_t bytes = mesh::MeshAccess::weights(mesh).bytes();
  return Json{{"dtype", name(encoding.dtype)},
              {"granularity", has_scale(encoding.dtype) ? Json(name(encoding.granularity)) : Json()},
              {"bytes", bytes},
              {"ratio", static_cast<double>(bytes) / static_cast<double>(reference_bytes_)},
              {"accuracy", measured.has_values() ? Json() : Json(measured.accuracy())},
              {"loss", measured.loss()},
              {"output_error", power > 0 ? std::sqrt(squares / power) : 0.0},
              {"ticks_per_second", rate}};
}

Status sweep(const SweepRequest& request) {
  WEFT_TRY(auto opened, Sweep::open(request));
  const auto wanted = request.encoding.granularity ? parse_granularity(*request.encoding.granularity) : std::nullopt;
  std::vector<Encoding> encodings{Encoding(Dtype::float32)};
  for (int i = 0; i < kDtypeCount; ++i)
    if (const auto dtype = static_cast<Dtype>(i); dtype != Dtype::float32)
      encodings.emplace_back(dtype, wanted && check_granularity(dtype, *wanted) ? wanted : std::nullopt);
  using Align = Table::Align;
  Table table({{"dtype"},
               {"scales"},
               {"bytes", Align::right},
               {"of fp32", Align::right},
               {"accuracy", Align::right},
               {"loss", Align::right},
               {"output error", Align::right},
               {"ticks/s", Align::right}});
  ProgressLine progress;
  std::size_t measured = 0;
  for (const Encoding& encoding : encodings) {
    progress.show(std::string(name(encoding.dtype)) + ", " + std::to_string(++measured) + " of " +
                  std::to_string(encodings.size()));
    WEFT_TRY(const Json row, within(request.file, opened->row(encoding)));
    if (request.json) {
      progress.clear();
      print_json(row);
    }
    table.add({row["dtype"], row["granularity"].is_null() ? "none" : row["granularity"].get<std::string>(),
               byte_size(row["bytes"]), percent(row["ratio"]),
               row["accuracy"].is_null() ? "none" : percent(row["accuracy"]), loss_text(row["loss"]),
               percent(row["output_error"]), short_number(row["ticks_per_second"])});
  }
  progress.clear();
  if (!request.json) std::printf("%s\n", table.text(Terminal::of(STDOUT_FILENO).columns()).c_str());
  return {};
}

}  // namespace

Verb add_sweep(CLI::App& program) {
  CLI::App* app = add_verb(program, "sweep", "Measure a model with its weights in each of the numeric types");
  auto request = std::make_shared<SweepRequest>();
  add_argument(*app, "FILE", request->file, "An .entity file, or a network file").required();
  add_option(*app, "data", request->data, "Labelled table to measure with; else what the file's stream holds out")
      .type_name("FILE.csv");
  add_table_flags(*app, request->table);
  one_of(add_option(*app, "granularity", request->encoding.granularity,
                    "Of all types that can have it; each one's default else"),
         granularity_names());
  add_option(*app, "seconds", request->seconds, "Time that ticks are counted for each type").within(0.001, 60.0);
  add_max_memory(*app, request->max_memory);
  add_flag(*app, "json", request->json, "A JSON object a row");
  return {app, [request] { return sweep(*request); }};
}

}  // namespace weft::cli
