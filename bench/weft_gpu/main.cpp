// SPDX-License-Identifier: Apache-2.0
// weft-bench-gpu: what `weft bench gpu` starts. Each figure stands beside the device's own copy bandwidth, measured in
// this run, and beside PyTorch's on CUDA where there is one (bench/peers/torch_gpu.py).

#include "learning/learner.hpp"

#include "mesh/mesh.hpp"

#include "formats/json.hpp"

#include "gpu/device.hpp"
#include "gpu/memory.hpp"
#include "gpu/program.hpp"
#include "gpu/vulkan_stream.hpp"

#include "core/philox.hpp"

#include <nlohmann/json.hpp>

#include "bench/weft/must.hpp"
#include "bench/weft/rows.hpp"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weft::bench {
namespace {

constexpr std::size_t kWidth = 64;

struct Request {
  Settings settings;
  std::string device = "vulkan";
  bool has_peer = true;
  std::vector<std::string> only;  // sections; none: all

  bool wants(const char* section) const {
    return only.empty() || std::find(only.begin(), only.end(), section) != only.end();
  }
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Seconds of one step of `steps`: medians and quartiles over rounds, after 100 ms to wake the device's clock.
struct Times {
  double median = 0, low = 0, high = 0;
};
Times measure(const std::function<void()>& run, double steps, int rounds) {
  for (const double end = now() + 0.1; now() < end;) run();
  std::vector<double> all;
  for (int i = 0; i < rounds; ++i) {
    const double begin = now();
    run();
    all.push_back((now() - begin) / steps);
  }
  std::sort(all.begin(), all.end());
  return {all[all.size() / 2], all[all.size() / 4], all[all.size() * 3 / 4]};
}

void check(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "weft: error: %s\n", status.error().text().c_str());
  std::exit(exit_code(status.error().code()));
}

nlohmann::json peer(const Request& request) {
  if (!request.has_peer) return nlohmann::json::object();
  const std::string command = std::string("python3 '") + WEFT_SOURCE_DIR + "/bench/peers/torch_gpu.py' 2>/dev/null";
  std::string text;
  if (FILE* const pipe = popen(command.c_str(), "r")) {
    char block[4096];
    for (std::size_t got; (got = fread(block, 1, sizeof block, pipe)) > 0;) text.append(block, got);
    pclose(pipe);
  }
  const auto parsed = formats::parse_json(text, "torch_gpu.py");
  if (parsed) return *parsed;
  std::fprintf(stderr, "weft: no PyTorch with CUDA here: rows stand without it\n");
  return nlohmann::json::object();
}

class Bench {
 public:
  Bench(Rows& rows, const Request& request)
      : rows_(rows),
        request_(request),
        rounds_(request.settings.quick ? 3 : 15),
        device_(must(gpu::Device::share(request.device))),
        stream_(must(device_->make_stream())),
        peer_(peer(request)) {
    std::fprintf(stderr, "weft: %s, shaders: %s\n", device_->info().name.c_str(), device_->self_test().variant.c_str());
    is_real_ = device_->info().kind != "cpu";
  }

  void all() {
    copy();
    if (request_.wants("gemv")) gemv();
    if (request_.wants("gemm")) gemm();
    if (request_.wants("products")) products();
    if (request_.wants("ticks")) ticks();
    if (request_.wants("mlp")) mlp();
  }

 private:
  void ticks() {
    std::vector<std::size_t> sizes =
        is_real_ ? std::vector<std::size_t>{4096, 65536, 262144} : std::vector<std::size_t>{256, 4096};
    for (const std::size_t cells : sizes) {
      double float32 = 0;
      for (const Encoding& encoding :
           {Encoding(Dtype::float32), Encoding(Dtype::int8), Encoding(Dtype::int4),
            Encoding(Dtype::int4, Granularity::channel), Encoding(Dtype::ternary), Encoding(Dtype::binary)}) {
        const double seconds = tick(cells, encoding, float32);
        if (encoding.dtype == Dtype::float32) float32 = seconds;
      }
    }
  }
  std::optional<double> of_peer(const char* name) const {
    return peer_.contains(name) ? std::optional<double>(peer_[name].get<double>()) : std::nullopt;
  }
  gpu::Buffer floats(std::size_t count) {
    auto buffer = must(device_->memory().allocate(count * sizeof(float), "a benchmark"));
    stream_->fill(0.5f, {buffer.data(), 1, count, count});
    check(stream_->finish());
    return buffer;
  }
  std::shared_ptr<gpu::Program> program(const std::function<void()>& record) {
    check(stream_->begin_program());
    record();
    return must(stream_->end_program());
  }
  Times time(const std::shared_ptr<gpu::Program>& program, std::uint64_t times) {
    return measure(
        [&] {
          check(stream_->run(program, times));
          check(stream_->finish());
        },
        static_cast<double>(times), rounds_);
  }

