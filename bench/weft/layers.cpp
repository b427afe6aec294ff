// SPDX-License-Identifier: Apache-2.0
// Training steps of whole layers - forward, backward, SGD - against PyTorch's, both on the machine's two threads, each
// network in a process of its own, so that its peak of memory is its own too. The three processes of a row (Weft,
// PyTorch on one thread and on two; the better one counts) take turns, some steps each, and sleep between.
//
// A step of Weft's is a tick of the mesh in which every cell fires for a new sample of all sessions (the batch) and
// learns from an earlier one (schedule "pipelined"): input ports, loss, checks and hashes' upkeep are counted.

#include "learning/learner.hpp"

#include "mesh/mesh.hpp"

#include "core/philox.hpp"

#include <sys/resource.h>
#include <sys/wait.h>

#include <unistd.h>

#include "bench/peers/measure.hpp"
#include "bench/weft/must.hpp"
#include "bench/weft/rows.hpp"
#include "tests/support/source_path.hpp"
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

namespace weft::bench {
namespace {

constexpr std::uint64_t kLayerSamples = 8;
constexpr std::size_t kLayerThreads = 2;

struct Network {
  std::string name;
  std::size_t sessions = 0;
  double multiply_adds = 0;  // of a step: forward, weight gradients, gradients of inputs that are not the network's own
  int steps = 0;             // of a turn: some 20 ms
  bool has_classes = false;
  mesh::NetworkSpec (*spec)() = nullptr;
};

mesh::NetworkSpec mlp() {
  using kernels::Activation;
  return mesh::NetworkBuilder("mlp", {1, 1, 3, 1})
      .input("in", 784)
      .dense({0, 0, 0, 0}, 256, Activation::relu)
      .from({"in"})
      .dense({0, 0, 1, 0}, 128, Activation::relu)
      .dense({0, 0, 2, 0}, 10)
      .output("out", {0, 0, 2, 0})
      .seed(1)
      .spec();
}

mesh::LayerSpec inner(std::string type, std::size_t out, mesh::Options options) {
  mesh::LayerSpec layer;
  layer.type = std::move(type);
  layer.out = out;
  layer.options = std::move(options);
  return layer;
}

/// In one cell: images between convolutions are large, and a cell keeps no history of what is inside it.
mesh::NetworkSpec convolution() {
  const mesh::Options options{{"kernel", 3.0}, {"padding", 1.0}, {"activation", std::string("relu")}};
  mesh::LayerSpec classes = inner("dense", 10, {});
  classes.view = Shape{32};
  return mesh::NetworkBuilder("convolution", {1, 1, 1, 1})
      .input("in", Shape{1, 28, 28})
      .layer({0, 0, 0, 0}, "sequential")
      .from({"in"})
      .inside({inner("conv2d", 16, options), inner("conv2d", 32, options),
               inner("adaptive_avg_pool", 0, {{"size", std::vector<double>{1, 1}}}), classes})
      .output("out", {0, 0, 0, 0})
      .seed(1)
      .spec();
}

mesh::NetworkSpec lstm() {
  return mesh::NetworkBuilder("lstm", {1, 1, 1, 1})
      .input("in", Shape{32, 128})
      .layer({0, 0, 0, 0}, "lstm", 128)
      .from({"in"})
      .output("out", {0, 0, 0, 0})
      .seed(1)
      .spec();
}

mesh::NetworkSpec attention() {
  return mesh::NetworkBuilder("attention", {1, 1, 1, 1})
      .input("in", Shape{128, 256})
      .layer({0, 0, 0, 0}, "attention", 256)
      .from({"in"})
      .option("heads", 8.0)
      .output("out", {0, 0, 0, 0})
      .seed(1)
      .spec();
}

const std::array<Network, 4>& networks() {
  constexpr double kConv1 = 784.0 * 9 * 16, kConv2 = 784.0 * 144 * 32;
  constexpr double kSequence = 32.0 * 512 * 128, kProjection = 128.0 * 256 * 256, kScores = 128.0 * 128 * 256;
  static const std::array<Network, 4> all{
      Network{"mlp", 32, 32 * (2 * 784.0 * 256 + 3 * (256.0 * 128 + 128 * 10)), 100, true, mlp},
      Network{"convolution", 32, 32 * (2 * kConv1 + 3 * kConv2), 10, true, convolution},
      Network{"lstm", 32, 32 * (2 * kSequence + 3 * kSequence), 5, false, lstm},
      Network{"attention", 4, 4 * (3 * 2 * kProjection + 3 * kProjection + (2 + 5) * kScores), 5, false, attention}};
  return all;
}

/// Steps of one network, by a learner on a mesh.
class Steps {
 public:
  explicit Steps(const Network& network) : mesh_(build(network)), learner_(must(build(mesh_, network))) {
    const auto& graph = mesh_.graph();
    const std::size_t in = graph.nodes()[0].width, out = graph.nodes().back().width,
                      rows = kLayerSamples * network.sessions;
    RandomStream random(1, 0, RandomPurpose::test);
    inputs_.resize(rows * in);
    for (float& value : inputs_) value = random.next_normal();
    if (network.has_classes) {
      labels_.resize(rows);
      for (auto& label : labels_) label = random.next_below(10);
    } else {
      values_.resize(rows * out);
      for (float& value : values_) value = random.next_normal();
    }
  }
  /// Median seconds of a step.
  double run(int steps) {
    const mesh::RunInput input{"in", inputs_};
    const learning::Target target{"out", labels_, values_};
    std::vector<double> times;
    for (int done = 0; done < steps; done += static_cast<int>(kLayerSamples)) {
      const auto begin = std::chrono::steady_clock::now();
      if (const Status learned = learner_->learn({&input, 1}, {&target, 1}, kLayerSamples); !learned) {
        std::fprintf(stderr, "weft: error: %s\n", learned.error().text().c_str());
        std::exit(1);
      }
      times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / kLayerSamples);
      learner_->clear_scores();
    }
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    return times[times.size() / 2];
  }

