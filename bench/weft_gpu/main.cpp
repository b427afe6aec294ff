// SPDX-License-Identifier: Apache-2.0
// weft-bench-gpu: what `weft bench gpu` starts. Each figure stands beside its floor, which follows from the device's
// copy bandwidth and its peak of multiply-adds, both measured in this run, and beside PyTorch's on CUDA where there is
// one (bench/peers/torch_gpu.py).

#include "learning/learner.hpp"

#include "mesh/device/device_statistics.hpp"
#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "gpu/command_graph.hpp"
#include "gpu/device.hpp"
#include "gpu/memory.hpp"
#include "gpu/vulkan_stream.hpp"

#include "core/json.hpp"
#include "core/philox.hpp"

#include "bench/weft/must.hpp"
#include "bench/weft/rows.hpp"
#include "tests/support/source_path.hpp"
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
// Of a tick's mean: a device brings its state to the host after 1,024 ticks at the latest.
constexpr std::uint64_t kMostWithoutLanding = 16 * 1024;

/// Problem sizes: on a GPU those of the published figures, on a software device small ones, with --quick tiny ones.
struct Sizes {
  std::size_t copy, gemv, gemm, batch, hidden;  // copy: floats
  std::vector<std::size_t> cells;
  std::uint64_t times;  // a command graph of the device alone is run
};
const Sizes kOfGpu{std::size_t{1} << 28, 8192, 4096, 256, 2048, {4096, 65536, 262144}, 20};
const Sizes kOfCpu{std::size_t{1} << 22, 1024, 512, 16, 64, {256, 4096}, 20};
const Sizes kTiny{std::size_t{1} << 12, 64, 16, 2, 16, {16}, 1};

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

Json peer(const Request& request) {
  if (!request.has_peer) return Json::object();
  const std::string command = "python3 '" + source_path("bench/peers/torch_gpu.py") + "' 2>/dev/null";
  std::string text;
  if (FILE* const pipe = popen(command.c_str(), "r")) {
    char block[4096];
    for (std::size_t got; (got = fread(block, 1, sizeof block, pipe)) > 0;) text.append(block, got);
    pclose(pipe);
  }
  const auto parsed = parse_json(text, "torch_gpu.py");
  if (parsed) return *parsed;
  std::fprintf(stderr, "weft: no PyTorch with CUDA here: rows stand without it\n");
  return Json::object();
}

class Bench {
 public:
  Bench(Rows& rows, const Request& request) : Bench(rows, request, must(gpu::Device::share(request.device))) {}
  Bench(Rows& rows, const Request& request, std::shared_ptr<gpu::Device> device)
      : rows_(rows),
        request_(request),
        rounds_(request.settings.quick ? 3 : 15),
        device_(std::move(device)),
        stream_(must(device_->make_stream())),
        peer_(peer(request)),
        is_real_(device_->info().kind != "cpu"),
        sizes_(is_real_                 ? kOfGpu
               : request.settings.quick ? kTiny
                                        : kOfCpu) {
    std::fprintf(stderr, "weft: %s, shaders: %s\n", device_->info().name.c_str(), device_->self_test().variant.c_str());
  }

  void all() {
    copy();
    peak();
    if (request_.wants("gemv")) gemv();
    if (request_.wants("gemm")) gemm();
    if (request_.wants("products")) products();
    if (request_.wants("codes")) codes();
    if (request_.wants("gated")) gated();
    if (request_.wants("ticks")) ticks();
    if (request_.wants("mlp")) mlp();
  }

