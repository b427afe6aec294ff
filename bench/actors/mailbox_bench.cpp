// SPDX-License-Identifier: Apache-2.0
// Cost of a control message, and cost of an empty mailbox for a tick.

#include "actors/actor.hpp"
#include "actors/supervisor.hpp"

#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

namespace weft::actors {
namespace {

struct Command {
  std::uint64_t kind = 0;
  double value = 0;
};

class Sink final : public Actor<Command> {
 public:
  explicit Sink(ActorId id) : Actor(id, 64) {}
  double sum = 0;

 protected:
  void receive(std::uint64_t, std::uint64_t, Command&& message) noexcept override { sum += message.value; }
};

void push_and_drain(benchmark::State& state) {
  Registry registry(1);
  Sink sink(0);
  std::uint64_t tick = 0;
  for (auto _ : state) {
    for (int i = 0; i < 32; ++i) benchmark::DoNotOptimize(sink.mailbox().push({1, 2.0}).has_value());
    sink.deliver(++tick, registry);
  }
  state.SetItemsProcessed(state.iterations() * 32);
}
BENCHMARK(push_and_drain);

// The price of a tick boundary where nothing was sent: one load an actor.
void deliver_nothing(benchmark::State& state) {
  Registry registry(256);
  std::vector<std::unique_ptr<Sink>> sinks;
  for (ActorId id = 0; id < 256; ++id) sinks.push_back(std::make_unique<Sink>(id));
  std::uint64_t tick = 0;
  for (auto _ : state) {
    ++tick;
    for (auto& sink : sinks) benchmark::DoNotOptimize(sink->deliver(tick, registry));
  }
  state.SetItemsProcessed(state.iterations() * 256);
}
BENCHMARK(deliver_nothing);

void contended_push(benchmark::State& state) {
  static Mailbox<Command>* mailbox = nullptr;
  if (state.thread_index() == 0) mailbox = new Mailbox<Command>(1024);
  for (auto _ : state) {
    if (!mailbox->push({1, 2.0}) && state.thread_index() == 0) mailbox->drain([](std::uint64_t, Command&&) {});
  }
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) {
    delete mailbox;
    mailbox = nullptr;
  }
}
BENCHMARK(contended_push)->Threads(1)->Threads(2)->UseRealTime();

void decide(benchmark::State& state) {
  Registry registry(1);
  Supervisor supervisor(registry, {.policy = Policy::restart, .max_restarts = 8, .window = 100});
  std::uint64_t tick = 0;
  for (auto _ : state) benchmark::DoNotOptimize(supervisor.decide({0, tick += 7, FaultKind::threw}));
}
BENCHMARK(decide);

}  // namespace
}  // namespace weft::actors
