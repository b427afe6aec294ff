// SPDX-License-Identifier: Apache-2.0
// Forward requests of the digits network: by calls in this process, and over HTTP on loopback at keep-alive, by one
// client thread that has a request under way on each of its connections. `paced` asks at a fixed rate and measures from
// the time at which a request was due.

#include "server/service.hpp"
#include "server/values.hpp"

#include "mesh/mesh.hpp"
#include "mesh/persistence/mesh_load.hpp"

#include "core/assert.hpp"

#include <benchmark/benchmark.h>

#include "bench/server/load.hpp"
#include "tests/support/source_path.hpp"
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace weft;
using bench::Load;
using Clock = bench::LoadClock;

mesh::NetworkSpec digits() {
  auto spec = mesh::load_network(source_path("examples/digits.json")).value();
  spec.learning.clear();
  return spec;
}

std::vector<float> picture() {
  std::vector<float> values(64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 17) / 16;
  return values;
}

std::string request(bool raw) {
  const std::vector<float> values = picture();
  std::string body;
  if (raw) {
    body = server::raw_of(values);
  } else {
    body = "{\"inputs\":{\"pixels\":";
    server::append_rows(body, values, 1, true);
    body += "}}";
  }
  return bench::post("/api/v1/meshes/digits/forward", body,
                     raw ? "application/octet-stream\r\nAccept: application/octet-stream" : "application/json");
}

struct Served {
  Served() : service(server::Service::make(options()).value()) {
    WEFT_ASSERT(service->listen({.listen = {"127.0.0.1:0"}}).has_value(), "no port");
    WEFT_ASSERT(service->meshes().create("digits", digits(), {}).has_value(), "no mesh");
    service->ready();
  }
  static server::Service::Options options() {
    server::Service::Options of;
    of.meshes.mesh.threads = 1;
    return of;
  }
  const std::unique_ptr<server::Service> service;
};

void in_process(benchmark::State& state) {
  mesh::MeshOptions options;
  options.threads = 1;
  const mesh::Mesh mesh = mesh::Mesh::build(digits(), options).value();
  const auto rows = static_cast<std::size_t>(state.range(0));
  std::vector<float> x, y(rows * 10);
  for (std::size_t i = 0; i < rows; ++i) {
    const auto one = picture();
    x.insert(x.end(), one.begin(), one.end());
  }
  const mesh::RunInput in{"pixels", x};
  const mesh::RunOutput out{"digit", y};
  for (auto _ : state) WEFT_ASSERT(mesh.forward({&in, 1}, rows, {&out, 1}).has_value(), "forward failed");
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(in_process)->Arg(1)->Arg(32);

void over_http(benchmark::State& state, bool raw) {
  Served served;
  Load load(served.service->addresses().front(), static_cast<std::size_t>(state.range(0)),
            [text = request(raw)](std::size_t, std::string_view) { return text; });
  std::int64_t done = 0;
  for (auto _ : state) {
    while (load.has_free()) load.ask({});
    done += static_cast<std::int64_t>(load.take(std::chrono::seconds(5), nullptr));
  }
  state.SetItemsProcessed(done);
  const auto& counters = served.service->meshes().find("digits").value()->counters();
  state.counters["rows_a_batch"] =
      static_cast<double>(counters.forward_rows) / static_cast<double>(counters.forward_batches);
}
BENCHMARK_CAPTURE(over_http, json, false)->Arg(1)->Arg(32)->Arg(60)->UseRealTime();
BENCHMARK_CAPTURE(over_http, raw, true)->Arg(1)->Arg(32)->Arg(60)->UseRealTime();

/// The same requests to a server of others at WEFT_BENCH_PEER, such as bench/server/onnx_server.mjs.
void peer(benchmark::State& state) {
  const char* const address = std::getenv("WEFT_BENCH_PEER");
  if (!address) return state.SkipWithError("no WEFT_BENCH_PEER");
  Load load(address, static_cast<std::size_t>(state.range(0)),
            [text = request(false)](std::size_t, std::string_view) { return text; });
  std::int64_t done = 0;
  for (auto _ : state) {
    while (load.has_free()) load.ask({});
    done += static_cast<std::int64_t>(load.take(std::chrono::seconds(5), nullptr));
  }
  state.SetItemsProcessed(done);
}
BENCHMARK(peer)->Arg(1)->Arg(32)->Arg(60)->UseRealTime();

/// Argument: requests a second, for two seconds.
void paced(benchmark::State& state) {
  Served served;
  Load load(served.service->addresses().front(), 60,
            [text = request(false)](std::size_t, std::string_view) { return text; });
  const auto period = std::chrono::nanoseconds(1'000'000'000 / state.range(0));
  std::vector<double> latencies;
  for (auto _ : state) {
    const auto begin = Clock::now();
    auto due = begin;
    while (due < begin + std::chrono::seconds(2)) {
      for (; due <= Clock::now() && load.has_free(); due += period) load.ask(due);
      load.take(std::chrono::milliseconds(0), &latencies);
    }
  }
  std::sort(latencies.begin(), latencies.end());
  state.SetItemsProcessed(static_cast<std::int64_t>(latencies.size()));
  state.counters["p50_ms"] = bench::quantile(latencies, 0.5);
  state.counters["p99_ms"] = bench::quantile(latencies, 0.99);
  state.counters["p999_ms"] = bench::quantile(latencies, 0.999);
}
BENCHMARK(paced)->Arg(7'500)->Iterations(1)->UseRealTime();

}  // namespace
