// SPDX-License-Identifier: Apache-2.0

#include "bench/weft_gpu/gpu_bench.hpp"

#include "tests/support/source_path.hpp"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace weft::bench {
namespace {

const GpuSizes kOfGpu{std::size_t{1} << 28, 8192, 4096, 256, 2048, {4096, 65536, 262144}, 20};
const GpuSizes kOfCpu{std::size_t{1} << 22, 1024, 512, 16, 64, {256, 4096}, 20};
const GpuSizes kTiny{std::size_t{1} << 12, 64, 16, 2, 16, {16}, 1};

Json figures_of_peer(const GpuRequest& request) {
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

}  // namespace

void check(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "weft: error: %s\n", status.error().text().c_str());
  std::exit(exit_code(status.error().code()));
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

GpuBench::GpuBench(Rows& to, const GpuRequest& asked) : GpuBench(to, asked, must(gpu::Device::share(asked.device))) {}

GpuBench::GpuBench(Rows& to, const GpuRequest& asked, std::shared_ptr<gpu::Device> on)
    : rows(to),
      request(asked),
      rounds(asked.settings.quick ? 3 : 15),
      device(std::move(on)),
      stream(must(device->make_stream())),
      peer(figures_of_peer(asked)),
      is_real(device->info().kind != "cpu"),
      sizes(is_real                ? kOfGpu
            : asked.settings.quick ? kTiny
                                   : kOfCpu) {
  std::fprintf(stderr, "weft: %s, shaders: %s\n", device->info().name.c_str(), device->self_test().variant.c_str());
}

std::optional<double> GpuBench::of_peer(const char* name) const {
  return peer.contains(name) ? std::optional<double>(peer[name].get<double>()) : std::nullopt;
}

gpu::Buffer GpuBench::floats(std::size_t count) {
  auto buffer = must(device->memory().allocate(count * sizeof(float), "a benchmark"));
  stream->fill({0.5f, {buffer.data(), 1, count, count}});
  check(stream->finish());
  return buffer;
}

GpuBench::Stored GpuBench::stored(const Encoding& encoding, std::size_t out, std::size_t in) {
  const kernels::WeightBytes bytes = kernels::weight_bytes(encoding, out, in);
  Stored w;
  w.view.out = out, w.view.in = in, w.view.dtype = encoding.dtype, w.view.granularity = encoding.granularity;
  const auto place = [&](std::size_t size) -> const void* {
    if (size == 0) return nullptr;
    w.arrays.push_back(floats((size + 3) / 4));
    return w.arrays.back().data();
  };
  w.view.codes = place(bytes.codes), w.view.scales = place(bytes.scales), w.view.zero_points = place(bytes.zero_points);
  return w;
}

std::shared_ptr<gpu::CommandGraph> GpuBench::graph(const std::function<void()>& record) {
  check(stream->begin_capture());
  record();
  return must(stream->end_capture());
}

Times GpuBench::measure(const std::function<void()>& run, double steps) const {
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

Times GpuBench::time(const std::shared_ptr<gpu::CommandGraph>& graph, std::uint64_t times) {
  return measure(
      [&] {
        check(stream->run(graph, times));
        check(stream->finish());
      },
      static_cast<double>(times));
}

double GpuBench::least_seconds(double row_count, double n) const {
  return std::max(2.0 * row_count * n * n / peak, sizeof(float) * (n * n + 2.0 * row_count * n) / bandwidth);
}

}  // namespace weft::bench
