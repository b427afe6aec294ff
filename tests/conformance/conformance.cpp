// SPDX-License-Identifier: Apache-2.0

// One layer type, as it stands in layers.json, in a mesh that learns: the same state on every instruction set, thread
// count, number of sessions and block length, in every numeric type. A type without rows there fails.

#include "learning/learner.hpp"

#include "mesh/device/device_statistics.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/runtime/engine.hpp"

#include "gpu/device.hpp"

#include "kernels/isa.hpp"

#include "core/encoding.hpp"
#include "core/json.hpp"

#include <gtest/gtest.h>

#include "tests/learning/networks.hpp"
#include "tests/mesh/on_device.hpp"
#include "tests/support/source_path.hpp"
#include "tests/thorough.hpp"
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace weft::learning {
namespace {

/// The layer under test.
const std::string kConformanceLayer = [] {
  const char* const layer = std::getenv("WEFT_CONFORMANCE_LAYER");
  return std::string(layer ? layer : "none: WEFT_CONFORMANCE_LAYER names one");
}();

using mesh::testing_support::device_name;

/// Of `dense` every shape of a run, whatever the slice.
bool is_full() { return is_thorough() || kConformanceLayer == "dense"; }

template <class T>
T must(Result<T> result) {
  WEFT_ASSERT(result, result.error().text());
  return *std::move(result);
}
void must(const Status& status) { WEFT_ASSERT(status, status.error().text()); }

Json rows_of_layer() {
  const std::string path = source_path("tests/conformance/layers.json");
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const Json rows = must(parse_json(text.str(), path));
  return rows.contains(kConformanceLayer) ? rows[kConformanceLayer] : Json::array();
}

/// A numeric type, and what integers do to their inputs; types of the values between layers.
struct Stored {
  Dtype dtype = Dtype::float32;
  Activations activations = Activations::int8;
  Dtype outputs = Dtype::float32, errors = Dtype::float32;
  std::optional<Granularity> granularity{};

  std::string name() const {
    return std::string(weft::name(dtype)) + " " + std::string(weft::name(activations)) + " " +
           std::string(granularity ? weft::name(*granularity) : "");
  }
};

/// Activations and errors of each narrow type, and the pair that the literature trains with.
constexpr Stored kNarrow[] = {{.outputs = Dtype::bfloat16, .errors = Dtype::bfloat16},
                              {.outputs = Dtype::fp8_e4m3, .errors = Dtype::fp8_e5m2},
                              {.outputs = Dtype::int8, .errors = Dtype::int8}};

/// The type that a device tries each time, and those that the CPU does: a type takes a device ten times as long. To
/// both come, in turn, a part of all types (WEFT_TEST_SLICE).
constexpr Dtype kOnDevice[] = {Dtype::float32};
constexpr Dtype kOnCpu[] = {Dtype::float32, Dtype::bfloat16, Dtype::int8};

/// Of how many slices of the types a run takes one: of `dense` more than of another layer, on a device less. Layers do
/// not all take the same one.
std::size_t slices_of_types(bool is_on_device) {
  if (is_on_device) return kConformanceLayer == "dense" ? 6 : 36;
  return kConformanceLayer == "dense" ? 4 : 12;
}
bool is_type_in_turn(std::size_t dtype, std::size_t slices) {
  std::size_t layer = 0;
  for (const char letter : kConformanceLayer) layer += static_cast<unsigned char>(letter);
  return (dtype + layer) % slices == test_slice(slices);
}

/// Types of the slice, or all.
std::vector<Stored> types(std::span<const Dtype> always = kOnCpu) {
  const std::size_t slices = slices_of_types(always.data() == kOnDevice);
  std::vector<Stored> all;
  for (std::size_t i = 0; i < std::size_t{kDtypeCount}; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    const bool is_always = std::find(always.begin(), always.end(), dtype) != always.end();
    if (!is_thorough() && !is_always && !is_type_in_turn(i, slices)) continue;
    all.push_back({dtype, Activations::int8});
    if (has_integer_kernel(dtype) && (is_full() || dtype == Dtype::int8))
      for (const Activations activations : {Activations::float32, Activations::int8_row})
        all.push_back({dtype, activations});
    if (has_integer_kernel(dtype) && is_full())
      all.push_back({.dtype = dtype, .granularity = Granularity::block32_f16});
  }
  return all;
}

/// Adds the line that says what this run tries.
void tell_types(std::span<const Dtype> always) {
  std::printf("%s, types:", kConformanceLayer.c_str());
  for (const Stored& stored : types(always)) std::printf(" %s", std::string(name(stored.dtype)).c_str());
  std::printf("\n");
}

/// Three of the layer side by side over the input, a dense layer over all of them, each in a cell of its own.
mesh::NetworkSpec network(const Json& row, const Stored& stored) {
  Json layer = row["layer"];
  layer["type"] = kConformanceLayer;
  const bool watches = row.contains("watches");
  if (watches) layer["from"] = {{0, 1, 1, 0}};
  if (!layer.contains("from")) layer["from"] = {"x"};
  Json layers = Json::array();
  for (int x = 0; x < 3; ++x) {
    layer["at"] = {0, 0, x, 0};
    layers.push_back(layer);
  }
  if (row.contains("tied")) {  // the owner of the weights that the layers borrow
    Json owner = row["tied"];
    owner["at"] = {0, 1, 1, 0};
    layers.push_back(owner);
  }
  if (watches) layers.push_back({{"at", {0, 1, 1, 0}}, {"type", "dense"}, {"out", row["watches"]}, {"from", {"x"}}});
  Json head{{"at", {0, 1, 0, 0}}, {"type", "dense"}, {"out", 4}};
  Json text{{"weft", 2},
            {"seed", 5},
            {"grid", {{"y", 2}, {"x", 3}}},
            {"inputs", {{"x", row["in"]}}},
            {"layers", layers},
            {"outputs", Json::object()}};
  // The layer decides the width of the three outputs: read from a graph without the head.
  const auto bare = must(mesh::Graph::build(must(mesh::read_network(text.dump(), "bare"))));
  const auto first = *bare.find_layer({0, 0, 0, 0});
  const std::size_t width = 3 * bare.nodes()[first].width;
  head["from"] = {{0, 0, 0, 0}, {0, 0, 1, 0}, {0, 0, 2, 0}};
  head["view"] = {width};
  text["layers"].push_back(head);
  text["outputs"]["y"] = {0, 1, 0, 0};
  auto spec = must(mesh::read_network(text.dump(), "conformance"));
  for (mesh::LayerSpec& each : spec.layers) {
    each.activation_dtype = stored.outputs;
    each.gradient_dtype = stored.errors;
    if (each.at.y != 0 || stored.dtype == Dtype::float32) continue;
    each.dtype = stored.dtype;
    each.granularity = stored.granularity;
    each.activations = stored.activations;
    each.quantization_aware = true;
  }
  return spec;
}

bool has_matrix(const Json& row) {
  const auto graph = must(mesh::Graph::build(network(row, {})));
  for (const auto& parameter : graph.nodes()[*graph.find_layer({0, 0, 0, 0})].layer->parameters())
    if (parameter.is_matrix()) return true;
  return false;
}

struct RunShape {
  Rule rule = Rule::backprop;
  Schedule schedule = Schedule::settle;
  std::size_t threads = 1, sessions = 1;
  bool at_once = false;
  bool is_wide = false;  // every operation that can be is cut up among the threads, and all sessions learn
  std::size_t learners = 1;
  mesh::ExecutorKind executor = mesh::ExecutorKind::automatic;
  std::string device = "cpu";
  Late late = Late::none;
  OptimizerKind optimizer = OptimizerKind::momentum;
  bool is_traced = false;  // by eligibility traces and bounded steps

  std::string name() const {
    return std::string(learning::name(rule)) + " " + std::string(learning::name(schedule)) + " " +
           (late == Late::none ? "" : "late " + std::string(learning::name(late)) + " ") +
           (is_traced ? "traced " : "") + std::string(learning::name(optimizer));
  }
};

constexpr OptimizerKind kOptimizers[] = {OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adamw,
                                         OptimizerKind::rmsprop, OptimizerKind::lion};
/// Each in turn, by the number of a run, of a row, and of the slice.
OptimizerKind optimizer_in_turn(std::size_t number) {
  return kOptimizers[(number + test_slice(std::size(kOptimizers))) % std::size(kOptimizers)];
}

/// Targets that come two samples late.
const RunShape kLateRuns[] = {
    {.rule = Rule::backprop, .schedule = Schedule::settle, .late = Late::meet},
    {.rule = Rule::backprop, .schedule = Schedule::pipelined, .late = Late::meet},
    {.rule = Rule::fw_dtp, .schedule = Schedule::pipelined, .late = Late::meet},
    {.rule = Rule::backprop, .schedule = Schedule::settle, .late = Late::again},
    {.rule = Rule::dfa, .schedule = Schedule::pipelined, .late = Late::again},
};

/// By traces, whose targets are gradients.
const RunShape kTracedRun{.late = Late::meet, .optimizer = OptimizerKind::sgd, .is_traced = true};

/// The target rules in turn, by the number of a row and of the slice; they are in the order of rules.def. Of those that
/// keep no past `meet` is refused when pipelined.
void take_rule_in_turn(RunShape& run, std::size_t row) {
  const std::size_t rules = learning::rule_names().size();
  if (run.rule != Rule::backprop) run.rule = static_cast<Rule>(1 + (row + test_slice(rules)) % (rules - 1));
  if (run.rule == Rule::local_ce) run.late = Late::again;
}

/// Those of a row, each with an optimiser in turn, and its target rules too; all of them with every optimiser of the
/// first row of `dense`, and with every rule where nothing is left out.
std::vector<RunShape> late_runs(std::size_t row) {
  std::vector<RunShape> runs;
  const std::size_t rules = learning::rule_names().size();
  for (std::size_t i = 0; i < std::size(kLateRuns); ++i)
    for (const OptimizerKind optimizer : kOptimizers) {
      RunShape run = kLateRuns[i];
      run.optimizer = optimizer;
      const bool takes_all = is_thorough() || (is_full() && row == 0);
      if (!takes_all && optimizer != optimizer_in_turn(i + row)) continue;
      if (!takes_all) take_rule_in_turn(run, row);
      runs.push_back(run);
    }
  for (std::size_t rule = 0; rule < rules && is_thorough(); ++rule)
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined})
      for (const Late late : {Late::meet, Late::again}) {
        RunShape run{.rule = static_cast<Rule>(rule), .schedule = schedule, .late = late};
        run.optimizer = optimizer_in_turn(rule + row);
        if (run.rule != Rule::local_ce || late == Late::again) runs.push_back(run);
      }
  return runs;
}

