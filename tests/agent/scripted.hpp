// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/agent.hpp"

#include "mesh/network/network.hpp"

#include "storage/file_system.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include "tests/mesh/testing.hpp"
#include "tests/support/memory_file_system.hpp"
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weft::agent::test {

/// Small, with a loop, a hidden state and noise: whatever is forgotten shows.
inline mesh::NetworkSpec small_network(std::uint64_t seed = 7) {
  using kernels::Activation;
  auto spec = mesh::NetworkBuilder("small", GridShape{1, 2, 2, 1})
                  .input("x", 4)
                  .dense({0, 0, 0, 0}, 6, Activation::tanh)
                  .from({"x", Coord{0, 1, 1, 0}})
                  .layer({0, 0, 1, 0}, "gru", 5)
                  .dense({0, 1, 0, 0}, 3)
                  .dense({0, 1, 1, 0}, 4, Activation::tanh)
                  .from({Coord{0, 0, 1, 0}})
                  .output("y", {0, 1, 0, 0})
                  .seed(seed)
                  .spec();
  spec.learning = R"({"rule":"fw_dtp","schedule":"pipelined","loss":"cross_entropy"})";
  return spec;
}

/// Time that moves when it is told to, and a little with each look.
struct VirtualTime {
  std::chrono::nanoseconds now{0};
  Now clock() {
    return [this] { return now += std::chrono::microseconds(10); };
  }
};

/// Counts the calls that were run, as a program around an agent would keep its own place.
class Counter final : public StateExtension {
 public:
  Status begin(ReplayableMesh& replayable) override {
    replayable_ = &replayable;
    return {};
  }
  std::string save() const override { return "{\"calls\":" + std::to_string(calls) + "}"; }
  Status load(std::string_view json) override {
    calls = std::stoull(std::string(json.substr(json.find(':') + 1)));
    return {};
  }
  Status replayed(const Record& record) override {
    if (!std::holds_alternative<CheckpointRecord>(record)) ++calls;
    if (replayable_->learner()) replayable_->learner()->clear_scores();
    return {};
  }
  std::uint64_t calls = 0;

 private:
  ReplayableMesh* replayable_ = nullptr;
};

/// Options that write in the calls, by a time of their own: the same calls give the same file operations.
inline Agent::Options deterministic_options(VirtualTime& time, Counter& counter, Durability::Mode mode) {
  Agent::Options options;
  options.durability = {mode, std::chrono::milliseconds(2)};
  options.keep = 2;
  options.checkpoint_every = 15;
  options.background = false;
  options.journal.segment_bytes = 1500;
  options.mesh.executor = mesh::ExecutorKind::deterministic;
  options.mesh.threads = 1;
  options.now = time.clock();
  options.extension = &counter;
  return options;
}

using Call = std::function<Status(Agent&)>;

/// Calls of a run: inputs, commands, sessions, markers, annotations, and training batches, or ticks without a learner.
/// Each call leaves one record, and depends on nothing but its place.
inline std::vector<Call> script(std::uint64_t steps, bool learns = true) {
  std::vector<Call> calls;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const auto values = [step](std::size_t count, std::uint64_t stream) {
      RandomStream random(11, step * 2 + stream, RandomPurpose::test);
      std::vector<float> all(count);
      for (float& value : all) value = random.next_normal();
      return all;
    };
    calls.push_back([=](Agent& agent) { return agent.set_input("x", values(4, 0), step % agent.mesh().sessions()); });
    if (!learns) calls.push_back([=](Agent& agent) { return agent.tick(1 + step % 3); });
    if (step % 5 == 2)
      calls.push_back([=](Agent& agent) -> Status {
        auto command = std::make_shared<mesh::Command>();
        command->kind = step % 2 ? mesh::CommandKind::morph : mesh::CommandKind::reset;
        command->encoding = Encoding(step % 3 ? Dtype::int8 : Dtype::float16);
        WEFT_TRY([[maybe_unused]] const auto sent, agent.post({0, step / 5 % 2 ? 1u : 0u, 0, 0}, command));
        return {};
      });
    if (step == 12)
      calls.push_back([](Agent& agent) -> Status {
        WEFT_TRY([[maybe_unused]] const std::size_t added, agent.add_session());
        return {};
      });
    if (step == 20) calls.push_back([](Agent& agent) { return agent.reset_session(1); });
    if (step == 28) calls.push_back([](Agent& agent) { return agent.remove_session(1); });
    if (learns)
      calls.push_back([=](Agent& agent) {
        const std::vector<float> samples = values(3 * agent.mesh().sessions() * 4, 1);
        const std::vector<std::uint32_t> labels{0, static_cast<std::uint32_t>(step % 3), learning::kNoLabel};
        const mesh::RunInput input{"x", samples};
        const learning::Target target{"y", labels, {}};
        Status learned = agent.learn({&input, 1}, {&target, 1}, 3);
        agent.learner()->clear_scores();
        return learned;
      });
    if (step % 7 == 3) calls.push_back([](Agent& agent) { return agent.mark(); });
    if (step % 4 == 0) calls.push_back([=](Agent& agent) { return agent.note("reward", std::to_string(step)); });
  }
  return calls;
}

/// An agent, its clock and its count of calls.
struct ScriptedAgent {
  using Change = std::function<void(Agent::Options&)>;
  explicit ScriptedAgent(storage::FileSystem& files, Durability::Mode mode = Durability::Mode::tick,
                         const Change& change = {}, const mesh::NetworkSpec& spec = small_network(),
                         const std::string& directory = "agent") {
    Agent::Options options = deterministic_options(time, counter, mode);
    if (change) change(options);
    auto made = Agent::open(files, directory, spec, std::move(options), recovery);
    if (!made) opened = Failure{made.error()};
    if (made) agent = *std::move(made);
  }
  Agent* operator->() const { return agent.get(); }
  /// The next call of a script. Counted before it is made: a checkpoint taken at its end holds the count.
  Status call(const std::vector<Call>& calls) {
    time.now += std::chrono::microseconds(300);
    return calls[counter.calls++](*agent);
  }
  void run(std::uint64_t until, const std::vector<Call>& calls) {
    ASSERT_TRUE(opened) << opened.error().text();
    while (counter.calls < until) {
      const Status ran = call(calls);
      ASSERT_TRUE(ran) << ran.error().text();
    }
  }
  Hash128 hash() const {
    return fold_sessions(agent->mesh().sessions(), [&](std::size_t s) { return agent->mesh().state_hash(s); });
  }

  VirtualTime time;
  Counter counter;
  Recovery recovery;
  Status opened;
  std::unique_ptr<Agent> agent;
};

/// Cuts the journal's last record off, as a kill does that comes between a call and what follows it.
inline void tear_last_record(storage::MemoryFileSystem& files) {
  using mesh::testing_support::must;
  std::string last;
  for (const std::string& path : files.all_files()) {
    if (path.find("/journal/") == std::string::npos) continue;
    if (path.ends_with("/durable"))
      must(files.remove(path));
    else
      last = std::max(last, path);
  }
  const std::size_t size = must(files.read(last, std::size_t{1} << 20)).size();
  ASSERT_TRUE(files.resize(last, size - 1));
}

}  // namespace weft::agent::test
