// SPDX-License-Identifier: Apache-2.0
// Replays of a network that is changed in how it learns: by another rule, schedule, optimiser or lateness.

#include "agent/internal/data_directory.hpp"
#include "agent/replay.hpp"

#include "mesh/network/network_json.hpp"
#include "mesh/persistence/mesh_load.hpp"

#include "core/json.hpp"

#include "tests/agent/scripted.hpp"
#include "tests/support/memory_file_system.hpp"
#include <algorithm>
#include <string>
#include <vector>

namespace weft::agent::test::replay_changed_test {
namespace {

using storage::MemoryFileSystem;
const std::vector<Call> kScript = script(24);

void keep_all(Agent::Options& options) { options.keep = 1000; }

ReplayOptions options(std::vector<std::string> set = {}, std::optional<std::uint64_t> from = std::nullopt) {
  ReplayOptions options;
  options.from = from;
  options.set = std::move(set);
  options.mesh.threads = 1;
  options.mesh.executor = mesh::ExecutorKind::deterministic;
  return options;
}

void run(MemoryFileSystem& files, const std::vector<Call>& calls, const mesh::NetworkSpec& spec = small_network(),
         const std::string& directory = "agent") {
  ScriptedAgent agent(files, Durability::Mode::tick, keep_all, spec, directory);
  ASSERT_TRUE(agent.opened) << agent.opened.error().text();
  agent.run(calls.size(), calls);
}

/// The network as it is with the changes from its beginning.
mesh::NetworkSpec changed(const std::vector<std::string>& set, mesh::NetworkSpec spec = small_network()) {
  auto network = mesh::write_network(spec, -1);
  for (const std::string& change : set) network = with_change(*network, change);
  return *mesh::read_network(*network, "changed");
}

/// A later checkpoint, in the middle of the run.
std::uint64_t middle(MemoryFileSystem& files) {
  const auto all = Replay::checkpoint_infos(files, "agent");
  return (*all)[all->size() / 2].tick;
}

bool has(const std::vector<std::string>& all, std::string_view words) {
  return std::any_of(all.begin(), all.end(), [&](const std::string& one) { return one.find(words) != one.npos; });
}

// A changed replay from the first checkpoint is the run that the changed network would have had.
TEST(ChangedReplay, IsTheRunOfTheChangedNetworkFromItsBeginning) {
  std::vector<std::vector<std::string>> ways;
  for (const std::string_view rule : learning::rule_names())
    for (const char* schedule : {"settle", "pipelined"})
      ways.push_back({"learning.rule=" + std::string(rule), "learning.schedule=" + std::string(schedule)});
  for (const char* optimizer : {"sgd", "adamw", "rmsprop", "lion"})
    for (const char* schedule : {"settle", "pipelined"})
      ways.push_back({"learning.schedule=" + std::string(schedule), "learning.optimizer.type=" + std::string(optimizer),
                      "learning.optimizer.lr=0.001"});
  ways.push_back({"learning.rule=backprop", "learning.horizon=2"});
  ways.push_back({"learning.rule=dtp", "learning.feedback=tanh", "learning.late=meet", "learning.patience=4"});
  ways.push_back({"learning.schedule=settle", "learning.hold=5", "learning.optimizer.clip=norm",
                  "learning.optimizer.clip_limit=0.5"});
  MemoryFileSystem files;
  run(files, kScript);
  for (const auto& set : ways) {
    SCOPED_TRACE(set[0] + " " + set[1]);
    auto replay = Replay::open(files, "agent", options(set));
    ASSERT_TRUE(replay) << replay.error().text();
    EXPECT_TRUE(replay->anew().empty()) << replay->anew().front();
    const Status ran = replay->run();
    ASSERT_TRUE(ran) << ran.error().text();
    MemoryFileSystem others;
    ScriptedAgent other(others, Durability::Mode::tick, keep_all, changed(set));
    ASSERT_TRUE(other.opened) << other.opened.error().text();
    other.run(kScript.size(), kScript);
    EXPECT_EQ(replay->tick(), other->mesh().ticks());
    EXPECT_EQ(replay->replayable().hash(), other.hash());
  }
}

/// An agent, or a learner, learns batch `i`: three samples of one session.
template <class Learns>
Status learn_batch(Learns& learner, std::size_t i) {
  RandomStream random(3, i, RandomPurpose::test);
  std::vector<float> x(3 * 4);
  for (float& value : x) value = random.next_normal();
  const std::vector<std::uint32_t> labels{0, 1, static_cast<std::uint32_t>(i % 3)};
  const mesh::RunInput input{"x", x};
  const learning::Target target{"y", labels, {}};
  return learner.learn({&input, 1}, {&target, 1}, 3);
}

std::vector<Call> batches(std::size_t count) {
  std::vector<Call> calls;
  for (std::size_t i = 0; i < count; ++i)
    calls.push_back([i](Agent& agent) {
      const Status learned = learn_batch(agent, i);
      agent.learner()->clear_scores();
      return learned;
    });
  return calls;
}

// From a later checkpoint it is a new learner on the mesh as it stood there.
TEST(ChangedReplay, BeginsALearnerAnewOnTheMeshOfALaterCheckpoint) {
  const std::vector<Call> calls = batches(30);
  for (const auto& [rule, schedule] : {std::pair{"backprop", "pipelined"}, std::pair{"dtp", "settle"}}) {
    SCOPED_TRACE(rule);
    MemoryFileSystem files;
    run(files, calls);
    const std::uint64_t from = middle(files);
    const std::vector<std::string> set{"learning.rule=" + std::string(rule),
                                       "learning.schedule=" + std::string(schedule), "learning.optimizer.type=adamw",
                                       "learning.optimizer.lr=0.01"};
    auto replay = Replay::open(files, "agent", options(set, from));
    ASSERT_TRUE(replay) << replay.error().text();
    EXPECT_EQ(replay->tick(), from);
    for (const char* part : {"optimizer 'adamw'", "activations of earlier ticks", "errors on their way"})
      EXPECT_TRUE(has(replay->anew(), part)) << part;
    EXPECT_EQ(has(replay->anew(), "learned inverses"), std::string_view(rule) == "dtp");
    ASSERT_TRUE(replay->run());

    auto store = storage::CheckpointStore::look(files, "agent");
    ASSERT_TRUE(store);
    const auto keys = store->keys();
    const auto key = std::find_if(keys.begin(), keys.end(), [&](const auto& each) { return each.tick == from; });
    const auto found = internal::read_checkpoint(*store->at(*key));
    ASSERT_TRUE(found) << found.error().text();
    auto mesh = mesh::Mesh::build(changed(set), options().mesh);
    ASSERT_TRUE(mesh);
    ASSERT_TRUE(mesh::load_state(*mesh, found->file));
    const auto wanted = learning::read_learning(mesh->spec().learning);
    ASSERT_TRUE(wanted);
    const auto learner = learning::Learner::build(*mesh, *wanted);
    ASSERT_TRUE(learner);
    ASSERT_EQ(from % 3, 0u) << "a sample of this pipelined run takes a tick";
    for (std::size_t i = from / 3; i < calls.size(); ++i) ASSERT_TRUE(learn_batch(**learner, i));
    EXPECT_EQ(replay->replayable().hash(), mesh->state_hash(0));
  }
}

// The same optimiser goes on with its velocities and counts, and learned inverses go on under another rule with some.
TEST(ChangedReplay, TakesOverWhatMeansTheSame) {
  MemoryFileSystem files;
  run(files, batches(30), changed({"learning.rule=dtp"}));
  const std::uint64_t from = middle(files);
  auto before = Replay::open(files, "agent", options({}, from));
  ASSERT_TRUE(before);
  auto after = Replay::open(files, "agent", options({"learning.rule=sdtp"}, from));
  ASSERT_TRUE(after) << after.error().text();
  EXPECT_FALSE(has(after->anew(), "optimizer")) << "momentum in both";
  EXPECT_FALSE(has(after->anew(), "inverses"));
  const learning::LearnerSnapshot was(*before->replayable().learner()), is(*after->replayable().learner());
  std::size_t inverses = 0, arrays = 0, missing = 0;
  for (std::size_t i = 0; i + 1 < is.tensors().size(); ++i) {  // the last one are errors on their way
    const formats::Tensor& now = is.tensors()[i];
    const auto then = std::find_if(was.tensors().begin(), was.tensors().end(),
                                   [&](const formats::Tensor& each) { return each.name == now.name; });
    if (then == was.tensors().end()) {
      ++missing;
      continue;
    }
    EXPECT_TRUE(std::equal(now.bytes.begin(), now.bytes.end(), then->bytes.begin(), then->bytes.end())) << now.name;
    inverses += now.name.starts_with("learning/inverse");
    arrays += now.name.starts_with("learning/optimizer");
  }
  EXPECT_EQ(missing, 0u);
  EXPECT_FALSE(has(after->anew(), "beside weights"));
  EXPECT_GT(inverses, 0u);
  EXPECT_GT(arrays, 0u);
  EXPECT_TRUE(after->run());
}

std::vector<Call> late_calls(std::size_t count) {
  std::vector<Call> calls;
  for (std::size_t i = 0; i < count; ++i) {
    calls.push_back([i](Agent& agent) -> Status {
      RandomStream random(5, i, RandomPurpose::test);
      std::vector<float> x(4);
      for (float& value : x) value = random.next_normal();
      const mesh::RunInput input{"x", x};
      WEFT_TRY(const learning::Ticket ticket, agent.observe({&input, 1}));
      EXPECT_EQ(ticket, i);
      return {};
    });
    if (i < 6) continue;
    calls.push_back([i](Agent& agent) -> Status {
      const auto label = static_cast<std::uint32_t>(i % 3);
      const learning::Target target{.output = "y", .labels = {&label, 1}};
      Status taught = agent.teach(i - 6, {&target, 1});
      agent.learner()->clear_scores();
      return taught;
    });
  }
  return calls;
}

// Tickets go on with their numbers. What was open at the checkpoint has expired, and its targets are left out, told.
TEST(ChangedReplay, LeavesOutTargetsOfSamplesThatExpired) {
  MemoryFileSystem files;
  const auto late = changed({"learning.late=meet", "learning.patience=12"});
  run(files, late_calls(40), late);
  const std::uint64_t from = middle(files);
  ASSERT_GT(from, 6u);
  auto unchanged = Replay::open(files, "agent", options({}, from));
  ASSERT_TRUE(unchanged);
  const learning::LateCounts before = unchanged->replayable().learner()->late_counts();
  const std::uint64_t open = before.open();
  ASSERT_GE(open, 5u);
  auto replay = Replay::open(files, "agent", options({"learning.rule=backprop"}, from));
  ASSERT_TRUE(replay) << replay.error().text();
  EXPECT_TRUE(has(replay->anew(), std::to_string(open) + " open samples"));
  const Status ran = replay->run();
  ASSERT_TRUE(ran) << ran.error().text();
  EXPECT_EQ(replay->replayable().left_out(), open);
  EXPECT_EQ(replay->replayable().learner()->next_ticket(), 40u);
  EXPECT_EQ(replay->replayable().learner()->late_counts().taught, 34 - before.taught - open);
  // From the beginning none is left out; with less patience those that came too late are.
  auto whole = Replay::open(files, "agent", options({"learning.rule=backprop"}));
  ASSERT_TRUE(whole);
  ASSERT_TRUE(whole->run());
  EXPECT_EQ(whole->replayable().left_out(), 0u);
  auto hasty = Replay::open(files, "agent", options({"learning.patience=0"}));
  ASSERT_TRUE(hasty) << hasty.error().text();
  ASSERT_TRUE(hasty->run());
  EXPECT_EQ(hasty->replayable().left_out(), 34u);
}

TEST(ChangedReplay, RefusesWithTheReasonItself) {
  MemoryFileSystem files;
  run(files, kScript);
  for (const auto& [change, code, words] : {std::tuple{"layers[0].out=5", Errc::shape_mismatch, "[0,0,0,0]"},
                                            {"learning.rule=dpt", Errc::unknown_name, "learning.rule"},
                                            {"learning.horizon=2000", Errc::out_of_range, "learning.horizon"}}) {
    const auto refused = Replay::open(files, "agent", options({change}));
    ASSERT_FALSE(refused) << change;
    EXPECT_EQ(refused.error().code(), code) << refused.error().text();
    EXPECT_NE(refused.error().text().find(words), std::string::npos) << refused.error().text();
  }
  auto small = options({"learning.schedule=settle"});
  small.mesh.max_memory = 1;
  const auto refused = Replay::open(files, "agent", small);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::too_large) << refused.error().text();
}

// A fault that the recorded run did not have is no damage.
TEST(ChangedReplay, TellsAHaltOfItsOwn) {
  MemoryFileSystem files;
  auto spec = mesh::NetworkBuilder("line", GridShape{1, 1, 3, 1})
                  .input("x", 4)
                  .dense({0, 0, 0, 0}, 5)
                  .dense({0, 0, 1, 0}, 5)
                  .dense({0, 0, 2, 0}, 3)
                  .output("y", {0, 0, 2, 0})
                  .seed(3)
                  .spec();
  spec.learning = R"({"rule":"backprop"})";
  run(files, batches(30), spec);
  auto replay = Replay::open(files, "agent", options({"learning.optimizer.lr=1000", "learning.rule=chain_original"}));
  ASSERT_TRUE(replay) << replay.error().text();
  const Status ran = replay->run();
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code(), Errc::halted) << ran.error().text();
}

}  // namespace
}  // namespace weft::agent::test::replay_changed_test