  void copy() {
    const std::size_t count = std::size_t{1} << (is_real_ ? 28 : 22);
    const gpu::Buffer a = floats(count), b = floats(count);
    const auto copying = program([&] { stream_->copy({a.data(), 1, count, count}, {b.data(), 1, count, count}); });
    const double bytes = 8.0 * static_cast<double>(count);
    bandwidth_ = bytes / time(copying, 20).median;
    Row row{"gpu/copy", bandwidth_ * 1e-9, "", {}, {}, {}, "GB/s"};
    if (const auto theirs = of_peer("copy")) {
      const double rate = peer_["copy_bytes"].get<double>() / *theirs;
      row.peer = "pytorch copy_", row.peer_value = rate * 1e-9, row.ratio = bandwidth_ / rate;
      bandwidth_ = std::max(bandwidth_, rate);  // what the card can do
    }
    rows_.add(row);
  }

  void gemv() {
    const std::size_t n = is_real_ ? 8192 : 1024;
    const gpu::Buffer w = floats(n * n), x = floats(n), y = floats(n);
    const auto product = program([&] {
      stream_->linear(kernels::ConstPanels{w.data(), n, n}, nullptr, {x.data(), 1, n, n}, kernels::Activation::linear,
                      {}, {y.data(), 1, n, n});
    });
    const double seconds = time(product, 200).median, bytes = 4.0 * static_cast<double>(n * n);
    Row row{"gpu/gemv " + std::to_string(n), bytes / seconds * 1e-9, "", {}, {}, bandwidth_ * 1e-9, "GB/s"};
    if (const auto theirs = of_peer("gemv"))
      row.peer = "torch.mv", row.peer_value = bytes / *theirs * 1e-9, row.ratio = *theirs / seconds;
    rows_.add(row);
  }

  void gemm() {
    const std::size_t n = is_real_ ? 4096 : 512;
    const gpu::Buffer w = floats(n * n), x = floats(n * n), y = floats(n * n);
    const auto product = program([&] {
      stream_->linear(kernels::ConstPanels{w.data(), n, n}, nullptr, {x.data(), n, n, n}, kernels::Activation::linear,
                      {}, {y.data(), n, n, n});
    });
    const double seconds = time(product, is_real_ ? 5 : 1).median;
    const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    Row row{"gpu/gemm " + std::to_string(n), flops / seconds * 1e-12, "", {}, {}, {}, "TFLOP/s"};
    if (const auto theirs = of_peer("gemm"))
      row.peer = "torch.mm, no TF32", row.peer_value = flops / *theirs * 1e-12, row.ratio = *theirs / seconds;
    rows_.add(row);
  }

  /// What a training step of the perceptron below is made of, at its widest layer.
  void products() {
    const std::size_t batch = is_real_ ? 256 : 16, n = is_real_ ? 2048 : 64;
    const gpu::Buffer w = floats(n * n), x = floats(batch * n), y = floats(batch * n);
    const double flops = 2.0 * static_cast<double>(batch) * static_cast<double>(n) * static_cast<double>(n);
    const kernels::Panels panels{w.data(), n, n};
    const kernels::Rows from{x.data(), batch, n, n}, to{y.data(), batch, n, n};
    const auto row = [&](const char* name, const std::function<void()>& record) {
      const double seconds = time(program(record), 50).median;
      rows_.add(
          {"gpu/" + std::string(name) + " " + std::to_string(batch) + "x" + std::to_string(n) + "x" + std::to_string(n),
           flops / seconds * 1e-12,
           "",
           {},
           {},
           {},
           "TFLOP/s"});
    };
    row("linear",
        [&] { stream_->linear(kernels::ConstPanels(panels), nullptr, from, kernels::Activation::linear, {}, to); });
    row("linear_transposed", [&] { stream_->linear_transposed(kernels::ConstPanels(panels), from, to); });
    row("outer_accumulate", [&] { stream_->outer_accumulate(to, from, panels); });
  }

