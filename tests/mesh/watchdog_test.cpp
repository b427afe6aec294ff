// SPDX-License-Identifier: Apache-2.0
// A cell that does not return, seen from outside while the others wait for it.

#include "actors/watchdog.hpp"

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/runtime/cell.hpp"

#include "testing.hpp"
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

namespace weft::mesh::watchdog_test {
namespace {

using std::chrono::milliseconds;
using namespace testing_support;

/// Holds whoever comes with the value kTrigger until it is opened.
class Latch {
 public:
  void pass() {
    std::unique_lock hold(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(hold, [&] { return is_open_; });
  }
  void shut() {
    const std::lock_guard hold(mutex_);
    is_open_ = false, waiting_ = 0;
  }
  void open() {
    const std::lock_guard hold(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = true;
  int waiting_ = 0;
};

Latch& latch() {
  static Latch instance;
  return instance;
}

constexpr float kTrigger = 77.0f;

/// Called from inside the cell.
std::function<void()>& looks() {
  static std::function<void()> instance;
  return instance;
}

/// y = x; waits at the latch for as long as it is told by its input.
class Latched final : public Layer {
 public:
  explicit Latched(std::size_t width) : Layer(width, width) {}
  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    if (args.x.row(0)[0] == kTrigger) {
      if (looks()) looks()();
      latch().pass();
    }
    stream.copy({args.x, args.y});
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (args.dx.data) stream.copy({args.dy, args.dx});
  }
};

/// in -> identity -> latched -> identity, one cell a column, and beside it a chain that reads nothing of it.
Mesh mesh_of(MeshOptions options) {
  static const Status done =
      register_layer("latched", [](const Shape& in, std::size_t, OptionReader&) -> Result<std::unique_ptr<Layer>> {
        return std::unique_ptr<Layer>(new Latched(in.at(0)));
      });
  must(done);
  NetworkBuilder builder("latched", {1, 2, 3, 1});
  builder.input("in", 4).input("beside", 4);
  builder.layer({0, 0, 0, 0}, "identity").from({"in"});
  builder.layer({0, 0, 1, 0}, "latched").from({Coord{0, 0, 0, 0}});
  builder.layer({0, 0, 2, 0}, "identity").from({Coord{0, 0, 1, 0}});
  builder.layer({0, 1, 0, 0}, "identity").from({"beside"});
  builder.layer({0, 1, 1, 0}, "identity").from({Coord{0, 1, 0, 0}});
  builder.layer({0, 1, 2, 0}, "identity").from({Coord{0, 1, 1, 0}, Coord{0, 0, 2, 0}}, Combine::add);
  builder.output("out", {0, 1, 2, 0});
  options.grain_bytes = 0;  // as many regions as threads
  options.pin = false;
  return must(Mesh::build(builder.spec(), options));
}

class Told {
 public:
  void operator()(const actors::Hang& hang) {
    const std::lock_guard hold(mutex_);
    hangs_.push_back(hang);
    changed_.notify_all();
  }
  std::vector<actors::Hang> wait_for(std::size_t count) {
    std::unique_lock hold(mutex_);
    changed_.wait(hold, [&] { return hangs_.size() >= count; });
    return hangs_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<actors::Hang> hangs_;
};

struct Case {
  ExecutorKind executor;
  std::size_t threads;
};
class EveryExecutor : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Executors, EveryExecutor,
                         testing::Values(Case{ExecutorKind::automatic, 1}, Case{ExecutorKind::automatic, 2},
                                         Case{ExecutorKind::automatic, 3}, Case{ExecutorKind::deterministic, 1},
                                         Case{ExecutorKind::deterministic, 2}),
                         [](const auto& tested) {
                           return std::string(tested.param.executor == ExecutorKind::automatic ? "Tbb"
                                                                                               : "Deterministic") +
                                  std::to_string(tested.param.threads);
                         });

TEST_P(EveryExecutor, TheWatchdogNamesTheCellThatHangsAndItsTickAndNoOther) {
  Mesh mesh = mesh_of({.threads = GetParam().threads, .executor = GetParam().executor});
  must(mesh.tick(5));
  must(mesh.set_input("in", std::vector<float>(4, kTrigger)));
  latch().shut();
  Told told;
  actors::Watchdog watchdog(mesh.activity(), MeshAccess::cells(mesh).size(),
                            {.limit = milliseconds(100), .told = std::ref(told)});
  std::thread runner([&] { must(mesh.tick(20)); });  // the identity passes it on at tick 5, the latch meets it at 6
  const actors::Hang hang = told.wait_for(1)[0];
  EXPECT_EQ(to_string(MeshAccess::cells(mesh)[hang.actor]->at()), "[0,0,1,0]");
  EXPECT_EQ(hang.tick, 6u);
  EXPECT_FALSE(hang.is_over);
  latch().open();
  runner.join();
  EXPECT_TRUE(told.wait_for(2)[1].is_over);
  EXPECT_EQ(watchdog.hangs(), 1u) << "regions that wait for a neighbour do not hang";
  EXPECT_EQ(mesh.ticks(), 25u);
  EXPECT_EQ(output_of(mesh, {0, 0, 1, 0}), std::vector<float>(4, kTrigger));
}

TEST_P(EveryExecutor, ACellAtWorkIsOnTheBoardAndARunThatIsOverLeavesItEmpty) {
  Mesh mesh = mesh_of({.threads = GetParam().threads, .executor = GetParam().executor});
  const auto& activity = mesh.activity();
  EXPECT_EQ(activity.size(), mesh.plan().regions.size());
  const auto expect_idle = [&] {
    for (std::size_t region = 0; region < activity.size(); ++region)
      EXPECT_TRUE(activity.at(region).is_idle()) << region;
  };
  expect_idle();
  must(mesh.tick(10));
  expect_idle();
  must(mesh.set_input("in", std::vector<float>(4, kTrigger)));
  latch().shut();
  std::thread runner([&] { must(mesh.tick(3)); });
  const auto stands = [&] {
    for (std::size_t region = 0; region < activity.size(); ++region) {
      const auto place = activity.at(region);
      if (!place.is_idle() && to_string(MeshAccess::cells(mesh)[place.actor]->at()) == "[0,0,1,0]" && place.tick == 11)
        return true;
    }
    return false;
  };
  while (!stands()) std::this_thread::yield();
  latch().open();
  runner.join();
  expect_idle();
  must(mesh.add_session());  // a new engine, the same activity table
  must(mesh.tick(3));
  expect_idle();
}

/// Expects a hang in `runs` to be reported by cell and tick, and to be over afterwards; the activity table is empty
/// then.
void expect_watched(Mesh& mesh, std::uint64_t tick, const std::function<void()>& runs) {
  latch().shut();
  Told told;
  actors::Watchdog watchdog(mesh.activity(), MeshAccess::cells(mesh).size(),
                            {.limit = milliseconds(100), .told = std::ref(told)});
  std::thread runner(runs);
  const actors::Hang hang = told.wait_for(1)[0];
  EXPECT_EQ(to_string(MeshAccess::cells(mesh)[hang.actor]->at()), "[0,0,1,0]");
  EXPECT_EQ(hang.tick, tick);
  latch().open();
  runner.join();
  EXPECT_TRUE(told.wait_for(2)[1].is_over);
  EXPECT_EQ(watchdog.hangs(), 1u);
  for (std::size_t region = 0; region < mesh.activity().size(); ++region)
    EXPECT_TRUE(mesh.activity().at(region).is_idle()) << region;
}

TEST_P(EveryExecutor, TheWatchdogSeesWhatComputesWithoutTicks) {
  Mesh mesh = mesh_of({.threads = GetParam().threads, .executor = GetParam().executor});
  must(mesh.tick(5));
  const std::vector<float> triggers(4 * 16, kTrigger), beside(4 * 16, 1.0f);
  const auto inputs = [&](std::size_t rows) {
    return std::vector<RunInput>{{"in", std::span(triggers).first(4 * rows)},
                                 {"beside", std::span(beside).first(4 * rows)}};
  };
  std::vector<float> out(4 * 16);
  const auto outputs = [&](std::size_t rows) {
    return std::vector<RunOutput>{{"out", std::span(out).first(4 * rows)}};
  };
  expect_watched(mesh, 5, [&] { must(mesh.forward(inputs(2), 2, outputs(2))); });
  // The copies' own ticks: the identity passes it on at 0, the latch meets it at 1.
  expect_watched(mesh, 1, [&] { must(MeshAccess::evaluate_copies(mesh, 0, inputs(2), 2, 2, outputs(2))); });
  // A long run, layer by layer: the first layer's ticks all together, then the latch's, from the run's beginning.
  must(mesh.set_input("in", std::vector<float>(4, kTrigger)));
  must(mesh.tick());
  expect_watched(mesh, 6, [&] { must(mesh.run(inputs(16), 16, outputs(16))); });
}

TEST(Watchdog, TellsVisitsOfForwardPassesAndCopiesApart) {
  Mesh mesh = mesh_of({.threads = 1});
  const std::vector<float> triggers(4, kTrigger);
  const std::vector<RunInput> inputs{{"in", triggers}, {"beside", triggers}};
  std::set<std::uint64_t> marks;
  looks() = [&] { marks.insert(mesh.activity().at(0).mark); };
  for (int i = 0; i < 10; ++i) {
    must(mesh.forward(inputs, 1, {}));
    must(MeshAccess::evaluate_copies(mesh, std::nullopt, inputs, 1, 2, {}));
  }
  looks() = nullptr;
  EXPECT_EQ(marks.size(), 20u);
}

TEST(Watchdog, TellsVisitsOfOneCellApart) {
  // The same cell at the same place, visit after visit, each in a run of its own, as if between two looks: it moves.
  Mesh mesh = mesh_of({.threads = 1});
  must(mesh.set_input("in", std::vector<float>(4, kTrigger)));
  must(mesh.tick());
  std::set<std::uint64_t> marks;
  looks() = [&] { marks.insert(mesh.activity().at(0).mark); };
  for (int run = 0; run < 10; ++run) must(mesh.tick());
  must(mesh.tick(10));
  looks() = nullptr;
  EXPECT_EQ(marks.size(), 20u);
}

TEST(Watchdog, SamplesWhereTicksTakeTheirTime) {
  // One cell does a thousand times the work of the other.
  NetworkSpec spec =
      NetworkBuilder("uneven", {1, 1, 2, 1}).input("in", 512).dense({0, 0, 0, 0}, 512).dense({0, 0, 1, 0}, 1).spec();
  Mesh mesh = must(Mesh::build(spec, {.threads = 1}));
  actors::Watchdog watchdog(mesh.activity(), 2, {.limit = std::chrono::nanoseconds(0)});
  watchdog.sample_for(std::chrono::seconds(600));
  // Some 500 samples, however fast ticks are: under a sanitizer one takes a hundred times as long.
  const auto enough = std::chrono::steady_clock::now() + milliseconds(500);
  std::vector<actors::Watchdog::Share> shares;
  while (shares.empty() || std::chrono::steady_clock::now() < enough) {
    must(mesh.tick(16));
    shares = watchdog.busiest(2);
  }
  EXPECT_EQ(shares[0].actor, 0u);
  EXPECT_GT(shares[0].share, shares.size() > 1 ? 2 * shares[1].share : 0.0);
}

}  // namespace
}  // namespace weft::mesh::watchdog_test