/// Kept open for the whole program: what it compiled is used by all runs. Null: there is no Vulkan device here.
const gpu::Device* vulkan() {
  static const std::shared_ptr<gpu::Device> device = [] {
    auto opened = gpu::Device::share(device_name(), mesh::testing_support::device_options());
    EXPECT_TRUE(opened || mesh::testing_support::is_device_absent()) << opened.error().text();
    return opened ? *opened : nullptr;
  }();
  return device.get();
}

/// Runs that a device takes this time, beside those of every type: of a row a quarter in turn, of the next row the next
/// quarter. On lavapipe each takes a second or two; that a rule does what it does on the CPU whatever its layers, all
/// rules of learning.device_learning show.
bool is_on_device(std::size_t run) {
  constexpr std::size_t kTurns = 4;
  return is_thorough() || run % kTurns == test_slice(kTurns);
}

/// True for layers whose steps the CPU may take beside a device: the ticks in which commands are executed.
bool sends_commands() { return kConformanceLayer == "metacognition"; }

std::uint64_t device_steps = 0, host_steps = 0;
void note_device(const mesh::DeviceStatistics& statistics) {
  device_steps += statistics.device_steps;
  host_steps += statistics.host_steps;
  EXPECT_EQ(statistics.faults, 0u) << statistics.last_fault;
  EXPECT_EQ(statistics.why_host, "");
  EXPECT_EQ(statistics.replays, 0u);
  EXPECT_GT(statistics.device_steps, 0u);
  if (!sends_commands()) {
    EXPECT_EQ(statistics.host_steps, 0u);
    EXPECT_EQ(statistics.host_cells, 0u) << statistics.why_host_cells;
  } else {
    EXPECT_EQ(statistics.host_cells, 3u) << statistics.why_host_cells;
  }
}

