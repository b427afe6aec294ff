// SPDX-License-Identifier: Apache-2.0
// A server under load: /health while all cores compute and other clients are slow, samples whose targets come later
// with a journal, frames of the page's heat map.

#include "server/service.hpp"

#include "mesh/mesh.hpp"
#include "mesh/network/network_json.hpp"

#include "core/assert.hpp"
#include "core/json.hpp"

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <sched.h>

#include "bench/server/load.hpp"
#include "tests/support/source_path.hpp"
#include "tests/support/temporary_directory.hpp"
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace weft;
using bench::get;
using bench::Load;
using bench::post;
using bench::Wire;
using Clock = bench::LoadClock;
using std::chrono::milliseconds;

/// The digits network, and what its section "learning" is to say.
mesh::NetworkSpec digits(const Json& learning) {
  std::ifstream file(source_path("examples/digits.json"));
  Json json = parse_json(std::string(std::istreambuf_iterator<char>(file), {}), "digits").value();
  Json made = Json::object();
  for (const auto* member : json.members_as_set())
    if (member->first != "stream" && member->first != "learning") made[member->first] = member->second;
  if (!learning.is_null()) made["learning"] = learning;
  return mesh::read_network(made.dump(), "digits").value();
}

std::unique_ptr<server::Service> serve(server::Service::Options of, std::size_t io_threads = 1, bool urgent = false) {
  of.meshes.mesh.threads = 1;
  auto service = server::Service::make(std::move(of)).value();
  WEFT_ASSERT(service->listen({.listen = {"127.0.0.1:0"}, .threads = io_threads, .urgent = urgent}).has_value(),
              "no port");
  service->ready();
  return service;
}

void run_free(server::Service& service, const std::string& name) {
  service.meshes().find(name).value()->set_pace({.runs = true, .tick_rate = 0, .until_tick = std::nullopt});
}

/// A thread that sends back what it gets: what any server takes at least, on the same busy cores.
class Echo {
 public:
  Echo() {
    WEFT_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_) == 0, "no sockets");
    thread_ = std::thread([end = ends_[1]] {
      char byte = 0;
      while (recv(end, &byte, 1, 0) == 1 && send(end, &byte, 1, MSG_NOSIGNAL) == 1) {
      }
    });
  }
  ~Echo() {
    shutdown(ends_[0], SHUT_RDWR);
    thread_.join();
    close(ends_[0]);
    close(ends_[1]);
  }
  void ask() const {
    char byte = 'x';
    WEFT_ASSERT(send(ends_[0], &byte, 1, MSG_NOSIGNAL) == 1 && recv(ends_[0], &byte, 1, 0) == 1, "no echo");
  }

 private:
  int ends_[2] = {-1, -1};
  std::thread thread_;
};

/// Milliseconds that a call takes.
template <class Call>
double timed(Call&& call) {
  const auto begun = Clock::now();
  call();
  return std::chrono::duration<double, std::milli>(Clock::now() - begun).count();
}

void tell(benchmark::State& state, const std::string& name, std::vector<double> took) {
  std::sort(took.begin(), took.end());
  state.counters[name + "p50_ms"] = bench::quantile(took, 0.5);
  state.counters[name + "p99_ms"] = bench::quantile(took, 0.99);
  state.counters[name + "p999_ms"] = bench::quantile(took, 0.999);
  state.counters[name + "most_ms"] = took.back();
}

