// SPDX-License-Identifier: Apache-2.0

#include "cli/run_state.hpp"

#include "cli/samples.hpp"
#include "cli/text_format.hpp"

#include "learning/error_schedule.hpp"
#include "learning/learner_snapshot.hpp"

#include "mesh/memory/memory_estimate.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include "storage/file_system.hpp"

#include "core/json_reader.hpp"

#include <algorithm>
#include <filesystem>

namespace weft::cli {
namespace {

constexpr std::uint64_t kMarks = 240;  // of a whole run: more than any terminal shows
constexpr std::uint64_t kShortest = 64;
constexpr std::uint64_t kArrivingStride = 4096;  // of samples that arrive, whose number nobody knows
constexpr const char* kArriving = "samples that arrive";

}  // namespace

Result<Samples> read_run_samples(const Model& model, RunSetup& s) {
  if (!s.data_directory.empty()) {
    WEFT_TRY(const auto before, first_stream(s.data_directory));
    if (before) {
      inherit_table(*before, s.stream.table);
      if (s.has_open_epochs) s.stream.epochs = before->epochs;
      s.has_open_epochs = false;
    }
  }
  auto graph = mesh::Graph::build(s.spec);
  if (!graph) return fail(std::move(graph).error().within(model.path));
  const SamplePaths paths{s.csv_path, s.validation_path, s.test_path};
  auto found = s.feed.is_on() ? expect_samples(*graph, s.stream, paths)
                              : read_samples(*graph, s.stream, paths, model.entity.has_value());
  if (!found) {
    // Other errors begin with the file at fault, which may be one that nobody named.
    const std::string& text = found.error().text();
    const bool is_of_network = text.starts_with("stream.") || text.starts_with("learning.");
    return is_of_network ? fail(std::move(found).error().within(model.path)) : fail(std::move(found).error());
  }
  Samples samples = *std::move(found);
  if (s.feed.is_on()) {
    samples.digest = kArriving;
    s.spec.stream = learning::write_stream(s.stream);
    return samples;
  }
  if (s.has_open_epochs) {
    s.stream.epochs = usual_epochs(samples.learned);
    samples.notes.push_back(s.csv_path + ": each of " + grouped(samples.learned) + " samples is learned from " +
                            std::to_string(s.stream.epochs) + " times, as " + model.path +
                            " does not say how often; --epochs does");
  }
  s.spec.stream = learning::write_stream(s.stream);
  if (s.has_given_data && s.stream.drift != learning::Drift::none)
    samples.notes.push_back(model.path +
                            ": its stream.drift changes the task in the middle of these data too, by permuting " +
                            std::string(name(s.stream.drift)) + "; take the key out to learn a table");
  if (model.entity && s.data_directory.empty())
    samples.notes.push_back(model.path +
                            " holds weights: the run goes on learning from them; weft predict only asks them");
  return samples;
}

Result<std::unique_ptr<RunState>> RunState::open(const Model& model, RunSetup setup, Samples read) {
  std::unique_ptr<RunState> state(new RunState(std::move(setup)));
  const RunSetup& s = state->setup_;
  storage::FileSystem& files = storage::real_file_system();
  state->data_digest_ = std::move(read.digest);
  state->data_ = std::move(read.data);
  state->notes_ = std::move(read.notes);
  state->data_statistics_ = statistics_of(*state->data_);
  const auto on_create = [&](mesh::Mesh& mesh) -> Status {
    return model.entity ? mesh::restore_weights(mesh, *model.entity) : Status();
  };
  if (s.data_directory.empty()) {
    WEFT_TRY(state->replayable_, agent::ReplayableMesh::begin(s.spec, true, s.mesh));
    WEFT_CHECK(on_create(state->replayable_->mesh()));
    WEFT_CHECK(state->begin(*state->replayable_));
    if (s.feed.is_on())
      state->arriving_.feed.emplace(s.feed, *state->stream_, *state->learner_, nullptr, state->arriving_.place);
  } else {
    agent::Agent::Options options;
    options.durability = s.durability;
    options.keep = s.keep;
    options.salvage = s.salvage;
    options.mesh = s.mesh;
    options.on_create = on_create;
    options.extension = state.get();
    options.differ = run_difference;
    WEFT_TRY(state->agent_, agent::Agent::open(files, s.data_directory, s.spec, std::move(options), state->recovery_));
    agent::Agent& agent = *state->agent_;
    if (s.sessions && *s.sessions != agent.mesh().sessions())
      return fail(Errc::invalid_argument, "--sessions " + std::to_string(*s.sessions) + ": the agent in " +
                                              s.data_directory + " has " + std::to_string(agent.mesh().sessions()) +
                                              "; leave --sessions away to go on with those");
    state->stream_->go_through(
        {[&agent](auto inputs, auto targets, auto samples) { return agent.learn(inputs, targets, samples); },
         [&agent] { return agent.drain(); }});
    state->stream_->take_drift_events();  // told by the runs before
    take_anomalies(*state->stream_);
    if (!state->recovery_.is_new) WEFT_CHECK(state->prolong());
    if (s.feed.is_on())
      state->arriving_.feed.emplace(s.feed, *state->stream_, *state->learner_, &agent, state->arriving_.place);
    if (state->is_finished_) WEFT_CHECK(state->measure_held_out());
  }
  return state;
}

namespace {

/// "gru at [0,0,0,0]", "2 layers, the first gru at [0,0,0,0]".
std::string layers_text(const mesh::Graph& graph, const std::vector<mesh::NodeId>& nodes) {
  const std::string place = graph.layer_spec(nodes[0]).type + " at " + to_string(graph.nodes()[nodes[0]].at);
  return nodes.size() == 1 ? place : std::to_string(nodes.size()) + " layers, the first " + place;
}

/// Layers that a stated horizon keeps from learning, in words; empty: there are none.
std::string layers_without_errors_text(const learning::Learner& learner) {
  const std::vector<mesh::NodeId> nodes = layers_without_errors(learner);
  if (nodes.empty()) return {};
  return layers_text(learner.mesh().graph(), nodes) + ": no error gets there, and nothing is learned, since " +
         "learning.horizon " + std::to_string(learner.options().horizon) + " ends before";
}

/// Layers whose hidden state gets no errors from the next tick, in words; empty: there are none.
std::string states_without_errors_text(const learning::Learner& learner) {
  const std::vector<mesh::NodeId> nodes = states_without_errors(learner);
  if (nodes.empty()) return {};
  const mesh::Graph& graph = learner.mesh().graph();
  const learning::LearningOptions& options = learner.options();
  const auto is_cut = [&](mesh::NodeId node) { return carries_error(graph, node, learning::rule_of(options)); };
  const bool is_rule = std::none_of(nodes.begin(), nodes.end(), is_cut);
  return layers_text(graph, nodes) + ": learning gets no errors from later ticks through hidden state, since " +
         (is_rule ? "the rule '" + std::string(name(options.rule)) + "' sends none there"
                  : "learning.horizon " + std::to_string(options.horizon) + " ends before");
}

}  // namespace

Status RunState::begin(agent::ReplayableMesh& replayable) {
  learner_ = replayable.learner();
  for (std::string text : {layers_without_errors_text(*learner_), states_without_errors_text(*learner_)})
    if (!text.empty()) notes_.push_back(std::move(text));
  // Of open samples, and of as many closed ones.
  arriving_.place = FeedPlace(2 * std::size_t{learner_->options().patience} + 4096);
  auto stream = setup_.feed.is_on() ? learning::SampleStream::build_fed(*learner_, *std::move(data_), setup_.stream)
                                    : learning::SampleStream::build(*learner_, *std::move(data_), setup_.stream);
  if (!stream) {
    // The table itself, not the key that may name another.
    constexpr std::string_view kKey = "stream.csv: ";
    const std::string& text = stream.error().text();
    if (!text.starts_with(kKey)) return fail(std::move(stream).error());
    return fail(stream.error().code(),
                setup_.csv_path + ": " + text.substr(kKey.size()) + " (network '" + setup_.spec.name + "')");
  }
  stream_ = *std::move(stream);
  data_.reset();
  stride_ = setup_.feed.is_on()
                ? kArrivingStride
                : std::max(kShortest, (stream_->total() / kMarks + kShortest - 1) / kShortest * kShortest);
  // Samples that enter together stand on the same side of a mark.
  stride_ = (stride_ + stream_->at_once() - 1) / stream_->at_once() * stream_->at_once();
  return {};
}

void RunState::stop_by(const std::atomic<int>& flag) {
  // A sample of fewer steps makes a short block, and a copy of all weights would be felt.
  constexpr std::size_t kManySteps = 512;
  const mesh::Mesh& m = mesh();
  const std::uint64_t copy =
      mesh::MeshAccess::state(m).live_bytes() + 4 * mesh::MeshAccess::weights(m).allocated_bytes();
  undo_.is_kept = learner_->hold() >= kManySteps && copy < mesh::free_memory(m.options().max_memory) / 2;
  if (undo_.is_kept) mesh::MeshAccess::stop_by(mesh(), &flag);
}

template <class Work>
Status RunState::or_undo(Work&& work) {
  mesh().take_snapshot(undo_.before);
  Status done = work();
  if (!done && done.error().code() == Errc::interrupted) WEFT_CHECK(mesh().restore_snapshot(undo_.before));
  return done;
}

Status RunState::advance(std::uint64_t samples) {
  const std::uint64_t done = stream_->samples();
  std::uint64_t most = std::min(samples, stride_ - done % stride_);
  // Something may be done about a change at such places, whatever the length of the blocks is.
  const learning::DriftOptions& drift = learner_->options().drift;
  if (drift.has_reactions())
    most = std::min(most, (drift.react_every - learner_->samples() % drift.react_every) * stream_->at_once());
  const auto run = [&] { return arriving_.feed ? arriving_.feed->take(most) : stream_->advance(most); };
  // A pipelined sample is one step.
  const bool is_long = undo_.is_kept && learner_->options().schedule == learning::Schedule::settle;
  // A sample that arrives is not given back: it is run to its end.
  WEFT_CHECK(is_long && !arriving_.feed ? or_undo(run) : run());
  if (stream_->samples() == done) return {};
  if (!agent_) WEFT_CHECK(replayable_->react());
  return mark() && agent_ ? agent_->mark() : Status();
}

Status RunState::advance_measured(std::vector<learning::LayerDiagnostics>& measured) {
  if (!watch_) watch_.emplace(*learner_);
  watch_->measure(true);
  const Status advanced = advance(1);
  watch_->measure(false);
  measured = watch_->read();
  if (advanced) measure_dormant(measured);
  return advanced;
}

/// Of small networks alone: somebody who looks is not to slow a run down.
void RunState::measure_dormant(std::vector<learning::LayerDiagnostics>& measured) const {
  constexpr std::size_t kRows = 64, kMostLayers = 256;
  constexpr double kMostWork = 1 << 26;  // multiply-adds of one pass over the network, for all rows
  double work = 0;
  const auto& nodes = learner_->mesh().graph().nodes();
  for (const mesh::Node& node : nodes) work += node.is_port() ? 0 : node.layer->multiply_adds() * kRows;
  if (measured.size() > kMostLayers || nodes.size() > kMostLayers || work > kMostWork) return;
  const auto found = learning::measure_plasticity(*stream_, kRows, false);
  if (!found) return;
  for (const learning::LayerPlasticity& each : *found)
    for (learning::LayerDiagnostics& layer : measured)
      if (layer.at == each.at) layer.dormant = static_cast<float>(each.dormant);
}

bool RunState::mark() {
  const learning::StreamProgress now = stream_->progress();
  if (now.samples % stride_ != 0) return false;
  if (stream_->is_fed()) return true;  // a curve without an end is not kept
  accuracy_curve_.points.push_back(static_cast<float>(now.prequential_accuracy));
  if (now.before_drift)
    accuracy_curve_.lowest_accuracy = std::min(accuracy_curve_.lowest_accuracy.value_or(1.0), now.prequential_accuracy);
  return true;
}

Status RunState::finish() {
  const auto drain = [&] { return stream_->finish(); };
  WEFT_CHECK(undo_.is_kept ? or_undo(drain) : drain());
  is_finished_ = true;
  return measure_held_out();
}

Status RunState::measure_held_out() {
  if (setup_.probe) {
    WEFT_TRY(measured_.plasticity, learning::measure_plasticity(*stream_, setup_.probe, true));
  }
  if (stream_->validation_size() > 0) {
    WEFT_TRY(measured_.validation, stream_->measure_validation());
  }
  if (stream_->held_out_size() == 0) return {};
  WEFT_TRY(measured_.held_out, stream_->measure_held_out());
  return {};
}

std::string RunState::text() const {
  Json run{{"cursor", *parse_json(stream_->save_cursor(), "cursor")},
           {"data", data_digest_},
           {"order", order_digest(stream_->options())},
           {"finished", is_finished_},
           {"curve", accuracy_curve_.points},
           {"curve_every", stride_}};
  if (accuracy_curve_.lowest_accuracy) run["lowest_accuracy"] = *accuracy_curve_.lowest_accuracy;
  if (setup_.feed.is_on()) run["feed"] = arriving_.place.save();
  return run.dump();
}

Status RunState::load_run(JsonReader& run) {
  StreamPlace then = place();
  WEFT_TRY(then.data, run.string("data"));
  if (run.find("order")) {
    WEFT_TRY(then.order, run.string("order"));
  }
  WEFT_TRY(const auto cursor, run.value("cursor"));
  WEFT_TRY(is_finished_, run.boolean("finished"));
  left_.reset();
  if (then.data == data_digest_ && then.order == order_digest(stream_->options())) {
    WEFT_TRY(JsonReader position, JsonReader::open(cursor.raw(), "cursor"));
    WEFT_TRY(const std::uint64_t total, position.u64("total"));
    is_prolonged_ = total != stream_->total();
    WEFT_CHECK(stream_->load_cursor(cursor.raw().dump()));
  } else {
    WEFT_TRY(JsonReader position, JsonReader::open(cursor.raw(), "cursor"));
    WEFT_TRY(then.next, position.u64("next"));
    WEFT_TRY(then.total, position.u64("total"));
    then.is_finished = is_finished_;
    left_ = then;
  }
  if (const auto feed = run.find("feed")) WEFT_CHECK(arriving_.place.load(*feed));
  WEFT_TRY(const auto curve, run.array("curve", 0, std::size_t{1} << 20));
  accuracy_curve_ = {};
  for (const auto& value : curve) {
    WEFT_TRY(accuracy_curve_.points.emplace_back(), value.f32());
  }
  if (const auto every = run.find("curve_every")) {  // for who reads the file; here it follows from the stream
    WEFT_TRY([[maybe_unused]] const std::uint64_t samples, every->u64());
  }
  if (const auto lowest_accuracy = run.find("lowest_accuracy")) {
    WEFT_TRY(accuracy_curve_.lowest_accuracy, lowest_accuracy->f64());
  }
  return run.finish();
}

Status RunState::load(std::string_view text) {
  WEFT_TRY(const Json document, parse_json(text, "checkpoint"));
  WEFT_TRY(auto run, JsonReader::open(document, "run"));
  return load_run(run);
}

Status RunState::replayed(const agent::Record& record) {
  if (const auto* const note = std::get_if<agent::AnnotationRecord>(&record); note && note->topic == kStreamTopic) {
    const auto next = read_stream_note(note->text);
    if (!next) return {};
    const bool is_ours = next->data == data_digest_ && next->order == order_digest(stream_->options());
    // The stream that stands after the one that was left begins at its first sample.
    if (is_ours && (left_ || setup_.feed.is_on())) stream_->begin_anew();
    if (is_ours && setup_.feed.is_on()) arriving_.place.begin_anew();
    if (left_ && is_ours) left_.reset(), accuracy_curve_ = {};
    if (!is_ours) left_ = next;
    is_finished_ = false;
    return {};
  }
  if (left_) {
    learner_->clear_scores();
    if (const auto* const learned = std::get_if<agent::LearnRecord>(&record); learned && !learned->halted)
      left_->next += learned->samples * learner_->options().learners;
    if (const auto* const drain = std::get_if<agent::DrainRecord>(&record))
      left_->is_finished = !drain->halted && (left_->next >= left_->total || left_->data == kArriving);
    return {};
  }
  if (setup_.feed.is_on()) {
    arriving_.place.replayed(record, *learner_);
    const bool is_observed =
        std::holds_alternative<agent::ObserveRecord>(record) && !std::get<agent::ObserveRecord>(record).halted;
    const bool is_late = std::holds_alternative<agent::TeachRecord>(record);
    if (is_observed || is_late) stream_->replayed(is_observed ? 1 : 0);
  }
  if (const auto* const learned = std::get_if<agent::LearnRecord>(&record)) {
    stream_->replayed(learned->halted ? 0 : learned->samples);
    if (!learned->halted) mark();
  }
  if (const auto* const drain = std::get_if<agent::DrainRecord>(&record)) {
    stream_->replayed(0);
    is_finished_ = !drain->halted && (stream_->is_done() || setup_.feed.is_on());
  }
  return {};
}

StreamPlace RunState::place() const {
  return {data_digest_, order_digest(stream_->options()), stream_->progress().samples, stream_->total(), false};
}

Status RunState::prolong() {
  if (setup_.feed.is_on() && !left_ && is_finished_) {
    // The samples before have come to their end.
    stream_->begin_anew();
    arriving_.place.begin_anew();
    is_finished_ = false;
    is_prolonged_ = true;
  } else if (setup_.feed.is_on() && !left_) {
    is_prolonged_ = false;
  }
  if (left_) {
    const std::string stands = "its stream stands at sample " + std::to_string(left_->next) +
                               (left_->total == UINT64_MAX ? "" : " of " + std::to_string(left_->total)) +
                               "; let it come to its end with its own data first";
    const bool has_drift = setup_.stream.drift != learning::Drift::none;
    if (has_drift || !left_->is_finished)
      return fail(Errc::invalid_argument,
                  "the checkpoint is of another run: the data were " + left_->data + ", " + setup_.csv_path + " is " +
                      data_digest_ +
                      (left_->data == data_digest_ ? " with other rows held out, or in another order" : "") + "; " +
                      (has_drift ? "a stream with a drift is one task" : stands));
    notes_.push_back(setup_.csv_path + ": the run came to the end of its stream, and goes on with this one");
    left_.reset();
    stream_->begin_anew();
    accuracy_curve_ = {};
    is_prolonged_ = true;
    is_finished_ = false;
  }
  if (!is_prolonged_) return {};
  is_finished_ = is_finished_ && stream_->is_done();
  if (!agent_) return {};
  WEFT_CHECK(agent_->note(kStreamTopic, stream_note(place())));
  return agent_->checkpoint_and_wait();
}

Result<ByteSource> RunState::snapshot() { return snapshot(std::nullopt); }

Result<ByteSource> RunState::snapshot(std::optional<std::string> stream) {
  WEFT_TRY(Json run, parse_json(text(), "run"));
  run["state_hash"] = to_string(mesh().state_hash());
  mesh::CheckpointExtras extras;
  extras.tensors = learning::learner_tensors(*learner_);
  extras.kept_ticks = learning::kept_ticks(*learner_);
  extras.meta_json = Json{{"run", run}}.dump();
  extras.stream = std::move(stream);
  return mesh::entity_of(mesh(), true, extras);
}

Result<ByteSource> RunState::snapshot_for(const std::string& path) {
  WEFT_TRY(auto stream, fit_data_paths(setup_.spec.stream, setup_.stream,
                                       {setup_.csv_path, setup_.validation_path, setup_.test_path}, path));
  if (!stream && is_prolonged_) stream = setup_.spec.stream;
  return snapshot(std::move(stream));
}

Status RunState::resume(const formats::EntityFile& file) {
  WEFT_TRY(const std::string given, mesh::write_network(setup_.spec));
  WEFT_TRY(const std::string stored, write_json(file.network()));
  WEFT_TRY(const auto difference, run_difference(stored, given));
  if (difference) return fail(Errc::invalid_argument, "the checkpoint is of another run: " + *difference);
  const std::string text = mesh::extras_of(file);
  WEFT_TRY(const Json document, parse_json(text, "checkpoint"));
  WEFT_TRY(auto extras, JsonReader::open(document, "extras"));
  WEFT_TRY(auto run, extras.object("run"));
  WEFT_TRY(const std::string hash, run.string("state_hash"));
  WEFT_CHECK(mesh::restore_weights(mesh(), file));
  WEFT_CHECK(mesh::restore_live(mesh(), file));
  WEFT_CHECK(learning::restore_learner(*learner_, file));
  WEFT_CHECK(load_run(run));
  if (hash != to_string(mesh().state_hash()))
    return fail(Errc::corrupt,
                "the checkpoint's state has the hash " + to_string(mesh().state_hash()) + ", saved was " + hash);
  WEFT_CHECK(prolong());
  if (is_finished_) WEFT_CHECK(measure_held_out());
  return {};
}

Result<std::optional<std::string>> fit_data_paths(const std::string& stream, const learning::StreamOptions& written,
                                                  const SamplePaths& found, const std::string& path) {
  std::optional<std::string> fitted;
  WEFT_TRY(Json section, parse_json(stream.empty() ? "{}" : stream, "stream"));
  bool is_changed = false;
  const auto fit = [&](const char* key, const std::string& own, const std::string& there) {
    if (own.empty() || std::filesystem::path(own).is_absolute()) return;
    const auto way = path_from(path, there);
    if (!way) return;
    section[key] = *way;
    is_changed = true;
  };
  fit("csv", written.csv, found.csv);
  fit("validation", written.validation, found.validation);
  fit("test", written.test, found.test);
  if (!is_changed) return fitted;
  WEFT_TRY(fitted, write_json(section));
  return fitted;
}

Result<std::optional<std::string>> fit_data_paths(const Model& model, const std::string& path) {
  if (model.spec.stream.empty()) return std::optional<std::string>();
  auto stream = learning::read_stream(model.spec.stream);
  if (!stream) return fail(std::move(stream).error().within(model.path));
  return fit_data_paths(model.spec.stream, *stream,
                        {path_within(model.folder, stream->csv), path_within(model.folder, stream->validation),
                         path_within(model.folder, stream->test)},
                        path);
}

Result<Loaded> load(const Model& model, mesh::MeshOptions options) {
  Loaded loaded;
  const auto* entity = model.entity ? &*model.entity : nullptr;
  options.device = "cpu";
  if (entity) options.sessions = mesh::sessions_of(*entity);
  WEFT_TRY(auto mesh, mesh::Mesh::build(model.spec, options));
  loaded.mesh = std::make_unique<mesh::Mesh>(std::move(mesh));
  if (!entity) return loaded;
  WEFT_CHECK(mesh::restore_weights(*loaded.mesh, *entity));
  if (!mesh::holds_live_state(*entity)) return loaded;
  const bool learned = entity->contains("learning/in_flight");
  if (learned) {
    WEFT_TRY(const auto learning, learning::read_learning(model.spec.learning));
    WEFT_TRY(loaded.learner, learning::Learner::build(*loaded.mesh, learning));
  }
  WEFT_CHECK(mesh::restore_live(*loaded.mesh, *entity));
  if (learned) WEFT_CHECK(learning::restore_learner(*loaded.learner, *entity));
  loaded.is_live = true;
  return loaded;
}

Result<ByteSource> encode(Loaded& loaded, const Model& model, bool live, const std::string& path) {
  mesh::CheckpointExtras extras;
  if (live && model.entity) extras.meta_json = mesh::extras_of(*model.entity);
  if (live && loaded.learner) {
    extras.tensors = learning::learner_tensors(*loaded.learner);
    extras.kept_ticks = learning::kept_ticks(*loaded.learner);
  }
  WEFT_TRY(extras.stream, fit_data_paths(model, path));
  return mesh::entity_of(*loaded.mesh, live, extras);
}

}  // namespace weft::cli