LearningOptions options_of(const RunShape& run) {
  LearningOptions options;
  options.rule = run.rule;
  options.schedule = run.schedule;
  options.optimizer = kernels::default_options(run.optimizer);
  const bool is_normalized = run.optimizer != OptimizerKind::sgd && run.optimizer != OptimizerKind::momentum;
  options.optimizer.lr = run.is_traced ? 1.0f : is_normalized ? 0.001f : 0.01f;
  options.learners = run.learners;
  options.late = run.late;
  options.patience = 3;
  options.traces = run.is_traced;
  return options;
}

/// False for layers with shared weights, and for those that several learners do not give gradients by row: they are
/// refused.
bool takes_traces(const Json& row, const RunShape& run) {
  auto mesh = must(mesh::Mesh::build(network(row, {}), {.threads = 1, .sessions = run.sessions}));
  const auto learner = Learner::build(mesh, options_of(run));
  WEFT_ASSERT(learner || learner.error().code() == Errc::unsupported, learner.error().text());
  return learner.has_value();
}

/// A gradient of the four outputs of each learner, and the steps that traces make by it. Episodes end now and then.
struct TracedTarget {
  std::vector<float> gradient;
  std::vector<TraceSignal> signals;
  TracedTarget(std::uint64_t sample, std::size_t learners) {
    for (std::size_t learner = 0; learner < learners; ++learner) {
      RandomStream random(21, sample * 64 + learner, RandomPurpose::test);
      for (int i = 0; i < 4; ++i) gradient.push_back(random.next_normal());
      signals.push_back({random.next_normal(), 0.8f, 0.5f, (sample + learner) % 4 == 3});
    }
  }
};