  /// Seconds of a tick from one copy back to the host to the next, which medians pass over: it is brought up to the
  /// device now and then, in case the device fails.
  static double mean(mesh::Mesh& mesh, std::uint64_t ticks) {
    const mesh::DeviceFigures& figures = *mesh.device_figures();
    const auto until_next = [&] {
      std::uint64_t count = 0;
      for (const std::uint64_t before = figures.pulls; figures.pulls == before; count += ticks) check(mesh.tick(ticks));
      return static_cast<double>(count);
    };
    until_next();
    const double began = now();
    const double count = until_next();
    return (now() - began) / count;
  }

  /// A chain of Dense 64x64 tanh without biases, a cell each; seconds of a tick.
  double tick(std::size_t cells, const Encoding& encoding, double float32) {
    const auto across = static_cast<std::uint32_t>(std::min<std::size_t>(cells, 512));
    const auto down = static_cast<std::uint32_t>(cells / across);
    mesh::NetworkBuilder builder("chain", {1, down, across, 1});
    builder.input("in", kWidth);
    const auto granularity = has_scale(encoding.dtype) ? std::optional(encoding.granularity) : std::nullopt;
    for (std::uint32_t y = 0; y < down; ++y)
      for (std::uint32_t x = 0; x < across; ++x) {
        builder.dense({0, y, x, 0}, kWidth, kernels::Activation::tanh)
            .option("bias", false)
            .dtype(encoding.dtype, granularity);
        if (x + y == 0) builder.from({"in"});
      }
    builder.output("out", {0, down - 1, across - 1, 0}).seed(1);
    mesh::MeshOptions options;
    options.device = request_.device;
    options.keeps_masters = false;
    auto mesh = must(mesh::Mesh::build(builder.spec(), options));
    const std::vector<float> in(kWidth, 0.5f);
    check(mesh.set_input("in", in));
    const std::uint64_t ticks = is_real_ ? (cells <= 4096 ? 1000 : 100) : 4;
    check(mesh.tick(2));
    const Times times = measure([&] { check(mesh.tick(ticks)); }, static_cast<double>(ticks), rounds_);
    const auto& figures = *mesh.device_figures();
    if (!figures.why_host.empty()) std::fprintf(stderr, "weft: on the CPU: %s\n", figures.why_host.c_str());
    const double bytes = static_cast<double>(mesh.weights().bytes());
    // All that a tick moves: the inputs and outputs of cells too.
    const double moved = bytes + 2.0 * sizeof(float) * kWidth * static_cast<double>(cells);
    const std::string name = "gpu/tick " + std::to_string(cells) + " cells " + to_string(encoding);
    rows_.add({name, times.median * 1e6, "", {}, {}, moved / bandwidth_ * 1e6, "us"});
    if (is_real_) rows_.add({name + ", mean", mean(mesh, ticks) * 1e6, "", {}, {}, moved / bandwidth_ * 1e6, "us"});
    Row rate{name + " weights",
             bytes / times.median * 1e-9,
             "copy",
             bandwidth_ * 1e-9,
             bytes / times.median / bandwidth_,
             {},
             "GB/s"};
    rate.ratio_range = {bytes / times.high / bandwidth_, bytes / times.low / bandwidth_};
    rows_.add(rate);
    if (float32 > 0) rows_.add({name + " of float32's time", times.median / float32, "", {}, {}, {}, "x"});
    if (cells == 65536 && encoding.dtype == Dtype::float32)
      if (const auto theirs = of_peer("cells_65536"))
        rows_.add({name + " against torch.baddbmm",
                   times.median * 1e6,
                   "torch.baddbmm + tanh",
                   *theirs * 1e6,
                   *theirs / times.median,
                   {},
                   "us"});
    return times.median;
  }

