// SPDX-License-Identifier: Apache-2.0

// Cells of a user's own: what reaches them, in which order, and when.

#include "mesh/runtime/cell_actor.hpp"

#include "mesh/runtime/message.hpp"

#include "clerks.hpp"
#include <chrono>
#include <thread>

namespace weft::mesh::cell_actor_test {
namespace {

using namespace clerk_network;
using testing_support::expect_error;
using testing_support::output_of;

TEST(CellActor, DoesTheSameOnEveryThreadCountExecutorAndDivisionOfTicks) {
  const NetworkSpec spec = clerks(true);
  Mesh one = mesh_of(spec, 1, 2);
  const auto expected = live(one, 0, 120, 4);
  for (const ExecutorKind kind : {ExecutorKind::automatic, ExecutorKind::resident, ExecutorKind::graph})
    for (const std::size_t threads : {2, 3, 7}) {
      Mesh mesh = must(
          Mesh::build(spec, {.threads = threads, .sessions = 2, .executor = kind, .pin = false, .grain_bytes = 0}));
      EXPECT_EQ(live(mesh, 0, 120, 4), expected) << scheduler::name(kind) << ", " << threads << " threads";
    }
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Mesh mesh = must(Mesh::build(spec, {.threads = 1 + seed % 6,
                                        .sessions = 2,
                                        .executor = ExecutorKind::deterministic,
                                        .executor_seed = seed,
                                        .pin = false,
                                        .grain_bytes = 0}));
    EXPECT_EQ(live(mesh, 0, 120, 4), expected) << "seed " << seed;
  }
}

TEST(CellActor, HandlesWhatCameFromOutsideByStampThenWhatNeighboursSentByPlace) {
  // Two orders of sending from outside differ; when neighbours fire does not matter.
  const auto outcome = [](std::vector<float> order) {
    Mesh mesh = mesh_of(clerks(false));
    for (const float v : order) must(mesh.tell(kB, make_mail(kNote, {v})));
    must(mesh.tick());
    return output_of(mesh, kB);
  };
  EXPECT_EQ(outcome({1, 2, 3}), outcome({1, 2, 3}));
  EXPECT_NE(outcome({1, 2, 3}), outcome({2, 1, 3}));
  Mesh mesh = mesh_of(clerks(false));
  EXPECT_EQ(must(mesh.tell(kB, make_mail(kNote))), 0u);
  EXPECT_EQ(must(mesh.tell(kB, make_mail(kNote))), 1u) << "stamps count up";
  EXPECT_EQ(must(mesh.tell(kA, make_mail(kNote))), 0u) << "a cell's own";
}

TEST(CellActor, ANeighbourHandlesMailOneTickLater) {
  Mesh mesh = mesh_of(clerks(false)), silent = mesh_of(clerks(false));
  const auto sent = make_mail(kForward, {3.0f});
  must(mesh.tell(kB, sent));
  must(silent.tell(kB, make_mail(kNote, {3.0f})));
  must(mesh.tick());
  must(silent.tick());
  EXPECT_TRUE(sent->is_done());
  EXPECT_EQ(sent->done_at(), 0u);
  EXPECT_EQ(output_of(mesh, kA), output_of(silent, kA)) << "on its way";
  must(mesh.tick());
  must(silent.tick());
  EXPECT_NE(output_of(mesh, kA), output_of(silent, kA)) << "handled in tick 1";
}

TEST(CellActor, AnswersQuestionsFromOutside) {
  Mesh mesh = mesh_of(clerks(false));
  const auto echo = must(mesh.ask(kB, make_mail(kEcho, {1, 2, 3})));
  const auto silent = must(mesh.ask(kB, make_mail(kSilent)));
  EXPECT_FALSE(echo->is_done());
  must(mesh.tick());
  must(echo->status());
  EXPECT_EQ(echo->answer(), (std::vector<float>{1, 2, 3}));
  EXPECT_TRUE(silent->is_done());
  EXPECT_TRUE(silent->answer().empty());
}

TEST(CellActor, AQuestionEndsByItsDeadlineAndNotBefore) {
  Mesh mesh = mesh_of(clerks(false));
  must(mesh.tell(kB, make_command(CommandKind::disable)));
  must(mesh.tick());
  const auto waits = must(mesh.ask(kB, make_mail(kEcho, {1}))), ends = must(mesh.ask(kB, make_mail(kEcho, {1}), 3));
  must(mesh.tick(4));
  EXPECT_FALSE(ends->wait_for(std::chrono::milliseconds(1)));
  must(mesh.tick());
  ASSERT_TRUE(ends->is_done()) << "although the cell does not fire";
  EXPECT_EQ(ends->done_at(), 5u);
  must(mesh.tick(4));
  EXPECT_FALSE(waits->is_done()) << "nothing is lost: it waits until the cell fires";
  must(mesh.tell(kB, make_command(CommandKind::enable)));
  must(mesh.tick());
  must(waits->status());
  EXPECT_EQ(waits->answer(), (std::vector<float>{1}));
  expect_error(ends->status(), Errc::timed_out, {"deadline", "tick 4"});
}

/// The last answer to a clerk, as its memory has it.
float last_reply(const Mesh& mesh, Coord at) {
  for (const auto& cell : MeshAccess::cells(mesh)) {
    if (cell->at() != at) continue;
    std::vector<std::uint64_t> words;
    cell->observers().front().observer->save(words);
    float last = 0;
    // The last of its fields, before the digest of their names: 4 bytes and 4 of padding.
    std::memcpy(&last, words.data() + words.size() - 2, sizeof last);
    return last;
  }
  return NAN;
}

TEST(CellActor, AQuestionMayWaitForEver) {
  Mesh mesh = mesh_of(clerks(false));
  must(mesh.tick(3));
  const auto asked = must(mesh.ask(kB, make_mail(kEcho, {1}), UINT64_MAX));
  must(mesh.tell(kB, make_command(CommandKind::disable)));
  must(mesh.tell(kC, make_mail(kAskOn, {float{kEcho}, 0x1p63f})));  // C asks B, for as long as a float tells
  must(mesh.tick(5));
  must(mesh.tell(kC, make_mail(kAskOn, {float{kEcho}, 1.8446743e19f})));
  must(mesh.tick(5));
  EXPECT_EQ(last_reply(mesh, kC), 0.0f);
  must(mesh.tell(kB, make_command(CommandKind::enable)));
  must(mesh.tick(3));
  must(asked->status());
  EXPECT_EQ(asked->answer(), std::vector<float>{1});
  EXPECT_EQ(last_reply(mesh, kC), 5.0f);
  EXPECT_EQ(ticks_after(7, UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(ticks_after(7, UINT64_MAX - 7), UINT64_MAX);
  EXPECT_EQ(ticks_after(7, 8), 15u);
}

TEST(CellActor, AsksANeighbourAndIsAnsweredTwoTicksLater) {
  Mesh mesh = mesh_of(clerks(false));
  must(mesh.tell(kC, make_mail(kAskOn, {float{kEcho}, 5})));  // C asks B, which echoes 5
  must(mesh.tick(2));
  EXPECT_EQ(last_reply(mesh, kC), 0.0f);
  must(mesh.tick());
  EXPECT_EQ(last_reply(mesh, kC), 5.0f) << "asked in tick 0, handled in 1, answered in 2";
  must(mesh.tell(kC, make_mail(kAskOn, {float{kSilent}, 5})));
  must(mesh.tick(3));
  EXPECT_EQ(last_reply(mesh, kC), 0.5f) << "handled without a reply";
}

TEST(CellActor, ANeighbourThatDoesNotFireAnswersNothingAndTheQuestionTimesOut) {
  Mesh mesh = mesh_of(clerks(false));
  must(mesh.tell(kB, make_command(CommandKind::disable)));
  must(mesh.tell(kC, make_mail(kAskOn, {float{kEcho}, 4})));
  must(mesh.tick(5));
  EXPECT_EQ(last_reply(mesh, kC), 0.0f);
  must(mesh.tick());
  EXPECT_EQ(last_reply(mesh, kC), -static_cast<float>(Errc::timed_out)) << "in tick 5";
}

TEST(CellActor, GatesANeighbourByACommand) {
  Mesh mesh = mesh_of(clerks(true));
  must(mesh.tell(kB, make_mail(kDisable)));  // B reads A
  must(mesh.tick(3));
  const auto is_on = [&](Coord at) {
    for (const auto& cell : MeshAccess::cells(mesh))
      if (cell->at() == at) return cell->is_enabled();
    return false;
  };
  EXPECT_TRUE(is_on(kA));
  must(mesh.tick());
  EXPECT_FALSE(is_on(kA)) << "told in tick 0, executed in tick 3";
  // A writes to B and reads no layer of it: it may not command its reader.
  const auto refused = must(mesh.ask(kA, make_mail(kDisable)));
  must(mesh.tell(kA, make_command(CommandKind::enable)));
  EXPECT_FALSE(mesh.tick(2)) << "what the handler makes of the refusal";
}

TEST(CellActor, ReachesPlacesThatItHasNoLinkWith) {
  register_clerk();
  const auto spec = [](bool tells) {
    NetworkBuilder builder("far", {1, 1, 8, 1});
    builder.input("in", 2);
    for (std::uint32_t x = 0; x < 8; ++x) {
      builder.layer({0, 0, x, 0}, "clerk").from({"in"}).option("friend", x == 0 ? 7.0 : 0.0).option("chats", x == 0);
      if (x == 0 && tells) builder.option("tells", std::vector<double>{0, 0, 7, 0});
    }
    return builder.output("y", {0, 0, 7, 0}).spec();
  };
  Mesh one = mesh_of(spec(true)), many = mesh_of(spec(true), 7);
  for (Mesh* mesh : {&one, &many}) must(mesh->tick(300));
  EXPECT_EQ(one.state_hash(), many.state_hash());
  Mesh without = mesh_of(spec(false));
  EXPECT_FALSE(without.tick()) << "what the handler makes of the refusal";
}

TEST(Messages, WaitsForEver) {
  for (const auto time : {std::chrono::nanoseconds::max(), std::chrono::nanoseconds::max() - std::chrono::hours(1)}) {
    Mesh mesh = mesh_of(clerks(false));
    const auto asked = must(mesh.ask(kB, make_mail(kEcho, {1})));
    std::thread ticks([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      must(mesh.tick());
    });
    EXPECT_TRUE(asked->wait_for(time));
    ticks.join();
  }
  EXPECT_FALSE(make_mail(1)->wait_for(std::chrono::nanoseconds::min()));
}

TEST(Messages, HaveANameAndAWayEach) {
  EXPECT_EQ(kMessageTypeCount, 5u);
  EXPECT_EQ(name(MessageType::activation), "activation");
  EXPECT_EQ(name(MessageType::user), "user");
  EXPECT_EQ(way_of(MessageType::gradient), MessageWay::published);
  EXPECT_EQ(way_of(MessageType::target), MessageWay::mailed);
}

}  // namespace
}  // namespace weft::mesh::cell_actor_test