std::string hash_of_run(const Json& row, const Stored& stored, const RunShape& run) {
  const std::uint64_t samples = is_full() ? 24 : 10;
  mesh::MeshOptions wanted;
  wanted.threads = run.threads;
  wanted.sessions = run.sessions;
  wanted.grain_bytes = 0;
  wanted.wide = run.is_wide;
  wanted.wide_from = 0;
  wanted.executor = run.executor;
  wanted.executor_seed = 3;
  wanted.pin = false;
  wanted.device = run.device;
  auto mesh = must(mesh::Mesh::build(network(row, stored), wanted));
  auto learner = must(Learner::build(mesh, options_of(run)));
  const std::size_t width = mesh.graph().nodes()[0].width, limit = row.get_or("indices", std::size_t{0});
  std::vector<float> x;
  for (std::uint64_t s = 0; s < samples; ++s)
    for (std::size_t b = 0; b < run.sessions; ++b) {
      RandomStream random(9, s * 64 + b, RandomPurpose::test);
      for (std::size_t j = 0; j < width; ++j)
        x.push_back(limit ? static_cast<float>(random.next_below(static_cast<std::uint32_t>(limit)))
                          : random.next_normal());
    }
  std::vector<std::uint32_t> labels;
  for (std::uint64_t s = 0; s < samples * run.learners; ++s) labels.push_back(static_cast<std::uint32_t>(s * 7 % 4));
  const std::uint64_t step = run.at_once ? samples : 1;
  const std::size_t tick = run.sessions * width;
  for (std::uint64_t s = 0; s < samples && run.late != Late::none; ++s) {
    const mesh::RunInput input{"x", std::span(x).subspan(s * tick, tick)};
    const Ticket ticket = must(learner->observe({&input, 1}));
    if (run.is_traced) {
      const TracedTarget of(s, run.learners);
      const Target target{.output = "y", .gradient = of.gradient, .signals = of.signals};
      must(learner->teach(ticket, {&target, 1}));
      continue;
    }
    const Target target{"y",
                        std::span(labels).subspan((s - std::min<std::uint64_t>(s, 2)) * run.learners, run.learners)};
    if (s >= 2) must(learner->teach(ticket - 2, {&target, 1}));
  }
  for (std::uint64_t s = 0; s < samples && run.late == Late::none; s += step) {
    const mesh::RunInput input{"x", std::span(x).subspan(s * tick, step * tick)};
    const Target target{"y", std::span(labels).subspan(s * run.learners, step * run.learners), {}};
    must(learner->learn({&input, 1}, {&target, 1}, step));
  }
  must(learner->drain());
  if (mesh.device_statistics()) note_device(*mesh.device_statistics());
  WEFT_ASSERT(run.is_wide == (mesh::MeshAccess::engine(mesh).parallel_operations() > 0),
              "a wide mesh is one whose operations are cut up");
  return to_string(mesh.state_hash(run.learners - 1));
}

/// Ticks without learning: one by one against as many at once as the mesh likes.
std::string tick(const Json& row, const Stored& stored, std::size_t threads, bool at_once,
                 const std::string& device = "cpu") {
  constexpr std::uint64_t kTicks = 24;
  mesh::MeshOptions wanted;
  wanted.threads = threads;
  wanted.grain_bytes = 0;
  wanted.pin = false;
  wanted.device = device;
  auto mesh = must(mesh::Mesh::build(network(row, stored), wanted));
  const std::size_t width = mesh.graph().nodes()[0].width, limit = row.get_or("indices", std::size_t{0});
  RandomStream random(13, 0, RandomPurpose::test);
  std::vector<float> x(kTicks * width);
  for (float& value : x)
    value = limit ? static_cast<float>(random.next_below(static_cast<std::uint32_t>(limit))) : random.next_normal();
  if (at_once) {
    const mesh::RunInput input{"x", x};
    must(mesh.run({&input, 1}, kTicks));
  } else {
    for (std::uint64_t t = 0; t < kTicks; ++t) {
      must(mesh.set_input("x", std::span(x).subspan(t * width, width)));
      must(mesh.tick());
    }
  }
  if (mesh.device_statistics()) note_device(*mesh.device_statistics());
  return to_string(mesh.state_hash());
}

