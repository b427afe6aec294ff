// SPDX-License-Identifier: Apache-2.0
// Calls that a program should not make answer with a status.

#include "calls.hpp"
#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

namespace weft::capi::misuse_test {
namespace {

using namespace testing_support;

/// Another handle in the clothes of a mesh's.
template <class Handle>
weft_mesh* disguised(Handle* handle) {
  return reinterpret_cast<weft_mesh*>(handle);
}

TEST(Misuse, NullHandlesAreNamed) {
  WEFT_EXPECT_FAILS(weft_mesh_tick(nullptr, 1), WEFT_BAD_HANDLE, "mesh: NULL");
  WEFT_EXPECT_FAILS(weft_learner_drain(nullptr), WEFT_BAD_HANDLE, "learner: NULL");
  WEFT_EXPECT_FAILS(weft_agent_close(nullptr), WEFT_BAD_HANDLE, "agent: NULL");
  WEFT_EXPECT_FAILS(weft_network_destroy(nullptr), WEFT_BAD_HANDLE, "network: NULL");
  WEFT_EXPECT_FAILS(weft_snapshot_destroy(nullptr), WEFT_BAD_HANDLE, "snapshot: NULL");
  WEFT_EXPECT_FAILS(weft_answer_status(nullptr, nullptr, nullptr), WEFT_BAD_HANDLE, "answer: NULL");
  EXPECT_STREQ(weft_last_error()->name, "bad_handle");
  EXPECT_EQ(weft_last_error()->size, sizeof(weft_error));
}

TEST(Misuse, DestroyedTwiceIsAStatus) {
  weft_mesh* const mesh = make_mesh();
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
  WEFT_EXPECT_FAILS(weft_mesh_destroy(mesh), WEFT_BAD_HANDLE, "destroyed");
  WEFT_EXPECT_FAILS(weft_mesh_tick(mesh, 1), WEFT_BAD_HANDLE, "destroyed");
  // Its place is taken by another; the old handle stays stale.
  for (int i = 0; i < 100; ++i) {
    weft_mesh* const next = make_mesh();
    EXPECT_NE(next, mesh);
    WEFT_EXPECT_FAILS(weft_mesh_tick(mesh, 1), WEFT_BAD_HANDLE, "destroyed");
    WEFT_EXPECT_OK(weft_mesh_destroy(next));
  }
}

TEST(Misuse, OtherKindsAreNamed) {
  weft_snapshot* snapshot = nullptr;
  WEFT_ASSERT_OK(weft_snapshot_create(&snapshot));
  WEFT_EXPECT_FAILS(weft_mesh_tick(disguised(snapshot), 1), WEFT_BAD_HANDLE, "mesh: the handle is of kind snapshot");
  WEFT_EXPECT_OK(weft_snapshot_destroy(snapshot));
  int own = 0;
  WEFT_EXPECT_FAILS(weft_mesh_tick(disguised(&own), 1), WEFT_BAD_HANDLE, "mesh: ");
  for (std::uintptr_t bits = 1; bits != 0; bits <<= 1)
    EXPECT_EQ(weft_mesh_tick(reinterpret_cast<weft_mesh*>(bits), 1), WEFT_BAD_HANDLE);
  EXPECT_EQ(weft_mesh_tick(reinterpret_cast<weft_mesh*>(UINTPTR_MAX), 1), WEFT_BAD_HANDLE);
}

TEST(Misuse, NullArgumentsAreNamed) {
  weft_mesh* const mesh = make_mesh();
  const float bits[2] = {0, 1};
  WEFT_EXPECT_FAILS(weft_mesh_set_input(mesh, nullptr, 0, bits, 2), WEFT_INVALID_ARGUMENT, "port: NULL");
  WEFT_EXPECT_FAILS(weft_mesh_set_input(mesh, "bits", 0, nullptr, 2), WEFT_INVALID_ARGUMENT, "values: NULL");
  WEFT_EXPECT_FAILS(weft_mesh_ticks(mesh, nullptr), WEFT_INVALID_ARGUMENT, "out_ticks: NULL");
  WEFT_EXPECT_FAILS(weft_mesh_save(mesh, nullptr, 1), WEFT_INVALID_ARGUMENT, "path: NULL");
  WEFT_EXPECT_FAILS(weft_mesh_command(mesh, nullptr, nullptr), WEFT_INVALID_ARGUMENT, "command: NULL");
  WEFT_EXPECT_FAILS(weft_mesh_run(mesh, nullptr, 1, 1, nullptr, 0), WEFT_INVALID_ARGUMENT, "inputs: NULL");
  const weft_input nameless{nullptr, bits, 2};
  WEFT_EXPECT_FAILS(weft_mesh_run(mesh, &nameless, 1, 1, nullptr, 0), WEFT_INVALID_ARGUMENT, "name: NULL");
  WEFT_EXPECT_FAILS(weft_mesh_set_input(mesh, "bits", 0, bits, SIZE_MAX / 2), WEFT_INVALID_ARGUMENT, "count");
  const auto* const odd = reinterpret_cast<const float*>(reinterpret_cast<const char*>(bits) + 1);
  WEFT_EXPECT_FAILS(weft_mesh_set_input(mesh, "bits", 0, odd, 1), WEFT_INVALID_ARGUMENT, "multiple of 4");
  WEFT_EXPECT_FAILS(weft_network_read("{}", 2, nullptr, nullptr), WEFT_INVALID_ARGUMENT, "out_network: NULL");
  WEFT_EXPECT_FAILS(weft_mesh_load(nullptr, nullptr, nullptr), WEFT_INVALID_ARGUMENT, "out_mesh: NULL");
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
}

// Rows x width beyond 64 bits: a buffer of what is left of the product is not taken for one of that size.
TEST(Misuse, RowsBeyondTheirProductAreRefused) {
  weft_mesh* const mesh = make_mesh();
  weft_learner* learner = nullptr;
  float values[2] = {};
  const std::uint32_t label = 0;
  weft_target target{};
  target.size = sizeof target;
  target.output = "answer";
  for (const std::uint64_t rows : {std::uint64_t{1} << 63, (std::uint64_t{1} << 63) + 1}) {
    const std::size_t rest = 2 * rows;  // 0 and 2
    const weft_input input{"bits", values, rest};
    const weft_output output{"answer", values, rest};
    WEFT_EXPECT_FAILS(weft_mesh_forward(mesh, &input, 1, rows, nullptr, 0), WEFT_SHAPE_MISMATCH, "bits");
    WEFT_EXPECT_FAILS(weft_mesh_forward(mesh, nullptr, 0, rows, &output, 1), WEFT_SHAPE_MISMATCH, "answer");
    WEFT_ASSERT_OK(weft_learner_build(mesh, nullptr, &learner));
    WEFT_EXPECT_FAILS(weft_learner_learn(learner, &input, 1, nullptr, 0, rows), WEFT_SHAPE_MISMATCH, "bits");
    WEFT_EXPECT_FAILS(weft_learner_predict(learner, &input, 1, rows, nullptr, 0, WEFT_NO_SESSION), WEFT_SHAPE_MISMATCH,
                      "bits");
    WEFT_EXPECT_FAILS(weft_learner_predict(learner, nullptr, 0, rows, &output, 1, WEFT_NO_SESSION), WEFT_SHAPE_MISMATCH,
                      "answer");
    WEFT_EXPECT_OK(weft_learner_destroy(learner));
    WEFT_ASSERT_OK(weft_learner_build(mesh, R"({"loss": "mse", "weights": true})", &learner));
    target.values = values;
    target.value_count = rest;
    WEFT_EXPECT_FAILS(weft_learner_learn(learner, nullptr, 0, &target, 1, rows), WEFT_SHAPE_MISMATCH, "answer");
    target.value_count = 0;
    WEFT_EXPECT_OK(weft_learner_destroy(learner));
  }
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
  // A run is refused beyond 2^63 ticks: the width makes the difference.
  constexpr const char* wide = R"({"weft": 2, "inputs": {"x": [4]}, "chain": [{"type": "dense", "out": 4}]})";
  weft_mesh* const four = make_mesh(wide);
  const weft_input input{"x", values, 0};
  const weft_output output{"y", values, 0};
  const std::uint64_t ticks = std::uint64_t{1} << 62;
  WEFT_EXPECT_FAILS(weft_mesh_run(four, &input, 1, ticks, nullptr, 0), WEFT_SHAPE_MISMATCH, "x");
  WEFT_EXPECT_FAILS(weft_mesh_run(four, nullptr, 0, ticks, &output, 1), WEFT_SHAPE_MISMATCH, "y");
  WEFT_EXPECT_OK(weft_mesh_destroy(four));
  // Labels, of two sessions.
  weft_network* network = nullptr;
  WEFT_ASSERT_OK(weft_network_read(kXor, std::strlen(kXor), nullptr, &network));
  weft_mesh_options options{};
  options.size = sizeof options;
  options.threads = 1;
  options.sessions = 2;
  weft_mesh* two = nullptr;
  WEFT_ASSERT_OK(weft_mesh_build(network, &options, &two));
  WEFT_ASSERT_OK(weft_learner_build(two, nullptr, &learner));
  target.labels = &label;
  WEFT_EXPECT_FAILS(weft_learner_learn(learner, nullptr, 0, &target, 1, std::uint64_t{1} << 63), WEFT_SHAPE_MISMATCH,
                    "answer");
  WEFT_EXPECT_OK(weft_learner_destroy(learner));
  WEFT_EXPECT_OK(weft_mesh_destroy(two));
  WEFT_EXPECT_OK(weft_network_destroy(network));
}

TEST(Misuse, SmallBuffersAreLeftAlone) {
  weft_mesh* const mesh = make_mesh();
  std::size_t needed = 0;
  float values[2] = {7, 7};
  WEFT_EXPECT_FAILS(weft_mesh_output(mesh, "answer", 0, values, 1, &needed), WEFT_TOO_SMALL, "room for 1 where 2");
  EXPECT_EQ(needed, 2u);
  EXPECT_EQ(values[0], 7);
  WEFT_EXPECT_OK(weft_mesh_output(mesh, "answer", 0, nullptr, 0, &needed));
  WEFT_EXPECT_FAILS(weft_mesh_output(mesh, "answer", 0, nullptr, 0, nullptr), WEFT_INVALID_ARGUMENT, "no buffer");
  WEFT_EXPECT_FAILS(weft_mesh_output(mesh, "answer", 0, nullptr, 2, &needed), WEFT_INVALID_ARGUMENT, "NULL");
  char hash[33] = "left";
  WEFT_EXPECT_FAILS(weft_mesh_state_hash(mesh, 0, hash, 32, &needed), WEFT_TOO_SMALL, "room for 32 where 33");
  EXPECT_STREQ(hash, "left");
  WEFT_EXPECT_OK(weft_mesh_state_hash(mesh, 0, hash, 33, nullptr));
  EXPECT_EQ(std::strlen(hash), 32u);
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
}

TEST(Misuse, StructsOfOtherSizes) {
  weft_network* network = nullptr;
  WEFT_ASSERT_OK(weft_network_read(kXor, std::strlen(kXor), nullptr, &network));
  weft_mesh* mesh = nullptr;
  weft_mesh_options options{};
  WEFT_EXPECT_FAILS(weft_mesh_build(network, &options, &mesh), WEFT_INVALID_ARGUMENT, "size");
  struct Later {
    weft_mesh_options now;
    std::uint64_t new_field;
  } later{};
  later.now.size = sizeof later;
  later.now.threads = 1;
  WEFT_EXPECT_OK(weft_mesh_build(network, &later.now, &mesh));  // not set: as if it were not there
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
  later.new_field = 1;
  WEFT_EXPECT_FAILS(weft_mesh_build(network, &later.now, &mesh), WEFT_UNSUPPORTED, "does not have");
  options.size = offsetof(weft_mesh_options, executor);  // of a program that knows fewer fields
  options.threads = 1;
  options.executor = "not read";
  WEFT_EXPECT_OK(weft_mesh_build(network, &options, &mesh));
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
  options.size = sizeof options;
  WEFT_EXPECT_FAILS(weft_mesh_build(network, &options, &mesh), WEFT_UNKNOWN_NAME, "not read");
  WEFT_EXPECT_OK(weft_network_destroy(network));
}

TEST(Misuse, TwoThreadsInOneObjectAreTold) {
  weft_mesh* const mesh = make_mesh();
  weft_learner* learner = nullptr;
  WEFT_ASSERT_OK(weft_learner_build(mesh, nullptr, &learner));
  WEFT_ASSERT_OK(weft_learner_destroy(learner));
  std::atomic<bool> is_running{false};
  std::atomic<weft_status> ended{WEFT_INTERNAL};
  std::thread other([&] {
    std::uint64_t ticks = 0;
    is_running = true;
    ended = weft_mesh_tick_for(mesh, 2'000'000'000, &ticks);
  });
  while (!is_running) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(800));  // valgrind takes its time to begin the call
  WEFT_EXPECT_FAILS(weft_mesh_tick(mesh, 1), WEFT_BUSY, "another call");
  WEFT_EXPECT_FAILS(weft_mesh_destroy(mesh), WEFT_BUSY, "another call");
  other.join();
  EXPECT_EQ(ended, WEFT_OK);
  WEFT_EXPECT_OK(weft_mesh_tick(mesh, 1));
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
}

TEST(Misuse, ManyThreadsLeaveOneStateOfMany) {
  weft_mesh* const mesh = make_mesh();
  std::array<std::uint64_t, 4> done{};
  std::array<std::thread, 4> threads;
  for (std::size_t i = 0; i < threads.size(); ++i)
    threads[i] = std::thread([&, i] {
      for (int n = 0; n < 2000; ++n) {
        const weft_status status = weft_mesh_tick(mesh, 1);
        ASSERT_TRUE(status == WEFT_OK || status == WEFT_BUSY);
        done[i] += status == WEFT_OK;
      }
    });
  for (auto& thread : threads) thread.join();
  std::uint64_t ticks = 0;
  WEFT_EXPECT_OK(weft_mesh_ticks(mesh, &ticks));
  EXPECT_EQ(ticks, done[0] + done[1] + done[2] + done[3]);
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
}

TEST(Misuse, HandlesRaceForTheirDestruction) {
  for (int round = 0; round < 50; ++round) {
    weft_snapshot* snapshot = nullptr;
    WEFT_ASSERT_OK(weft_snapshot_create(&snapshot));
    std::atomic<int> destroyed{0};
    std::array<std::thread, 3> threads;
    for (auto& thread : threads) thread = std::thread([&] { destroyed += weft_snapshot_destroy(snapshot) == WEFT_OK; });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(destroyed, 1);
  }
}

// A thread that calls with a handle while another destroys it, and makes the next object in its place.
TEST(Misuse, CallsRaceWithDestruction) {
  std::atomic<weft_mesh*> shown{make_mesh()};
  std::atomic<bool> is_ended{false};
  std::uint64_t unexpected = 0;
  std::thread late([&] {
    while (!is_ended) {
      const weft_status status = weft_mesh_tick(shown, 1);
      unexpected += status != WEFT_OK && status != WEFT_BUSY && status != WEFT_BAD_HANDLE;
      std::this_thread::yield();  // valgrind runs one thread at a time
    }
  });
  const auto insist = [](auto&& call) {
    weft_status status = call();
    for (; status == WEFT_BUSY; status = call()) std::this_thread::yield();
    return status;
  };
  for (int round = 0; round < 50; ++round) {
    weft_mesh* const old = shown;
    EXPECT_EQ(insist([&] { return weft_mesh_destroy(old); }), WEFT_OK);
    EXPECT_EQ(insist([&] { return weft_mesh_tick(old, 1); }), WEFT_BAD_HANDLE);
    shown = make_mesh();
    EXPECT_EQ(insist([&] { return weft_mesh_tick(shown, 1); }), WEFT_OK);
  }
  is_ended = true;
  late.join();
  EXPECT_EQ(unexpected, 0u);
  WEFT_EXPECT_OK(weft_mesh_destroy(shown));
}

// Of what shares its state, one object at a time, through whichever handle; and what is made next is free at once.
TEST(Misuse, AMeshAndItsLearnerAreBusyTogether) {
  for (int round = 0; round < 2; ++round) {
    weft_mesh* const mesh = make_mesh();
    weft_learner* learner = nullptr;
    WEFT_ASSERT_OK(weft_learner_build(mesh, nullptr, &learner));
    std::atomic<bool> is_ended{false};
    std::uint64_t learned = 0, unexpected = 0;
    std::thread other([&] {
      const float bits[2] = {0, 1};
      while (!is_ended) {
        const weft_status status = weft_learner_learn_one(learner, bits, 2, 1);
        learned += status == WEFT_OK;
        unexpected += status != WEFT_OK && status != WEFT_BUSY;
        std::this_thread::yield();
      }
    });
    std::uint64_t seen = 0, busy = 0;
    while (seen == 0 || busy == 0) {
      std::uint64_t ticks = 0;
      const weft_status status = weft_mesh_ticks(mesh, &ticks);
      ASSERT_TRUE(status == WEFT_OK || status == WEFT_BUSY);
      seen += status == WEFT_OK && ticks > 0;
      busy += status == WEFT_BUSY;
      std::this_thread::yield();
    }
    is_ended = true;
    other.join();
    EXPECT_GT(learned, 0u);
    EXPECT_EQ(unexpected, 0u);
    WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
    WEFT_EXPECT_OK(weft_learner_drain(learner));
    WEFT_EXPECT_OK(weft_learner_destroy(learner));
  }
}

TEST(Misuse, ObjectsMayGoInAnyOrder) {
  weft_mesh* const mesh = make_mesh();
  weft_learner* learner = nullptr;
  WEFT_ASSERT_OK(weft_learner_build(mesh, nullptr, &learner));
  weft_learner* second = nullptr;
  WEFT_EXPECT_FAILS(weft_learner_build(mesh, nullptr, &second), WEFT_INVALID_ARGUMENT, "already");
  WEFT_EXPECT_FAILS(weft_mesh_tick(mesh, 1), WEFT_INVALID_ARGUMENT, "learning rule");
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
  const float bits[2] = {0, 1};
  WEFT_EXPECT_OK(weft_learner_learn_one(learner, bits, 2, 1));  // it keeps its mesh
  WEFT_EXPECT_FAILS(weft_mesh_tick(mesh, 1), WEFT_BAD_HANDLE, "destroyed");
  WEFT_EXPECT_OK(weft_learner_destroy(learner));
}

TEST(Misuse, ErrorsAreTheThreadsOwn) {
  WEFT_EXPECT_FAILS(weft_mesh_tick(nullptr, 1), WEFT_BAD_HANDLE, "NULL");
  std::thread([] {
    EXPECT_EQ(weft_last_error()->code, WEFT_OK);
    EXPECT_STREQ(weft_last_error()->message, "");
  }).join();
  EXPECT_EQ(weft_last_error()->code, WEFT_BAD_HANDLE);
}

TEST(Misuse, LongTextsAreCutBetweenCharacters) {
  std::string key(6000, ' ');
  for (std::size_t i = 0; i + 1 < key.size(); i += 2) key[i] = '\xc3', key[i + 1] = '\xa9';
  weft_network* network = nullptr;
  WEFT_ASSERT_OK(weft_network_create("n", 1, 1, 1, 1, &network));
  EXPECT_EQ(weft_network_set(network, key.c_str(), "1"), WEFT_UNKNOWN_NAME);
  const std::string text = weft_last_error()->message;
  EXPECT_LT(text.size(), 4096u);
  EXPECT_EQ(text.substr(text.size() - 5), "\xc3\xa9...");
  WEFT_EXPECT_OK(weft_network_destroy(network));
}

TEST(Misuse, NamesOfStatuses) {
  EXPECT_STREQ(weft_status_name(WEFT_OK), "ok");
  EXPECT_STREQ(weft_status_name(WEFT_SHAPE_MISMATCH), "shape_mismatch");
  EXPECT_STREQ(weft_status_name(WEFT_DIFFERS), "differs");
  EXPECT_STREQ(weft_status_name(WEFT_BUSY), "busy");
  for (const int none : {-1, 19, 999, 1004, INT32_MAX, INT32_MIN}) EXPECT_STREQ(weft_status_name(none), "unknown");
  EXPECT_EQ(std::string(weft_version())
                .find(std::to_string(WEFT_VERSION_MAJOR) + "." + std::to_string(WEFT_VERSION_MINOR) + "."),
            0u);
}

}  // namespace
}  // namespace weft::capi::misuse_test
