// SPDX-License-Identifier: Apache-2.0
// Forward requests of the digits network: by calls in this process, and over HTTP on loopback at keep-alive, by one
// client thread that has a request under way on each of its connections. `paced` asks at a fixed rate and measures from
// the time at which a request was due.

#include "server/service.hpp"
#include "server/values.hpp"

#include "mesh/mesh.hpp"
#include "mesh/persistence/mesh_load.hpp"

#include "core/assert.hpp"

#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <poll.h>
#include <unistd.h>

#include "tests/support/source_path.hpp"
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace weft;
using Clock = std::chrono::steady_clock;

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
  return std::string("POST /api/v1/meshes/digits/forward HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/") +
         (raw ? "octet-stream\r\nAccept: application/octet-stream" : "json") +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
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

/// Connections of one client, with at most one request under way on each.
class Load {
 public:
  Load(const std::string& address, std::size_t connections, std::string text) : request_(std::move(text)) {
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    inet_pton(AF_INET, "127.0.0.1", &there.sin_addr);
    for (std::size_t i = 0; i < connections; ++i) {
      const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      WEFT_ASSERT(connect(made, reinterpret_cast<sockaddr*>(&there), sizeof there) == 0, "no connection");
      const int yes = 1;
      setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      polled_.push_back({made, POLLIN, 0});
      free_.push_back(i);
    }
    due_.resize(connections);
  }
  ~Load() {
    for (const pollfd& each : polled_) close(each.fd);
  }

  bool has_free() const noexcept { return !free_.empty(); }
  void ask(Clock::time_point due) {
    const std::size_t at = free_.front();
    free_.pop_front();
    due_[at] = due;
    WEFT_ASSERT(
        send(polled_[at].fd, request_.data(), request_.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request_.size()),
        "not sent as a whole");
  }
  /// Takes answers that came within `wait`; returns how many, and appends their latencies.
  std::size_t take(std::chrono::milliseconds wait, std::vector<double>* milliseconds) {
    if (poll(polled_.data(), polled_.size(), static_cast<int>(wait.count())) <= 0) return 0;
    std::size_t taken = 0;
    for (std::size_t i = 0; i < polled_.size(); ++i) {
      if (!(polled_[i].revents & POLLIN)) continue;
      char bytes[4096];  // an answer comes as a whole: it is one write of less than a packet
      const ssize_t count = recv(polled_[i].fd, bytes, sizeof bytes, 0);
      WEFT_ASSERT(count > 12 && bytes[9] == '2', "not answered by 200");
      free_.push_back(i);
      ++taken;
      if (milliseconds)
        milliseconds->push_back(std::chrono::duration<double, std::milli>(Clock::now() - due_[i]).count());
    }
    return taken;
  }

 private:
  const std::string request_;
  std::vector<pollfd> polled_;
  std::deque<std::size_t> free_;
  std::vector<Clock::time_point> due_;
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
  Load load(served.service->addresses().front(), static_cast<std::size_t>(state.range(0)), request(raw));
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

/// Argument: requests a second, for two seconds.
void paced(benchmark::State& state) {
  Served served;
  Load load(served.service->addresses().front(), 60, request(false));
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
  const auto at = [&](double share) {
    return latencies[static_cast<std::size_t>(share * static_cast<double>(latencies.size() - 1))];
  };
  state.SetItemsProcessed(static_cast<std::int64_t>(latencies.size()));
  state.counters["p50_ms"] = at(0.5);
  state.counters["p99_ms"] = at(0.99);
  state.counters["p999_ms"] = at(0.999);
}
BENCHMARK(paced)->Arg(7'500)->Iterations(1)->UseRealTime();

}  // namespace