/// Adds a line to the file that WEFT_CONFORMANCE_HASHES names: to compare with what another machine wrote.
void tell(const Json& row, const Stored& stored, std::string_view run, const std::string& hash) {
  const char* const path = std::getenv("WEFT_CONFORMANCE_HASHES");
  if (!path) return;
  std::ofstream file(path, std::ios::app);
  file << kConformanceLayer << " " << row.dump() << " " << stored.name() << " " << run << " " << hash << "\n";
}

/// Errors travel through stored weights under every rule alike: two runs with every type of them.
bool is_for_every_type(const RunShape& run) {
  return (run.rule == Rule::backprop && run.schedule == Schedule::settle) ||
         (run.rule == Rule::fw_dtp && run.schedule == Schedule::pipelined);
}
/// Every rule under both schedules, each by an optimiser in turn: the same one on a device, where each takes time to
/// compile.
std::vector<RunShape> rule_runs(std::optional<std::size_t> row) {
  std::vector<RunShape> runs;
  for (std::size_t i = 0; i < learning::rule_names().size(); ++i)
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      RunShape run{static_cast<Rule>(i), schedule};
      if (row && !is_for_every_type(run)) run.optimizer = optimizer_in_turn(i + *row + (schedule == Schedule::settle));
      runs.push_back(run);
    }
  return runs;
}

TEST(Conformance, HasRows) {
  tell_types(kOnCpu);
  EXPECT_FALSE(rows_of_layer().empty()) << kConformanceLayer << ": no rows in tests/conformance/layers.json";
}

/// A line of JSON for a binding to replay: network, section "learning" (absent: ticks alone), inputs, labels, hash.
void write_row(std::ofstream& to, std::string row_name, const mesh::NetworkSpec& spec, const Json& learning,
               std::span<const float> x, std::span<const std::uint32_t> labels, const std::string& hash) {
  Json line{{"name", std::move(row_name)}, {"hash", hash}, {"x", Json::array()}, {"labels", Json::array()}};
  line["network"] = must(parse_json(must(mesh::write_network(spec, -1)), "network"));
  if (!learning.is_null()) line["learning"] = learning;
  for (const float value : x) line["x"].push_back(value);
  for (const std::uint32_t label : labels) line["labels"].push_back(label);
  to << line.dump() << "\n";
}

// Every row in every type, for programs that reach a mesh through another language (tests/bindings): what they are to
// do, and the state in which it ends here. Not a test of its own.
TEST(Conformance, WritesRowsForOtherLanguages) {
  const char* const path = std::getenv("WEFT_CONFORMANCE_ROWS");
  if (!path) GTEST_SKIP() << "WEFT_CONFORMANCE_ROWS names no file";
  std::ofstream file(path, std::ios::app);
  constexpr std::uint64_t kSamples = 8;
  std::size_t number = 0;
  for (const Json& row : rows_of_layer()) {
    ++number;
    const bool is_stored = has_matrix(row);
    const std::size_t limit = row.get_or("indices", std::size_t{0});
    for (std::size_t i = 0; i < std::size_t{kDtypeCount}; ++i) {
      const Stored stored{static_cast<Dtype>(i), Activations::int8};
      if (!is_stored && stored.dtype != Dtype::float32) continue;
      const mesh::NetworkSpec spec = network(row, stored);
      const std::string row_name =
          kConformanceLayer + " " + std::to_string(number) + " " + std::string(name(stored.dtype));
      std::vector<std::uint32_t> labels;
      for (std::uint64_t s = 0; s < kSamples; ++s) labels.push_back(static_cast<std::uint32_t>(s * 7 % 4));
      for (const bool learns : {false, true})
        for (const char* const schedule : {"settle", "pipelined"}) {
          if (!learns && std::string_view(schedule) == "pipelined") continue;
          auto mesh = must(mesh::Mesh::build(spec, {.threads = 1}));
          const std::size_t width = mesh.graph().nodes()[0].width;
          RandomStream random(17, number, RandomPurpose::test);
          std::vector<float> x(kSamples * width);
          for (float& value : x)
            value =
                limit ? static_cast<float>(random.next_below(static_cast<std::uint32_t>(limit))) : random.next_normal();
          const mesh::RunInput input{"x", x};
          const Target target{"y", labels};
          if (!learns) {
            must(mesh.run({&input, 1}, kSamples));
            write_row(file, row_name + " ticks", spec, nullptr, x, {}, to_string(mesh.state_hash()));
            continue;
          }
          const Json section{{"rule", "backprop"}, {"schedule", schedule}, {"optimizer", {{"lr", 0.01}}}};
          auto learner = must(Learner::build(mesh, must(read_learning(section.dump()))));
          must(learner->learn({&input, 1}, {&target, 1}, kSamples));
          must(learner->drain());
          write_row(file, row_name + " " + schedule, spec, section, x, labels, to_string(mesh.state_hash()));
        }
    }
  }
  EXPECT_TRUE(file.good()) << path;
}