  void mlp() {
    using kernels::Activation;
    const std::size_t batch = is_real_ ? 256 : 16, hidden = is_real_ ? 2048 : 64;
    mesh::NetworkBuilder builder("mlp", {1, 1, 3, 1});
    builder.input("x", 784);
    builder.dense({0, 0, 0, 0}, hidden, Activation::tanh).dense({0, 0, 1, 0}, hidden, Activation::tanh);
    builder.dense({0, 0, 2, 0}, 10).output("y", {0, 0, 2, 0}).seed(1);
    mesh::MeshOptions options;
    options.device = request_.device;
    options.sessions = batch;
    auto mesh = must(mesh::Mesh::build(builder.spec(), options));
    learning::LearningOptions rule;
    rule.rule = learning::Rule::backprop;
    rule.schedule = learning::Schedule::pipelined;
    rule.learners = batch;
    rule.optimizer.kind = learning::OptimizerKind::sgd;
    rule.optimizer.lr = 1e-4f;
    const auto learner = must(learning::Learner::build(mesh, rule));
    const std::uint64_t steps = is_real_ ? 64 : 8;
    RandomStream random(1, 0, RandomPurpose::test);
    std::vector<float> x(steps * batch * 784);
    for (float& value : x) value = random.next_normal();
    std::vector<std::uint32_t> labels(steps * batch);
    for (auto& label : labels) label = random.next_below(10);
    const mesh::RunInput input{"x", x};
    const learning::Target target{"y", labels, {}};
    const Times times = measure(
        [&] {
          check(learner->learn({&input, 1}, {&target, 1}, steps));
          learner->clear_scores();
        },
        static_cast<double>(steps), rounds_);
    const auto& figures = *mesh.device_figures();
    std::fprintf(
        stderr, "weft: mlp: %llu steps on the device, %llu on the CPU, %llu programs, %llu pushes, %llu pulls %s\n",
        static_cast<unsigned long long>(figures.device_steps), static_cast<unsigned long long>(figures.host_steps),
        static_cast<unsigned long long>(figures.programs), static_cast<unsigned long long>(figures.pushes),
        static_cast<unsigned long long>(figures.pulls), figures.why_host.c_str());
    Row row{"gpu/learn mlp 784-" + std::to_string(hidden) + "-" + std::to_string(hidden) + "-10, batch " +
                std::to_string(batch),
            times.median * 1e6,
            "",
            {},
            {},
            {},
            "us/step"};
    if (const auto theirs = of_peer("mlp"))
      row.peer = "pytorch eager", row.peer_value = *theirs * 1e6, row.ratio = *theirs / times.median;
    rows_.add(row);
  }

  Rows& rows_;
  const Request& request_;
  int rounds_;
  std::shared_ptr<gpu::Device> device_;
  std::unique_ptr<gpu::VulkanStream> stream_;
  nlohmann::json peer_;
  bool is_real_ = false;
  double bandwidth_ = 1;
};

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  using namespace weft::bench;
  Request request;
  const std::vector<std::string> sections = {"gemv", "gemm", "products", "ticks", "mlp"};
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0)
      request.settings.json = true;
    else if (std::strcmp(argv[i], "--quick") == 0)
      request.settings.quick = true;
    else if (std::strcmp(argv[i], "--no-peer") == 0)
      request.has_peer = false;
    else if (std::strcmp(argv[i], "--device") == 0 && i + 1 < argc)
      request.device = argv[++i];
    else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc)
      request.only.push_back(argv[++i]);
    else if (std::strcmp(argv[i], "gpu") != 0) {  // `weft bench gpu` names the suite
      std::fprintf(stderr, "weft: error: %s: expected --json, --quick, --no-peer, --device D or --only SECTION\n",
                   argv[i]);
      return 2;
    }
  }
  for (const std::string& each : request.only) {
    if (std::find(sections.begin(), sections.end(), each) != sections.end()) continue;
    std::fprintf(stderr, "weft: error: --only %s: expected gemv, gemm, products, ticks or mlp\n", each.c_str());
    return 2;
  }
  Rows rows(request.settings);
  Bench(rows, request).all();
  rows.finish();
  return 0;
}