 private:
  void ticks() {
    for (const std::size_t cells : sizes_.cells) {
      Tick float32;
      for (const Encoding& encoding :
           {Encoding(Dtype::float32), Encoding(Dtype::int8), Encoding(Dtype::int4),
            Encoding(Dtype::int4, Granularity::channel), Encoding(Dtype::ternary), Encoding(Dtype::binary)}) {
        const Tick found = tick(cells, encoding, float32);
        if (encoding.dtype == Dtype::float32) float32 = found;
      }
    }
  }
  std::optional<double> of_peer(const char* name) const {
    return peer_.contains(name) ? std::optional<double>(peer_[name].get<double>()) : std::nullopt;
  }
  gpu::Buffer floats(std::size_t count) {
    auto buffer = must(device_->memory().allocate(count * sizeof(float), "a benchmark"));
    stream_->fill({0.5f, {buffer.data(), 1, count, count}});
    check(stream_->finish());
    return buffer;
  }
  struct Stored {
    std::vector<gpu::Buffer> arrays;
    kernels::ConstWeight view;
  };
  Stored stored(const Encoding& encoding, std::size_t out, std::size_t in) {
    const kernels::WeightBytes bytes = kernels::weight_bytes(encoding, out, in);
    Stored w;
    w.view.out = out, w.view.in = in, w.view.dtype = encoding.dtype, w.view.granularity = encoding.granularity;
    const auto place = [&](std::size_t size) -> const void* {
      if (size == 0) return nullptr;
      w.arrays.push_back(floats((size + 3) / 4));
      return w.arrays.back().data();
    };
    w.view.codes = place(bytes.codes), w.view.scales = place(bytes.scales),
    w.view.zero_points = place(bytes.zero_points);
    return w;
  }
  std::shared_ptr<gpu::CommandGraph> graph(const std::function<void()>& record) {
    check(stream_->begin_capture());
    record();
    return must(stream_->end_capture());
  }
  Times time(const std::shared_ptr<gpu::CommandGraph>& graph, std::uint64_t times) {
    return measure(
        [&] {
          check(stream_->run(graph, times));
          check(stream_->finish());
        },
        static_cast<double>(times), rounds_);
  }

  void copy() {
    const std::size_t count = sizes_.copy;
    const gpu::Buffer a = floats(count), b = floats(count);
    const auto copying = graph([&] { stream_->copy({{a.data(), 1, count, count}, {b.data(), 1, count, count}}); });
    const double bytes = 8.0 * static_cast<double>(count);
    const double ours = bytes / time(copying, sizes_.times).median;
    const Times driver = measure(
        [&] {
          for (std::uint64_t i = 0; i < sizes_.times; ++i) stream_->transfer(a.data(), a.bytes(), b.data());
          check(stream_->finish());
        },
        static_cast<double>(sizes_.times), rounds_);
    // The bandwidth of the card is the best of all copies.
    bandwidth_ = std::max(ours, bytes / driver.median);
    Row row{"gpu/copy", ours * 1e-9, "", {}, {}, {}, "GB/s"};
    if (const auto theirs = of_peer("copy")) {
      const double rate = peer_["copy_bytes"].get<double>() / *theirs;
      row.peer = "pytorch copy_", row.peer_value = rate * 1e-9, row.ratio = ours / rate;
      bandwidth_ = std::max(bandwidth_, rate);
    }
    row.floor = bandwidth_ * 1e-9;
    rows_.add(row);
  }

  void peak() {
    const double ours = must(device_->fma_peak());
    peak_ = ours;
    if (const auto theirs = of_peer("gemm")) peak_ = std::max(peak_, peer_gemm_flops() / *theirs);
    rows_.add({"gpu/fma", ours * 1e-12, "", {}, {}, peak_ * 1e-12, "TFLOP/s"});
  }
  /// Of torch.mm in bench/peers/torch_gpu.py.
  static double peer_gemm_flops() { return 2.0 * 4096 * 4096 * 4096; }
  /// No product of n inputs and outputs over so many rows takes less: it multiplies and adds, and moves its operands.
  double least_seconds(double rows, double n) const {
    return std::max(2.0 * rows * n * n / peak_, sizeof(float) * (n * n + 2.0 * rows * n) / bandwidth_);
  }

  void gemv() {
    const std::size_t n = sizes_.gemv;
    const gpu::Buffer w = floats(n * n), x = floats(n), y = floats(n);
    const auto product = graph([&] {
      stream_->linear({kernels::ConstPanels{w.data(), n, n},
                       nullptr,
                       {x.data(), 1, n, n},
                       kernels::Activation::linear,
                       {},
                       {y.data(), 1, n, n}});
    });
    const double seconds = time(product, 10 * sizes_.times).median, bytes = 4.0 * static_cast<double>(n * n);
    Row row{"gpu/gemv " + std::to_string(n), bytes / seconds * 1e-9, "", {}, {}, bandwidth_ * 1e-9, "GB/s"};
    if (is_real_) row.asked = Asked{1};
    if (const auto theirs = of_peer("gemv"))
      row.peer = "torch.mv", row.peer_value = bytes / *theirs * 1e-9, row.ratio = *theirs / seconds;
    rows_.add(row);
  }