TEST(Conformance, LearningEndsInOneStateWhateverComputesIt) {
  std::size_t number = 0;
  for (const Json& row : rows_of_layer()) {
    ++number;
    const bool is_stored = has_matrix(row);
    for (const Stored& stored : types()) {
      if (!is_stored && stored.dtype != Dtype::float32) continue;
      SCOPED_TRACE(row.dump() + " " + stored.name());
      for (const RunShape& base : rule_runs(number)) {
        if (!is_for_every_type(base) && stored.dtype != Dtype::float32) continue;
        const std::string first = hash_of_run(row, stored, base);
        tell(row, stored, base.name(), first);
        for (const kernels::Isa isa : kernels::available_isas()) {
          const test::ForIsa scope(isa);
          for (const std::size_t threads : {1, 2, 7})
            for (const std::size_t sessions : {1, 3})
              for (const bool at_once : {false, true}) {
                // The slice turns two of the three at once: what any of them breaks shows all the same.
                const bool is_in_slice =
                    threads == 2 ? sessions == 3 && at_once : threads == 7 && sessions == 1 && is_for_every_type(base);
                if (!is_full() && !is_in_slice) continue;
                RunShape run = base;
                run.threads = threads, run.sessions = sessions, run.at_once = at_once;
                run.executor = at_once ? mesh::ExecutorKind::graph : mesh::ExecutorKind::resident;
                ASSERT_EQ(hash_of_run(row, stored, run), first)
                    << base.name() << ", " << name(isa) << ", " << threads << " threads, " << sessions << " sessions, "
                    << (at_once ? "at once" : "one by one") << ", " << name(run.executor);
              }
        }
      }
    }
  }
}

TEST(Conformance, LateTargetsEndInOneStateWhateverComputesIt) {
  std::size_t number = 0;
  for (const Json& row : rows_of_layer())
    for (const RunShape& base : late_runs(number++)) {
      SCOPED_TRACE(row.dump() + " " + base.name());
      const std::string first = hash_of_run(row, {}, base);
      tell(row, {}, base.name(), first);
      for (const kernels::Isa isa : kernels::available_isas()) {
        const test::ForIsa scope(isa);
        for (const std::size_t threads : {1, 2, 7}) {
          RunShape run = base;
          run.threads = threads;
          run.sessions = threads == 2 ? 3 : 1;
          ASSERT_EQ(hash_of_run(row, {}, run), first) << name(isa) << ", " << threads << " threads";
        }
      }
    }
}

TEST(Conformance, TracesEndInOneStateWhateverComputesThem) {
  for (const Json& row : rows_of_layer()) {
    if (!takes_traces(row, kTracedRun)) continue;
    const bool is_stored = has_matrix(row);
    for (const Stored& stored : types()) {
      if (!is_stored && stored.dtype != Dtype::float32) continue;
      SCOPED_TRACE(row.dump() + " " + stored.name());
      const std::string first = hash_of_run(row, stored, kTracedRun);
      tell(row, stored, kTracedRun.name(), first);
      for (const kernels::Isa isa : kernels::available_isas()) {
        const test::ForIsa scope(isa);
        for (const std::size_t threads : {1, 2, 7}) {
          RunShape run = kTracedRun;
          run.threads = threads;
          run.sessions = threads == 2 ? 3 : 1;
          ASSERT_EQ(hash_of_run(row, stored, run), first) << name(isa) << ", " << threads << " threads";
        }
      }
    }
  }
}