 private:
  static mesh::Mesh build(const Network& network) {
    mesh::MeshOptions options;
    options.threads = kLayerThreads;
    options.sessions = network.sessions;
    return must(mesh::Mesh::build(network.spec(), options));
  }
  static Result<std::unique_ptr<learning::Learner>> build(mesh::Mesh& mesh, const Network& network) {
    learning::LearningOptions options;
    options.rule = learning::Rule::backprop;
    options.learners = network.sessions;
    options.schedule = learning::Schedule::pipelined;
    options.loss = network.has_classes ? learning::Loss::cross_entropy : learning::Loss::mse;
    options.optimizer.kind = learning::OptimizerKind::sgd;
    options.optimizer.lr = 1e-3f;
    return learning::Learner::build(mesh, options);
  }
  mesh::Mesh mesh_;
  std::unique_ptr<learning::Learner> learner_;
  std::vector<float> inputs_, values_;
  std::vector<std::uint32_t> labels_;
};

/// A process that does steps when asked: it reads their number, and writes the seconds of one and its peak of memory.
class Contender {
 public:
  explicit Contender(const std::vector<std::string>& words) {
    int to[2], from[2];
    if (pipe(to) != 0 || pipe(from) != 0) return;
    process_ = fork();
    if (process_ == 0) {
      dup2(to[0], 0);
      dup2(from[1], 1);
      for (const int end : {to[0], to[1], from[0], from[1]}) close(end);
      std::vector<char*> arguments;
      for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
      arguments.push_back(nullptr);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    close(to[0]);
    close(from[1]);
    ask_ = fdopen(to[1], "w");
    answer_ = fdopen(from[0], "r");
  }
  ~Contender() {
    if (ask_) std::fclose(ask_);
    if (answer_) std::fclose(answer_);
    if (process_ > 0) waitpid(process_, nullptr, 0);
  }
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;

  /// Seconds of a step; 0 when the process is not there.
  double steps(int count) {
    if (!ask_ || !answer_) return 0;
    std::fprintf(ask_, "%d\n", count);
    std::fflush(ask_);
    double seconds = 0;
    long peak = 0;
    if (std::fscanf(answer_, "%lf %ld", &seconds, &peak) != 2) return 0;
    peak_ = std::max(peak_, peak);
    return seconds;
  }
  double peak_mebibytes() const { return static_cast<double>(peak_) / 1024; }

 private:
  pid_t process_ = -1;
  std::FILE *ask_ = nullptr, *answer_ = nullptr;
  long peak_ = 0;
};

double at(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

// A process that ends early is told by what it does not answer.
void race_network(Rows& rows, const Network& network, const std::string& self) {
  const std::string script = source_path("bench/peers/torch_steps.py");
  Contender weft({self, "layers", "--steps-of", network.name});
  Contender one({"/usr/bin/python3", script, network.name, "1"}), two({"/usr/bin/python3", script, network.name, "2"});
  const int steps = network.steps, rounds = rows.settings().quick ? 5 : 31;
  std::array<std::vector<double>, 3> times;
  std::vector<double> ratios, peaks;
  const std::array<Contender*, 3> all{&weft, &one, &two};
  for (Contender* each : all) each->steps(3 * steps);  // warm
  if (weft.steps(steps) == 0) std::exit(1);            // it has said why
  const bool has_peer = one.steps(steps) > 0 && two.steps(steps) > 0;
  if (!has_peer) std::fprintf(stderr, "weft: no PyTorch here (python3-torch): %s runs alone\n", network.name.c_str());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < (has_peer ? 3u : 1u); ++i) times[i].push_back(all[i]->steps(steps));
    const auto begin = std::chrono::steady_clock::now();
    const double operations = fma_burst();
    peaks.push_back(operations / 2 / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  const double own = at(times[0], 0.5);
  Row row{"layers/" + network.name,
          own * 1e6,
          "",
          {},
          {},
          network.multiply_adds / (kLayerThreads * at(peaks, 0.5)) * 1e6,
          "us"};
  if (!has_peer) return rows.add(row);
  const std::size_t best = at(times[1], 0.5) < at(times[2], 0.5) ? 1 : 2;
  for (std::size_t i = 0; i < times[0].size(); ++i) ratios.push_back(times[best][i] / times[0][i]);
  row.peer = best == 1 ? "pytorch, 1 thread" : "pytorch, 2 threads";
  row.peer_value = at(times[best], 0.5) * 1e6;
  row.ratio = at(ratios, 0.5);
  row.ratio_range = {at(ratios, 0.25), at(ratios, 0.75)};
  rows.add(row);
  const double memory = all[best]->peak_mebibytes();
  rows.add({"layers/" + network.name + "/memory",
            weft.peak_mebibytes(),
            row.peer,
            memory,
            memory / weft.peak_mebibytes(),
            {},
            "MiB"});
}

}  // namespace

int serve_steps(const std::string& name) {
  for (const Network& network : networks()) {
    if (network.name != name) continue;
    Steps steps(network);
    for (int count = 0; std::scanf("%d", &count) == 1;) {
      const double seconds = steps.run(count);
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      std::printf("%.9f %ld\n", seconds, usage.ru_maxrss);
      std::fflush(stdout);
    }
    return 0;
  }
  return 2;
}

void bench_layers(Rows& rows) {
  std::signal(SIGPIPE, SIG_IGN);
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  for (const Network& network : networks())
    if (rows.settings().only.empty() || rows.settings().only == network.name) race_network(rows, network, self);
}

}  // namespace weft::bench