  void gemm() {
    const std::size_t n = sizes_.gemm;
    const gpu::Buffer w = floats(n * n), x = floats(n * n), y = floats(n * n);
    const auto product = graph([&] {
      stream_->linear({kernels::ConstPanels{w.data(), n, n},
                       nullptr,
                       {x.data(), n, n, n},
                       kernels::Activation::linear,
                       {},
                       {y.data(), n, n, n}});
    });
    const double seconds = time(product, is_real_ ? 5 : 1).median;
    const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    const double least = least_seconds(static_cast<double>(n), static_cast<double>(n));
    Row row{"gpu/gemm " + std::to_string(n), flops / seconds * 1e-12, "", {}, {}, flops / least * 1e-12, "TFLOP/s"};
    if (is_real_) row.asked = Asked{0.6};
    if (const auto theirs = of_peer("gemm"))
      row.peer = "torch.mm, no TF32", row.peer_value = flops / *theirs * 1e-12, row.ratio = *theirs / seconds;
    rows_.add(row);
  }

  /// Products of a training step of the perceptron below, at its widest layer.
  void products() {
    const std::size_t batch = sizes_.batch, n = sizes_.hidden;
    const gpu::Buffer w = floats(n * n), x = floats(batch * n), y = floats(batch * n);
    const double flops = 2.0 * static_cast<double>(batch) * static_cast<double>(n) * static_cast<double>(n);
    const double least = least_seconds(static_cast<double>(batch), static_cast<double>(n));
    const kernels::Panels panels{w.data(), n, n};
    const kernels::MatrixView from{x.data(), batch, n, n}, to{y.data(), batch, n, n};
    const auto row = [&](const char* name, const std::function<void()>& record) {
      const double seconds = time(graph(record), 2 * sizes_.times).median;
      rows_.add(
          {"gpu/" + std::string(name) + " " + std::to_string(batch) + "x" + std::to_string(n) + "x" + std::to_string(n),
           flops / seconds * 1e-12,
           "",
           {},
           {},
           flops / least * 1e-12,
           "TFLOP/s"});
    };
    row("linear", [&] {
      stream_->linear({kernels::ConstPanels(panels), nullptr, from, kernels::Activation::linear, {}, to});
    });
    row("linear_transposed", [&] { stream_->linear_transposed({kernels::ConstPanels(panels), from, to}); });
    row("outer_accumulate", [&] { stream_->outer_accumulate({to, from, panels}); });
  }

  /// Products of integer codes with many rows, beside float32's and, where the device has matrix units, without them.
  void codes() {
    const std::size_t n = sizes_.gemm;
    const double cubed = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    const gpu::Buffer x = floats(n * n), y = floats(n * n);
    const auto seconds_of = [&](const Encoding& encoding) {
      const Stored w = stored(encoding, n, n);
      return time(graph([&] {
                    stream_->linear(
                        {w.view, nullptr, {x.data(), n, n, n}, kernels::Activation::linear, {}, {y.data(), n, n, n}});
                  }),
                  is_real_ ? 5 : 1)
          .median;
    };
    const double float32 = seconds_of(Encoding(Dtype::float32));
    const auto rows = [&](const std::string& suffix) {
      for (const Encoding& encoding : {Encoding(Dtype::int8), Encoding(Dtype::int8, Granularity::block32),
                                       Encoding(Dtype::int4), Encoding(Dtype::binary)}) {
        const double seconds = seconds_of(encoding);
        // Each 32 products are added to what came before in float32.
        const double bytes = kernels::weight_bytes(encoding, n, n).codes + 8.0 * static_cast<double>(n * n);
        const double least = std::max(2.0 * cubed / 32 / peak_, bytes / bandwidth_);
        rows_.add({"gpu/gemm " + std::to_string(n) + " " + to_string(encoding) + suffix, 2 * cubed / seconds * 1e-12,
                   "in float32", 2 * cubed / float32 * 1e-12, float32 / seconds, 2 * cubed / least * 1e-12, "TOP/s"});
      }
    };
    rows(suffix_);
    if (!device_->info().matrix_units) return;
    // Its memory is the other device's, so the operands are made anew.
    gpu::DeviceOptions options;
    options.without_matrix_units = true;
    const auto plain = must(gpu::Device::open(request_.device, options));
    Request without = request_;
    without.has_peer = false;
    Bench other(rows_, without, plain);
    other.peak_ = peak_, other.bandwidth_ = bandwidth_;
    other.suffix_ = " without matrix units";
    other.codes();
  }