TEST(Conformance, ThreadsInsideOperationsChangeNothing) {
  for (const Json& row : rows_of_layer()) {
    const bool is_stored = has_matrix(row);
    for (const Stored& stored : types()) {
      if (!is_stored && stored.dtype != Dtype::float32) continue;
      SCOPED_TRACE(row.dump() + " " + stored.name());
      RunShape run{Rule::backprop, Schedule::pipelined, 1, 3, true, false, 3};
      const std::string first = hash_of_run(row, stored, run);
      run.is_wide = true;
      for (const kernels::Isa isa : kernels::available_isas()) {
        const test::ForIsa scope(isa);
        for (const std::size_t threads : {2, 7})
          for (const auto executor : {mesh::ExecutorKind::automatic, mesh::ExecutorKind::deterministic}) {
            if (!is_full() && (threads == 2) != (executor == mesh::ExecutorKind::automatic)) continue;
            run.threads = threads, run.executor = executor;
            ASSERT_EQ(hash_of_run(row, stored, run), first)
                << name(isa) << ", " << threads
                << (executor == mesh::ExecutorKind::automatic ? " threads" : " parts in a drawn order");
          }
      }
    }
  }
}

// Rounding is the same whatever computes it, and a kept past comes back to the same bits.
TEST(Conformance, NarrowActivationsAndErrorsEndInOneStateWhateverComputesThem) {
  for (const Json& row : rows_of_layer())
    for (const Stored& stored : kNarrow) {
      SCOPED_TRACE(row.dump() + " " + std::string(name(stored.outputs)));
      std::vector<RunShape> bases{{Rule::backprop, Schedule::settle},   {Rule::backprop, Schedule::pipelined},
                                  {Rule::fw_dtp, Schedule::pipelined},  {Rule::dfa, Schedule::settle},
                                  {Rule::dtp, Schedule::pipelined},     {Rule::chain, Schedule::settle},
                                  {Rule::local_ce, Schedule::pipelined}};
      if (is_thorough() || stored.outputs == Dtype::int8)
        bases.insert(bases.end(), std::begin(kLateRuns), std::end(kLateRuns));
      for (const RunShape& base : bases) {
        const std::string first = hash_of_run(row, stored, base);
        tell(row, stored, "narrow " + std::string(name(stored.outputs)), first);
        for (const kernels::Isa isa : kernels::available_isas()) {
          if (!is_thorough() && isa != kernels::available_isas().front()) continue;
          const test::ForIsa scope(isa);
          for (const std::size_t threads : {2, 7}) {
            if (!is_thorough() && threads == 7 && base.rule != Rule::backprop) continue;
            RunShape run = base;
            run.threads = threads;
            run.sessions = threads == 2 ? 3 : 1;
            run.at_once = threads == 2;
            ASSERT_EQ(hash_of_run(row, stored, run), first)
                << name(base.rule) << ", " << name(isa) << ", " << threads << " threads";
          }
        }
      }
      ASSERT_EQ(tick(row, stored, 2, true), tick(row, stored, 1, false));
    }
}

// A pass in topological order against ticks while the input is held. With hidden state or noise ticks are no one pass.
TEST(Conformance, ACombinationalPassSaysWhatTheSettledMeshSays) {
  for (const Json& row : rows_of_layer()) {
    const bool is_stored = has_matrix(row);
    std::vector<Stored> all = types();
    all.insert(all.end(), std::begin(kNarrow), std::end(kNarrow));
    for (const Stored& stored : all) {
      if (!is_stored && stored.dtype != Dtype::float32) continue;
      SCOPED_TRACE(row.dump() + " " + stored.name() + " " + std::string(name(stored.outputs)));
      mesh::MeshOptions wanted;
      wanted.threads = 1;
      auto mesh = must(mesh::Mesh::build(network(row, stored), wanted));
      const mesh::Graph& graph = mesh.graph();
      if (graph.nodes()[*graph.find_layer({0, 0, 0, 0})].layer->state_size() != 0) continue;
      RandomStream random(17, 0, RandomPurpose::test);
      const std::size_t limit = row.get_or("indices", std::size_t{0});
      std::vector<float> x(graph.nodes()[0].width), pass(4);
      for (float& value : x)
        value = limit ? static_cast<float>(random.next_below(static_cast<std::uint32_t>(limit))) : random.next_normal();
      const mesh::RunInput input{"x", x};
      const mesh::RunOutput output{"y", pass};
      must(mesh.forward({&input, 1}, 1, {&output, 1}));
      must(mesh.set_input("x", x));
      must(mesh.tick(graph.settle_ticks()));
      const std::span<const float> settled = must(mesh.output("y"));
      for (std::size_t i = 0; i < pass.size(); ++i)
        EXPECT_EQ(std::bit_cast<std::uint32_t>(pass[i]), std::bit_cast<std::uint32_t>(settled[i])) << i;
    }
  }
}