/// Four meshes tick by themselves, each with 16 readers of events, which it tells ten times a second; ten clients send
/// a head byte by byte, and ten read nothing of what they asked for. Arguments: seconds; real-time priority of threads
/// for connections; of the prober, which then measures no wait of its own for these cores, as from another machine.
void health(benchmark::State& state) {
  const auto service = serve({}, 1, state.range(1) != 0);
  const std::string address = service->addresses().front();
  for (const char* const name : {"a", "b", "c", "d"}) {
    WEFT_ASSERT(service->meshes().create(name, digits({}), {}).has_value(), "no mesh");
    run_free(*service, name);
  }
  std::vector<Wire> readers, slow, deaf;
  for (int i = 0; i < 64; ++i) {
    readers.emplace_back(address, "127.0.0.2");
    const std::string mesh(1, static_cast<char>('a' + i / 16));
    readers.back().send_text(get("/api/v1/meshes/" + mesh + "/events?every=0.1"));
  }
  for (int i = 0; i < 10; ++i) {
    slow.emplace_back(address, "127.0.0.3").send_text("GET /health HT");
    deaf.emplace_back(address, "127.0.0.4").send_text(get("/metrics"));
  }
  std::atomic<bool> ends{false};
  std::atomic<std::uint64_t> events{0};
  std::thread reading([&] {
    std::vector<pollfd> polled;
    for (const Wire& each : readers) polled.push_back({each.socket_number(), POLLIN, 0});
    while (!ends) {
      poll(polled.data(), polled.size(), 100);
      for (std::size_t i = 0; i < polled.size(); ++i)
        if (polled[i].revents & POLLIN) events += !readers[i].receive().empty();
    }
  });
  std::vector<double> took, echoed;
  const Wire prober(address);
  const Echo echo;
  sched_param priority{};
  priority.sched_priority = 1;
  if (state.range(2) != 0 && sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &priority) != 0)
    state.SkipWithError("real-time priority is not allowed");
  for (auto _ : state) {
    const auto end = Clock::now() + std::chrono::seconds(state.range(0));
    for (std::size_t i = 0; Clock::now() < end; ++i) {
      took.push_back(timed([&] {
        prober.send_text(get("/health"));
        (void)prober.answer();
      }));
      std::this_thread::sleep_for(milliseconds(1));
      echoed.push_back(timed([&] { echo.ask(); }));
      if (i % 500 == 0)
        for (const Wire& each : slow) each.send_text(i == 0 ? "T" : "");
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  priority.sched_priority = 0;
  (void)sched_setscheduler(0, SCHED_OTHER, &priority);
  ends = true;
  reading.join();
  state.SetItemsProcessed(static_cast<std::int64_t>(took.size()));
  tell(state, "", took);
  tell(state, "echo_", echoed);
  state.counters["events"] = static_cast<double>(events.load());
}
BENCHMARK(health)->Args({15, 0, 0})->Args({15, 1, 0})->Args({15, 1, 1})->Args({15, 0, 1})->Iterations(1)->UseRealTime();

std::string observed() {
  std::string body = "{\"inputs\":{\"pixels\":[";
  for (std::size_t i = 0; i < 64; ++i) body += (i ? "," : "") + std::to_string(i * 7 % 17);
  return post("/api/v1/meshes/digits/observe", body + "]}}");
}

const Json& late_learning() {
  static const Json learning{{"rule", "backprop"},
                             {"schedule", "pipelined"},
                             {"loss", "cross_entropy"},
                             {"late", "meet"},
                             {"optimizer", {{"type", "momentum"}, {"lr", 0.001}}}};
  return learning;
}

/// A sample and its label by two requests, in a data directory with interval=2s. Argument: connections.
void observe_and_teach(benchmark::State& state) {
  const storage::TemporaryDirectory folder;
  server::Service::Options options;
  options.meshes.state = folder.path();
  const auto service = serve(std::move(options));
  WEFT_ASSERT(service->meshes().create("digits", digits(late_learning()), {}).has_value(), "no mesh");
  const std::string observe = observed();
  Load load(service->addresses().front(), static_cast<std::size_t>(state.range(0)),
            [&](std::size_t, std::string_view before) {
              const std::size_t ticket = before.find("\"ticket\":");
              if (ticket == before.npos) return observe;
              const std::string_view rest = before.substr(ticket + 9);
              const std::string number(rest.substr(0, rest.find_first_of(",}")));
              return post("/api/v1/meshes/digits/teach", "{\"ticket\":" + number + ",\"targets\":{\"digit\":3}}");
            });
  std::int64_t done = 0;
  for (auto _ : state) {
    while (load.has_free()) load.ask({});
    done += static_cast<std::int64_t>(load.take(std::chrono::seconds(5), nullptr));
  }
  state.SetItemsProcessed(done);
  state.counters["samples_per_second"] = benchmark::Counter(static_cast<double>(done) / 2, benchmark::Counter::kIsRate);
}
BENCHMARK(observe_and_teach)->Arg(1)->Arg(32)->MinTime(3)->UseRealTime();

/// The same samples by calls in this process, in a data directory too.
void observe_and_teach_in_process(benchmark::State& state) {
  const storage::TemporaryDirectory folder;
  server::LiveMesh::Options options;
  options.directory = folder.path() + "/digits";
  options.mesh.threads = 1;
  const auto live = server::LiveMesh::create(digits(late_learning()), options).value();
  std::vector<float> pixels(64);
  for (std::size_t i = 0; i < 64; ++i) pixels[i] = static_cast<float>(i * 7 % 17);
  static constexpr std::uint32_t kLabel = 3;
  for (auto _ : state) {
    const mesh::RunInput in{"pixels", pixels};
    const auto ticket = live->observe({&in, 1});
    WEFT_ASSERT(ticket.has_value(), "not observed");
    const learning::Target target{.output = "digit", .labels = {&kLabel, 1}};
    WEFT_ASSERT(live->teach(*ticket, {&target, 1}).has_value(), "not taught");
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(observe_and_teach_in_process)->MinTime(2)->UseRealTime();

/// Seconds of a processor that the busiest thread of this process has had.
double busiest_thread_seconds() {
  double most = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "schedstat");
    double nanoseconds = 0;
    if (file >> nanoseconds) most = std::max(most, nanoseconds * 1e-9);
  }
  return most;
}

double process_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

/// Ticks of 256x256 cells for a second of their thread, without and with ten frames a second, in 60 pairs of 400 ms:
/// other load passes over both of a pair. `other_ms_per_frame`: processor time of all other threads, the client's too.
void page_frames(benchmark::State& state) {
  const auto service = serve({}, 1, true);
  const auto spec = mesh::read_network(
      R"({"weft":2,"name":"wave","grid":{"y":256,"x":256},"inputs":{"drive":[1]},"layers":[{"repeat":{"y":[0,256],)"
      R"("x":[0,256]},"type":"dense","out":1,"activation":"tanh","from":["drive"],"neighbours":"von_neumann"}],)"
      R"("outputs":{"y":[0,0,255,0]}})",
      "wave");
  WEFT_ASSERT(spec.has_value() && service->meshes().create("wave", *spec, {}).has_value(), "no mesh");
  run_free(*service, "wave");
  Wire page(service->addresses().front());
  const auto mesh = service->meshes().find("wave").value();
  std::size_t frames = 0;
  std::vector<double> took, costs;
  double other[2] = {0, 0};
  for (auto _ : state)
    for (int pair = 0; pair < 60; ++pair) {
      double rate[2] = {0, 0};
      for (const int looks : pair % 2 ? std::array{0, 1} : std::array{1, 0}) {
        const auto begun = Clock::now();
        const std::uint64_t before = mesh->statistics()->tick;
        const double used = busiest_thread_seconds(), all = process_seconds();
        for (auto due = begun; due < begun + milliseconds(400); due += milliseconds(100)) {
          std::this_thread::sleep_until(due);
          if (!looks) continue;
          const auto asked = Clock::now();
          page.send_text(get("/api/v1/meshes/wave/heatmap?metric=value&w=256&h=256"));
          WEFT_ASSERT(page.answer().size() == 32 + 256 * 256, "no frame");
          took.push_back(std::chrono::duration<double, std::milli>(Clock::now() - asked).count());
          ++frames;
        }
        std::this_thread::sleep_until(begun + milliseconds(400));
        const double own = busiest_thread_seconds() - used;
        rate[looks] = static_cast<double>(mesh->statistics()->tick - before) / own;
        other[looks] += process_seconds() - all - own;
      }
      costs.push_back(100 * (1 - rate[1] / rate[0]));
    }
  std::sort(costs.begin(), costs.end());
  tell(state, "frame_", took);
  state.counters["cost_percent"] = bench::quantile(costs, 0.5);
  state.counters["cost_p25"] = bench::quantile(costs, 0.25);
  state.counters["cost_p75"] = bench::quantile(costs, 0.75);
  state.counters["other_ms_per_frame"] = 1000 * (other[1] - other[0]) / static_cast<double>(frames);
  state.counters["frames"] = static_cast<double>(frames);
}
BENCHMARK(page_frames)->Iterations(1)->UseRealTime();

}  // namespace