  /// A gated pair of linear layers as one operation, beside its parts.
  void gated() {
    const std::size_t in = sizes_.hidden / 2, out = 43 * in / 16;  // 1024 and 2752 on a GPU: a small language model's
    for (const std::size_t rows : std::set<std::size_t>{1, 16, sizes_.batch, 8 * sizes_.batch})
      for (const Encoding& encoding : {Encoding(Dtype::float32), Encoding(Dtype::int8)}) {
        const Stored gate = stored(encoding, out, in), up = stored(encoding, out, in);
        const gpu::Buffer x = floats(rows * in), y = floats(rows * kernels::kGatedBlocks * out);
        const kernels::MatrixView to{y.data(), rows, kernels::kGatedBlocks * out, kernels::kGatedBlocks * out};
        const kernels::ConstMatrixView from{x.data(), rows, in, in};
        const auto block = [&](kernels::GatedBlock which) { return kernels::gated_block(to, which); };
        const double together =
            time(graph([&] {
                   stream_->gated_linear({{gate.view, up.view}, from, kernels::Activation::silu, to});
                 }),
                 sizes_.times)
                .median;
        const double apart =
            time(graph([&] {
                   stream_->linear({gate.view, nullptr, from, kernels::Activation::silu,
                                    block(kernels::GatedBlock::before), block(kernels::GatedBlock::gate)});
                   stream_->linear(
                       {up.view, nullptr, from, kernels::Activation::linear, {}, block(kernels::GatedBlock::up)});
                   stream_->binary({kernels::BinaryOp::mul, block(kernels::GatedBlock::gate),
                                    block(kernels::GatedBlock::up), block(kernels::GatedBlock::product)});
                 }),
                 sizes_.times)
                .median;
        const auto count = [](std::size_t i) { return static_cast<double>(i); };
        const double macs = 2.0 * count(rows) * count(out) * count(in);
        const double bytes = 2.0 * kernels::weight_bytes(encoding, out, in).codes + 4.0 * count(rows) * count(in) +
                             16.0 * count(rows) * count(out);
        const double least =
            std::max(2.0 * macs / (encoding.dtype == Dtype::float32 ? 1 : 32) / peak_, bytes / bandwidth_);
        rows_.add({"gpu/swiglu " + std::to_string(rows) + "x" + std::to_string(out) + "x" + std::to_string(in) + " " +
                       to_string(encoding),
                   together * 1e6, "its parts", apart * 1e6, apart / together, least * 1e6, "us"});
      }
  }

  /// Seconds of a tick from one copy back to the host to the next, which medians pass over: it is brought up to the
  /// device now and then, in case the device fails. None where it comes no more: the device is lost, say.
  static std::optional<double> mean(mesh::Mesh& mesh, std::uint64_t ticks) {
    const mesh::DeviceStatistics& statistics = *mesh.device_statistics();
    const auto until_next = [&]() -> std::optional<double> {
      std::uint64_t count = 0;
      for (const std::uint64_t before = statistics.downloads; statistics.downloads == before; count += ticks) {
        if (count >= kMostWithoutLanding || !statistics.why_host.empty()) return std::nullopt;
        check(mesh.tick(ticks));
      }
      return static_cast<double>(count);
    };
    if (!until_next()) return std::nullopt;
    const double began = now();
    const auto count = until_next();
    return count ? std::optional((now() - began) / *count) : std::nullopt;
  }

  /// Bound of the time, as a part of float32's.
  static std::optional<Asked> asked_of(Dtype dtype) {
    switch (dtype) {
      case Dtype::int8:
        return Asked{0.3, false};
      case Dtype::int4:
        return Asked{0.18, false};
      case Dtype::binary:
        return Asked{0.08, false};
      default:
        return std::nullopt;
    }
  }

  struct Tick {
    double seconds = 0, moved = 0;  // bytes
  };