TEST(Conformance, TicksEndInOneStateHoweverManyAtOnce) {
  for (const Json& row : rows_of_layer()) {
    const bool is_stored = has_matrix(row);
    for (const Stored& stored : types()) {
      if (!is_stored && stored.dtype != Dtype::float32) continue;
      SCOPED_TRACE(row.dump() + " " + stored.name());
      const std::string first = tick(row, stored, 1, false);
      tell(row, stored, "ticks", first);
      for (const kernels::Isa isa : kernels::available_isas()) {
        const test::ForIsa scope(isa);
        ASSERT_EQ(tick(row, stored, 2, true), first) << name(isa);
        if (!is_full()) continue;
        ASSERT_EQ(tick(row, stored, 7, false), first) << name(isa);
      }
    }
  }
}

// The column of the matrix that a GPU is: lavapipe where there is no other.
TEST(Conformance, AGpuGivesTheCpusBits) {
  if (!vulkan()) {
    if (!HasFailure()) GTEST_SKIP() << "no Vulkan device";
    return;
  }
  tell_types(kOnDevice);
  std::size_t number = 0;
  for (const Json& row : rows_of_layer()) {
    ++number;
    const bool is_stored = has_matrix(row);
    for (const Stored& stored : types(kOnDevice)) {
      if (!is_stored && stored.dtype != Dtype::float32) continue;
      SCOPED_TRACE(row.dump() + " " + stored.name());
      const std::string ticked = tick(row, stored, 1, false);
      ASSERT_EQ(tick(row, stored, 1, false, device_name()), ticked);
      ASSERT_EQ(tick(row, stored, 1, true, device_name()), ticked);
      const std::vector<RunShape> rules = rule_runs(std::nullopt);
      for (std::size_t i = 0; i < rules.size(); ++i) {
        RunShape run = rules[i];
        if (!is_for_every_type(run) && (stored.dtype != Dtype::float32 || !is_on_device(i + number))) continue;
        run.at_once = true;
        run.sessions = 3;
        const std::string first = hash_of_run(row, stored, run);
        run.device = device_name();
        ASSERT_EQ(hash_of_run(row, stored, run), first) << "rule " << static_cast<int>(run.rule);
      }
    }
  }
  for (const Json& row : rows_of_layer()) {
    const bool is_stored = has_matrix(row);
    for (const std::size_t learners : {1, 3}) {
      RunShape run = kTracedRun;
      run.learners = run.sessions = learners;
      if (!takes_traces(row, run)) continue;
      for (const Stored& stored : types(kOnDevice)) {
        if (!is_stored && stored.dtype != Dtype::float32) continue;
        SCOPED_TRACE(row.dump() + " " + stored.name() + " " + run.name());
        run.device = "cpu";
        const std::string first = hash_of_run(row, stored, run);
        run.device = device_name();
        ASSERT_EQ(hash_of_run(row, stored, run), first) << learners << " learners";
      }
    }
  }
  number = 0;
  for (const Json& row : rows_of_layer()) {
    std::vector<RunShape> runs(std::begin(kLateRuns), std::end(kLateRuns));
    if (is_thorough()) runs = late_runs(number);
    for (std::size_t i = 0; i < runs.size() && !is_thorough(); ++i) take_rule_in_turn(runs[i], number + i);
    // Each optimiser takes time to compile.
    for (std::size_t i = 0; i < runs.size() && is_full() && !is_thorough() && number == 0; ++i)
      runs[i].optimizer = optimizer_in_turn(i);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      RunShape run = runs[i];
      if (!is_on_device(i + number)) continue;
      SCOPED_TRACE(row.dump() + " " + run.name());
      const std::string first = hash_of_run(row, {}, run);
      run.device = device_name();
      ASSERT_EQ(hash_of_run(row, {}, run), first);
    }
    ++number;
  }
  for (const std::string& error : vulkan()->validation_errors()) ADD_FAILURE() << "validation layer: " << error;
  std::printf("%s, validation %s: %llu steps on the device, %llu on the CPU\n", kConformanceLayer.c_str(),
              vulkan()->validates() ? "on" : "off", static_cast<unsigned long long>(device_steps),
              static_cast<unsigned long long>(host_steps));
}

}  // namespace
}  // namespace weft::learning
