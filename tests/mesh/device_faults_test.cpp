// SPDX-License-Identifier: Apache-2.0
// A device that fails under a mesh, at each call at which it can: every output and hash stays the CPU's, the fault is
// counted, and the device is taken again later. Skipped (77) where there is no Vulkan device; WEFT_TEST_DEVICE names
// one.

#include "mesh/device/device_recovery.hpp"
#include "mesh/mesh.hpp"
#include "mesh/persistence/snapshot.hpp"
#include "mesh/runtime/command.hpp"

#include "fault_scenarios.hpp"
#include "faulty_device.hpp"
#include <span>
#include <string>
#include <vector>

namespace weft::mesh::device_faults_test {
namespace {

using namespace testing_support;

/// Three cells, one of which remembers, one loop; few shaders, since a device that was lost compiles them again.
NetworkSpec small_network() {
  return NetworkBuilder("small", {1, 1, 3, 2})
      .input("a", 3)
      .dense({0, 0, 0, 0}, 5, kernels::Activation::tanh)
      .from({"a", Coord{0, 0, 2, 0}})
      .layer({0, 0, 1, 0}, "leaky_integrator")
      .dense({0, 0, 2, 0}, 4)
      .output("y", {0, 0, 2, 0})
      .seed(3)
      .spec();
}

/// The same with its middle on the host.
NetworkSpec parted_network() {
  NetworkSpec spec = small_network();
  spec.layers[1].device = Placement::cpu;
  return spec;
}

Mesh mesh_on(const std::string& where, std::size_t sessions = 1, const NetworkSpec& spec = small_network()) {
  MeshOptions options;
  options.threads = 1;
  options.sessions = sessions;
  options.device = where;
  options.pin = false;
  return must(Mesh::build(spec, options));
}

DeviceStatistics statistics_of(const Mesh& mesh) {
  return mesh.device_statistics() ? *mesh.device_statistics() : DeviceStatistics();
}

/// A mesh on the CPU and one on the device.
struct Two {
  explicit Two(std::size_t sessions = 1, const NetworkSpec& spec = small_network())
      : cpu(mesh_on("cpu", sessions, spec)), gpu(mesh_on(device_name(), sessions, spec)) {}
  template <class Act>
  void both(Act&& act) {
    act(cpu);
    act(gpu);
  }
  void tick(std::uint64_t n) {
    both([n](Mesh& mesh) { must(mesh.tick(n)); });
  }
  DeviceStatistics statistics() const { return statistics_of(gpu); }
  void expect_equal() const { EXPECT_EQ(hashes(gpu), hashes(cpu)); }
  Mesh cpu, gpu;
};

std::string text(std::span<const float> values) {
  std::string all;
  for (const std::uint32_t word : bits(values)) all += std::to_string(word) + " ";
  return all + "\n";
}

class DeviceFaultsTest : public FaultsTest {
 protected:
  const std::uint64_t failed_before_ = plan().failed();
  /// Of all sorts: ticks one by one and many, runs, inputs while the device is ahead, commands, sessions, snapshots.
  static Outcome run_fully(const std::string& where) { return run_fully(where, small_network()); }
  static Outcome run_parted(const std::string& where) { return run_fully(where, parted_network()); }
  static Outcome run_fully(const std::string& where, const NetworkSpec& spec) {
    Outcome outcome;
    Mesh mesh = mesh_on(where, 2, spec);
    const auto look = [&] { outcome.all += text(must(mesh.output("y", 1))); };
    const auto set = [&](std::uint64_t seed) { must(mesh.set_input("a", noise(3, seed), seed % 2)); };
    set(1);
    must(mesh.tick());
    look();
    set(2);
    set(3);
    must(mesh.tick(5));
    look();
    look();  // what was fetched is kept
    const std::vector<float> a = noise(7 * 2 * 3, 9);
    std::vector<float> y(7 * 2 * 4);
    const RunInput inputs[] = {{"a", a}};
    const RunOutput outputs[] = {{"y", y}};
    must(mesh.run(inputs, 7, outputs));
    outcome.all += text(y);
    post(mesh, {0, 0, 0, 0}, CommandKind::probe, mesh.ticks() + 2);
    must(mesh.tick(4));
    const CommandMessage command =
        post(mesh, {0, 0, 2, 0}, {.kind = CommandKind::morph, .encoding = Encoding(Dtype::int8)});
    must(mesh.tick(3));
    EXPECT_TRUE(command->is_done() && command->status());
    look();
    outcome.all += hashes(mesh);
    must(mesh.add_session());
    must(mesh.tick(3));
    SessionSnapshot state;
    must(mesh.take_session_snapshot(1, state));
    set(4);
    must(mesh.tick(2));
    must(mesh.restore_session_snapshot(0, state));
    must(mesh.tick(2));
    look();
    outcome.all += hashes(mesh);
    outcome.statistics = statistics_of(mesh);
    plan().clear();  // its end is no part of its run
    return outcome;
  }
};

class EachFault : public DeviceFaultsTest, public ::testing::WithParamInterface<DriverFault> {};

TEST_P(EachFault, WheneverItHappensLosesNothing) {
  if (GetParam() == DriverFault::validation_error && !faulty().validates()) GTEST_SKIP() << "no validation layers";
  // Compiled shaders are not compiled again, and allocated memory is kept.
  const bool anew = GetParam() == DriverFault::no_pipeline || GetParam() == DriverFault::no_memory ||
                    GetParam() == DriverFault::no_mapping;
  const bool is_slow = GetParam() == DriverFault::lost_at_submit || GetParam() == DriverFault::lost_at_wait;
  const int runs = expect_nothing_lost(
      GetParam(), [](const std::string& where) { return run_fully(where); }, anew,
      is_thorough() ? 1
      : is_slow     ? 7
                    : 3);
  std::printf("%s: %d runs with a fault\n", name(GetParam()), runs);
  EXPECT_GT(runs, 1);
}

// A third of them a run, in turn.
INSTANTIATE_TEST_SUITE_P(OfTheDriver, EachFault,
                         ::testing::ValuesIn(in_slice<DriverFault>(
                             {DriverFault::no_memory, DriverFault::no_room, DriverFault::no_mapping,
                              DriverFault::no_pipeline, DriverFault::no_commands, DriverFault::lost_at_submit,
                              DriverFault::lost_at_wait, DriverFault::hang, DriverFault::validation_error},
                             3)),
                         [](const auto& row) { return std::string(name(row.param)); });

TEST_F(DeviceFaultsTest, AMeshThatTheHostRunsInPartLosesNothingEither) {
  // Steps of the host since both last agreed are undone.
  using Row = std::pair<DriverFault, int>;
  for (const auto& [fault, stride] : in_slice<Row>({{DriverFault::lost_at_submit, 11},
                                                    {DriverFault::lost_at_wait, 23},
                                                    {DriverFault::no_room, 4},
                                                    {DriverFault::no_commands, 2}},
                                                   2))
    EXPECT_GT(expect_nothing_lost(fault, run_parted, false, stride), 0) << name(fault);
}

TEST_F(DeviceFaultsTest, ALongRunGoesOnFromTheLastDownload) {
  // Every 1,024 steps the host gets what the device holds. Faults strike just after the second time, during the third
  // and after it.
  for (const DriverFault fault :
       in_slice<DriverFault>({DriverFault::lost_at_submit, DriverFault::lost_at_wait, DriverFault::no_commands}, 3)) {
    for (int n = 0, runs = 0;; n += is_thorough() ? 1 : 7, ++runs) {
      SCOPED_TRACE(std::string(name(fault)) + " number " + std::to_string(n));
      faulty().open();
      const std::uint64_t before = plan().failed();
      Two meshes(2);
      const auto run_both = [&](std::uint64_t seed, std::uint64_t ticks) {
        meshes.both([&](Mesh& mesh) { must(mesh.set_input("a", noise(3, seed), seed % 2)); });
        meshes.tick(ticks);
        EXPECT_EQ(text(must(meshes.gpu.output("y", 1))), text(must(meshes.cpu.output("y", 1))));
      };
      run_both(1, 1030);
      run_both(2, 1030);
      run_both(3, 2);
      EXPECT_EQ(meshes.statistics().downloads, 2u);
      EXPECT_EQ(meshes.statistics().replays, 0u);
      plan().fail(fault, static_cast<std::uint64_t>(n));
      run_both(4, 3);
      run_both(5, 1030);
      run_both(6, 2);
      meshes.expect_equal();
      const bool has_failed = plan().failed() != before;
      EXPECT_EQ(meshes.statistics().faults, has_failed ? 1u : 0u);
      plan().clear();
      if (!has_failed) {
        EXPECT_GT(runs, 1);
      }
      if (!has_failed || HasFailure()) break;
    }
  }
}

TEST_F(DeviceFaultsTest, ADeviceThatIsLostWhileItBringsMuchLeavesWhatItBroughtBefore) {
  // Sums that never settle, in several parts of 4 MiB.
  constexpr std::size_t kWidth = 300'000;
  const NetworkSpec spec = NetworkBuilder("sums", {1, 1, 1, 1})
                               .input("a", kWidth)
                               .layer({0, 0, 0, 0}, "identity")
                               .from({"a", Coord{0, 0, 0, 0}}, Combine::add)
                               .shape({kWidth})
                               .output("y", {0, 0, 0, 0})
                               .spec();
  const std::vector<float> a = noise(kWidth, 1);
  Mesh cpu = mesh_on("cpu", 1, spec);
  must(cpu.set_input("a", a));
  must(cpu.tick(16 * 130));
  int runs = 0;
  // A run takes a minute on lavapipe: one of the first two waits is struck, or each.
  for (int n = is_thorough() ? 0 : static_cast<int>(test_slice(2)); !HasFailure(); ++n) {
    faulty().open();
    Mesh gpu = mesh_on(device_name(), 1, spec);
    must(gpu.set_input("a", a));
    for (int i = 0; i < 15; ++i) must(gpu.tick(130));
    EXPECT_EQ(statistics_of(gpu).downloads, 1u);
    plan().fail(DriverFault::lost_at_wait, static_cast<std::uint64_t>(n));
    must(gpu.tick(130));
    const bool has_failed = statistics_of(gpu).faults == 1;
    plan().clear();
    EXPECT_EQ(hashes(gpu), hashes(cpu));
    if (!has_failed) break;
    ++runs;
    if (!is_thorough()) break;
  }
  std::printf("%d runs with a fault\n", runs);
  EXPECT_GT(runs, is_thorough() ? 2 : 0);
}

TEST_F(DeviceFaultsTest, AFaultThatPassesCostsAWhileOnTheCpu) {
  for (const DriverFault fault : {DriverFault::lost_at_submit, DriverFault::no_room}) {
    faulty().open();
    Two meshes;
    meshes.tick(3);
    plan().fail(fault, 0);
    meshes.both([](Mesh& mesh) {
      must(mesh.set_input("a", noise(3, 1)));
      must(mesh.add_session());  // takes memory
    });
    meshes.tick(10);
    EXPECT_EQ(meshes.statistics().faults, 1u);
    EXPECT_EQ(meshes.statistics().restarts, 0u);
    EXPECT_NE(meshes.statistics().why_host, "");
    meshes.expect_equal();
    const std::uint64_t before = meshes.statistics().device_steps;
    meshes.tick(DeviceRecovery::kFirstWait - 20);
    EXPECT_EQ(meshes.statistics().device_steps, before);
    EXPECT_EQ(meshes.statistics().restarts, 0u);
    // In the middle of a call it is back, and sessions that come and go change nothing about that.
    meshes.both([](Mesh& mesh) { must(mesh.remove_session(1)); });
    meshes.tick(30);
    EXPECT_EQ(meshes.statistics().restarts, 1u);
    EXPECT_EQ(meshes.statistics().why_host, "");
    EXPECT_GT(meshes.statistics().device_steps, before);
    EXPECT_NE(meshes.statistics().last_fault, "");
    meshes.expect_equal();
    const std::uint64_t host = meshes.statistics().host_steps;
    meshes.tick(40);
    meshes.expect_equal();
    EXPECT_EQ(meshes.statistics().host_steps, host);
  }
}

TEST_F(DeviceFaultsTest, AcquiredForLongItForgetsEarlierFaults) {
  DeviceRecovery recovery(device_name(), *gpu::Device::share(device_name()));
  DeviceStatistics statistics;
  const auto fail = [&] { recovery.release(Error(Errc::timed_out, "it hangs"), statistics); };
  const auto wait_and_acquire = [&](std::uint64_t expected) {
    EXPECT_FALSE(recovery.is_held());
    EXPECT_EQ(recovery.wait(), expected);
    recovery.note_steps(expected - 1);
    EXPECT_EQ(recovery.wait(), 1u);
    recovery.note_steps(7);
    EXPECT_EQ(recovery.wait(), 0u);
    recovery.acquire(statistics);
    EXPECT_TRUE(recovery.is_held());
  };
  fail();
  wait_and_acquire(DeviceRecovery::kFirstWait);
  recovery.note_steps(DeviceRecovery::kProven - 1);
  fail();
  wait_and_acquire(2 * DeviceRecovery::kFirstWait);
  fail();
  wait_and_acquire(4 * DeviceRecovery::kFirstWait);
  recovery.note_steps(DeviceRecovery::kProven);
  fail();
  wait_and_acquire(DeviceRecovery::kFirstWait);
  EXPECT_EQ(statistics.faults, 4u);
  EXPECT_EQ(statistics.restarts, 4u);
  EXPECT_EQ(statistics.last_fault, "it hangs");
  EXPECT_EQ(statistics.why_host, "");
}

TEST_F(DeviceFaultsTest, ManyMeshesOnOneDeviceLoseItTogetherAndGetOneAgain) {
  Mesh cpu = mesh_on("cpu"), first = mesh_on(device_name()), second = mesh_on(device_name());
  const auto tick = [&](std::uint64_t n) {
    for (Mesh* mesh : {&cpu, &first, &second}) must(mesh->tick(n));
  };
  tick(5);
  plan().fail(DriverFault::lost_at_submit, 0);
  tick(5);  // only one of them made the failing call
  EXPECT_EQ(plan().failed(), 1u + failed_before_);
  for (const Mesh* mesh : {&first, &second}) EXPECT_EQ(statistics_of(*mesh).faults, 1u);
  tick(DeviceRecovery::kFirstWait + 10);
  for (const Mesh* mesh : {&first, &second}) {
    EXPECT_EQ(statistics_of(*mesh).restarts, 1u);
    EXPECT_EQ(statistics_of(*mesh).why_host, "");
    EXPECT_EQ(hashes(*mesh), hashes(cpu));
  }
}

TEST_F(DeviceFaultsTest, ADeviceThatOpensAndFailsIsTriedSoOftenAndNoMore) {
  Two meshes;
  plan().fail(DriverFault::no_room, 0, UINT64_MAX);
  meshes.tick(1);
  const std::uint64_t all = DeviceRecovery::kFirstWait << DeviceRecovery::kMostTries;
  for (std::uint64_t t = 0; t < all; t += 1000) meshes.tick(1000);
  EXPECT_EQ(meshes.statistics().faults, 1u + DeviceRecovery::kMostTries);
  EXPECT_EQ(meshes.statistics().restarts, std::uint64_t{DeviceRecovery::kMostTries});
  EXPECT_EQ(meshes.statistics().device_steps, 0u);
  EXPECT_EQ(meshes.statistics().device_bytes, 0u);
  EXPECT_NE(meshes.statistics().why_host, "");
  meshes.expect_equal();
}

TEST_F(DeviceFaultsTest, AFaultThatStaysIsTriedSoOftenAndNoMore) {
  Two meshes;
  plan().fail(DriverFault::lost_at_wait, 0, UINT64_MAX);
  std::uint64_t wait = DeviceRecovery::kFirstWait;
  meshes.tick(1);
  EXPECT_EQ(meshes.statistics().faults, 1u);
  // The device proves itself when it is opened: that fails, so it is not even taken.
  for (int tries = 0; tries < DeviceRecovery::kMostTries; ++tries, wait *= 2) {
    const std::uint64_t asked = plan().calls(DriverFault::lost_at_wait);
    meshes.tick(tries == 0 ? wait : wait - 1);  // one has come with the try before
    EXPECT_EQ(plan().calls(DriverFault::lost_at_wait), asked) << tries;
    meshes.tick(1);
    EXPECT_GT(plan().calls(DriverFault::lost_at_wait), asked) << tries;
  }
  const std::uint64_t asked = plan().calls(DriverFault::lost_at_wait);
  plan().clear();
  meshes.tick(3 * wait);
  EXPECT_EQ(plan().calls(DriverFault::lost_at_wait), asked);
  EXPECT_EQ(meshes.statistics().restarts, 0u);
  EXPECT_EQ(meshes.statistics().faults, 1u);
  meshes.expect_equal();
}

}  // namespace
}  // namespace weft::mesh::device_faults_test