  /// A chain of Dense 64x64 tanh without biases, a cell each.
  Tick tick(std::size_t cells, const Encoding& encoding, const Tick& float32) {
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
    const auto& statistics = *mesh.device_statistics();
    if (!statistics.why_host.empty()) std::fprintf(stderr, "weft: on the CPU: %s\n", statistics.why_host.c_str());
    const double bytes = static_cast<double>(mesh::MeshAccess::weights(mesh).bytes());
    // All that a tick moves: the inputs and outputs of cells too.
    const double moved = bytes + 2.0 * sizeof(float) * kWidth * static_cast<double>(cells);
    const std::string name = "gpu/tick " + std::to_string(cells) + " cells " + to_string(encoding);
    const double least = moved / bandwidth_;
    const bool is_float32 = encoding.dtype == Dtype::float32;
    Row time{name, times.median * 1e6, "", {}, {}, least * 1e6, "us"};
    if (is_real_ && is_float32 && cells == 4096) time.asked = Asked{20, false};
    rows_.add(time);
    if (is_real_) {
      if (const auto seconds = mean(mesh, ticks))
        rows_.add({name + ", mean", *seconds * 1e6, "", {}, {}, least * 1e6, "us"});
      else
        std::fprintf(stderr, "weft: %s: no mean: the device brought no state to the host in %llu ticks: %s\n",
                     name.c_str(), static_cast<unsigned long long>(kMostWithoutLanding),
                     statistics.why_host.empty() ? "it never failed" : statistics.why_host.c_str());
    }
    Row rate{name + " weights",
             bytes / times.median * 1e-9,
             "copy",
             bandwidth_ * 1e-9,
             bytes / times.median / bandwidth_,
             bytes / least * 1e-9,
             "GB/s"};
    rate.ratio_range = {bytes / times.high / bandwidth_, bytes / times.low / bandwidth_};
    if (is_real_ && is_float32 && cells >= 65536) rate.asked = Asked{0.9};
    rows_.add(rate);
    if (!is_float32) {
      Row part{name + " of float32's time", times.median / float32.seconds, "", {}, {}, moved / float32.moved, "x"};
      if (is_real_ && cells >= 262144) part.asked = asked_of(encoding.dtype);
      rows_.add(part);
    }
    if (cells == 65536 && is_float32)
      if (const auto theirs = of_peer("cells_65536"))
        rows_.add({name + " against torch.baddbmm", times.median * 1e6, "torch.baddbmm + tanh", *theirs * 1e6,
                   *theirs / times.median, least * 1e6, "us"});
    return {times.median, moved};
  }

  void mlp() {
    using kernels::Activation;
    const std::size_t batch = sizes_.batch, hidden = sizes_.hidden;
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
    const std::uint64_t steps = is_real_ ? 64 : sizes_.times == 1 ? 2 : 8;
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
    const auto& statistics = *mesh.device_statistics();
    std::fprintf(
        stderr,
        "weft: mlp: %llu steps on the device, %llu on the CPU, %llu command graphs, %llu uploads, %llu downloads %s\n",
        static_cast<unsigned long long>(statistics.device_steps),
        static_cast<unsigned long long>(statistics.host_steps), static_cast<unsigned long long>(statistics.graphs),
        static_cast<unsigned long long>(statistics.uploads), static_cast<unsigned long long>(statistics.downloads),
        statistics.why_host.c_str());
    Row row{"gpu/learn mlp 784-" + std::to_string(hidden) + "-" + std::to_string(hidden) + "-10, batch " +
                std::to_string(batch),
            times.median * 1e6,
            "",
            {},
            {},
            least_of_mlp() * 1e6,
            "us/step"};
    if (is_real_) row.asked = Asked{0.8};
    if (const auto theirs = of_peer("mlp"))
      row.peer = "pytorch eager", row.peer_value = *theirs * 1e6, row.ratio = *theirs / times.median;
    rows_.add(row);
  }

  /// Of a step: each weight multiplies forwards and for its own gradient, and those behind the first layer for that of
  /// their inputs; weights are read and written once, and inputs read.
  double least_of_mlp() const {
    const double batch = static_cast<double>(sizes_.batch), n = static_cast<double>(sizes_.hidden);
    const double first = 784 * n, others = n * n + n * 10;
    const double flops = 2.0 * batch * (2.0 * first + 3.0 * others);
    const double bytes = sizeof(float) * (2.0 * (first + others) + batch * 784);
    return std::max(flops / peak_, bytes / bandwidth_);
  }

  Rows& rows_;
  const Request& request_;
  int rounds_;
  std::shared_ptr<gpu::Device> device_;
  std::unique_ptr<gpu::VulkanStream> stream_;
  Json peer_;
  bool is_real_;
  const Sizes& sizes_;
  std::string suffix_;               // of rows' names
  double bandwidth_ = 1, peak_ = 1;  // bytes and operations a second
};

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  using namespace weft::bench;
  Request request;
  const std::vector<std::string> sections = {"gemv", "gemm", "products", "codes", "gated", "ticks", "mlp"};
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
    std::fprintf(stderr, "weft: error: --only %s: expected gemv, gemm, products, codes, gated, ticks or mlp\n",
                 each.c_str());
    return 2;
  }
  Rows rows(request.settings);
  Bench(rows, request).all();
  rows.finish();
  return 0;
}
