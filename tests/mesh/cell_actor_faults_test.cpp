// SPDX-License-Identifier: Apache-2.0

// Actors whose handlers throw or hang, and meshes of actors that go back or on from what was saved.

#include "mesh/persistence/entity_model.hpp"
#include "mesh/persistence/snapshot.hpp"

#include "actors/watchdog.hpp"

#include "formats/entity/entity.hpp"

#include "clerks.hpp"
#include <atomic>
#include <chrono>
#include <thread>

namespace weft::mesh::cell_actor_faults_test {
namespace {

using namespace clerk_network;
using actors::ActorStatus;
using actors::Policy;
using testing_support::expect_error;
using testing_support::output_of;

class Faulty : public testing::TestWithParam<Policy> {};

TEST_P(Faulty, AHandlerThatThrowsIsAFaultOfItsCell) {
  for (const std::size_t threads : {1, 4}) {
    Mesh mesh = mesh_of(clerks(false, {GetParam(), 3, 50, Policy::isolate}), threads);
    must(mesh.tell(kB, make_mail(kNote, {1})));
    must(mesh.tick(2));
    MeshAccess::take_cell_snapshots(mesh);
    const auto before = output_of(mesh, kB), quiet = output_of(mesh, kA);
    const auto bad = must(mesh.ask(kB, make_mail(kThrow))), next = must(mesh.ask(kB, make_mail(kEcho, {9})));
    const Status ticked = mesh.tick();
    expect_error(bad->status(), Errc::internal, {"handler threw", "as it was told"});
    EXPECT_EQ(output_of(mesh, kB), before) << "its output stays";
    EXPECT_EQ(view_of(mesh, kB).faults, 1u);
    EXPECT_FALSE(next->is_done()) << "mail behind it waits";
    switch (GetParam()) {
      case Policy::halt: {
        expect_error(ticked, Errc::halted, {"cell [0,0,2,0]", "tick 2", "as it was told"});
        expect_error(mesh.tell(kB, make_mail(kNote)), Errc::halted, {"[0,0,2,0]", "has stopped", "tick 2"});
        mesh.resume();
        break;
      }
      case Policy::hold:
        must(ticked);
        EXPECT_EQ(view_of(mesh, kB).status, ActorStatus::held);
        break;
      case Policy::restart:
        must(ticked);
        EXPECT_EQ(view_of(mesh, kB).restarts, 1u);
        break;
      case Policy::isolate:
        must(ticked);
        EXPECT_EQ(view_of(mesh, kB).status, ActorStatus::isolated);
        must(mesh.tell(kB, make_command(CommandKind::enable)));
        break;
    }
    must(mesh.tick());
    EXPECT_TRUE(next->is_done());
    EXPECT_EQ(next->answer(), std::vector<float>{9});
    // Nothing that it sent before it threw was sent.
    Mesh counterpart = mesh_of(clerks(false), threads);
    must(counterpart.tick(mesh.ticks()));
    EXPECT_EQ(output_of(mesh, kA), output_of(counterpart, kA));
  }
}
INSTANTIATE_TEST_SUITE_P(Policies, Faulty,
                         testing::Values(Policy::halt, Policy::hold, Policy::restart, Policy::isolate),
                         [](const auto& tested) { return std::string(name(tested.param)); });

/// It tells its left neighbour, a clerk, and throws: by number 1 at the next activation, by 2 where its question, which
/// nobody answers, has timed out.
class Hasty final : public CellActorOf<Hasty> {
 public:
  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(Field{"throws", Scope::control}, self.throws_);
  }
  void on_message(const message::User& mail, CellContext& self) override {
    throws_ = mail.number;
    if (mail.number == 2) sent(self.ask({0, 0, 3, 0}, make_mail(kNote), 1));
  }
  void on_activation(const message::Activation& seen, CellContext& self) override {
    if (throws_ == 1 && seen.session == 0) act_and_throw(self);
  }
  void on_reply(const message::Reply&, CellContext& self) override { act_and_throw(self); }

 private:
  void act_and_throw(CellContext& self) {
    throws_ = 0;
    sent(self.tell({0, 0, 1, 0}, make_mail(kNote, {13.0f})));
    sent(self.tell({0, 0, 1, 0}, make_command(CommandKind::disable)));
    sent(self.ask({0, 0, 1, 0}, make_mail(kNote, {14.0f}), 9));
    throw std::runtime_error("in haste");
  }
  std::uint64_t throws_ = 0;
};

/// in -> clerk -> a -> clerk.
NetworkSpec between_clerks(const char* type, Policy policy) {
  register_clerk();
  static const Status done = register_cell<Hasty>("hasty");
  must(done);
  NetworkSpec spec = NetworkBuilder("between", {1, 1, 4, 1})
                         .input("in", 2)
                         .layer({0, 0, 1, 0}, "clerk")
                         .from({"in"})
                         .option("friend", 2.0)
                         .layer({0, 0, 2, 0}, type)
                         .from({Coord{0, 0, 1, 0}})
                         .layer({0, 0, 3, 0}, "clerk")
                         .from({Coord{0, 0, 2, 0}})
                         .option("friend", 2.0)
                         .output("y", {0, 0, 3, 0})
                         .spec();
  spec.supervision = {policy, 5, 100, Policy::halt};
  return spec;
}

TEST(CellActorFaults, NothingThatAHandlerDidBeforeItThrewIsDone) {
  const Coord left{0, 0, 1, 0}, hasty{0, 0, 2, 0}, right{0, 0, 3, 0};
  for (const std::uint32_t when : {1u, 2u}) {
    Mesh mesh = mesh_of(between_clerks("hasty", Policy::hold)), quiet = mesh_of(between_clerks("hasty", Policy::hold));
    must(mesh.tell(right, make_command(CommandKind::disable)));  // it answers nothing
    must(mesh.tell(hasty, make_mail(when)));
    for (int i = 0; i < 8; ++i) {
      must(mesh.tick());
      must(quiet.tick());
      EXPECT_EQ(output_of(mesh, left), output_of(quiet, left)) << when << ", tick " << i;
    }
    EXPECT_EQ(view_of(mesh, hasty).faults, 1u);
    EXPECT_EQ(view_of(mesh, left).messages, 0u) << "the command neither";
  }
}

/// It throws in every handler: numbers, and what is derived of nothing.
class Wild final : public CellActorOf<Wild> {
 public:
  template <class Self, class Archive>
  static void fields(Self&, Archive&) {}
  void on_message(const message::User& mail, CellContext& self) override {
    self.reply({1});
    if (mail.number == 1) throw 7;
    throw "a text";
  }
  void on_target(const message::Target&, CellContext& self) override {
    sent(self.tell({0, 0, 1, 0}, make_mail(kNote, {13.0f})));
    throw std::bad_alloc();
  }
};

TEST(CellActorFaults, AnythingMayBeThrown) {
  static const Status done = register_cell<Wild>("wild");
  must(done);
  const Coord left{0, 0, 1, 0}, wild{0, 0, 2, 0};
  Mesh mesh = mesh_of(between_clerks("wild", Policy::hold)), quiet = mesh_of(between_clerks("wild", Policy::hold));
  const std::vector<MailPointer> all{make_mail(1), make_mail(2), make_target({0}, 1)};
  for (const MailPointer& one : all) must(mesh.tell(wild, one));
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_FALSE(all[i]->is_done()) << "one a firing";
    must(mesh.tick());
    must(quiet.tick());
    expect_error(all[i]->status(), Errc::internal, {"[0,0,2,0]", "handler threw"});
    EXPECT_TRUE(all[i]->answer().empty()) << "a reply of a handler that threw";
  }
  must(mesh.tick(2));
  must(quiet.tick(2));
  EXPECT_EQ(view_of(mesh, wild).faults, 3u);
  EXPECT_EQ(output_of(mesh, left), output_of(quiet, left));
}

/// Asks its right neighbour by number 1 and its left one by 2, throws by 3, and puts out what it was answered last.
class Inquirer final : public CellActorOf<Inquirer> {
 public:
  template <class Self, class Archive>
  static void fields(Self&, Archive&) {}
  void on_message(const message::User& mail, CellContext& self) override {
    if (mail.number == 3) throw std::runtime_error("as it was told");
    sent(self.ask({0, 0, mail.number == 1 ? 3u : 1u, 0}, make_mail(kEcho, {static_cast<float>(mail.number)}), 9));
  }
  void on_reply(const message::Reply& reply, CellContext& self) override {
    sent(self.publish(std::vector<float>{100.0f * static_cast<float>(reply.from.x) + reply.values[0]}));
  }
};

TEST(CellActorFaults, AReplyFromBeforeARestartAnswersNothing) {
  static const Status done = register_cell<Inquirer>("inquirer");
  must(done);
  const Coord at{0, 0, 2, 0};
  Mesh mesh = mesh_of(between_clerks("inquirer", Policy::restart));
  must(mesh.tick());
  MeshAccess::take_cell_snapshots(mesh);
  must(mesh.tell(at, make_mail(1)));
  must(mesh.tell(at, make_mail(3)));
  must(mesh.tick());  // asks the right one, throws, goes back
  ASSERT_EQ(view_of(mesh, at).restarts, 1u);
  must(mesh.tell(at, make_mail(2)));
  must(mesh.tick());  // asks the left one
  must(mesh.tick());  // the right one's reply is here, which it waits for no more
  EXPECT_EQ(output_of(mesh, at), std::vector<float>{0});
  must(mesh.tick());
  EXPECT_EQ(output_of(mesh, at), std::vector<float>{102}) << "its question and no other";
}

TEST(CellActorFaults, MailOfATickInWhichItsCellFailsWaits) {
  // One cell: a clerk, and a layer that overflows. Another clerk writes to the first.
  register_clerk();
  const Coord failing{0, 0, 0, 0}, writer{0, 0, 1, 0};
  NetworkSpec spec = NetworkBuilder("failing", {1, 1, 2, 2})
                         .input("in", 1)
                         .layer(failing, "clerk")
                         .from({"in"})
                         .option("friend", 1.0)
                         .dense({0, 0, 0, 1}, 1)
                         .from({"in"})
                         .layer(writer, "clerk")
                         .from({failing})
                         .option("friend", 0.0)
                         .spec();
  spec.supervision.policy = Policy::hold;
  Mesh mesh = mesh_of(spec);
  auto weights = std::make_shared<Command>();
  weights->kind = CommandKind::set_weights;
  weights->level = 1;
  weights->values = {3e38f};
  must(mesh.post(failing, weights));
  must(mesh.tick());
  must(weights->status());
  const auto waiting = [&] {
    for (const auto& cell : MeshAccess::cells(mesh))
      if (cell->at() == failing) return cell->mail()->waiting().size();
    return std::size_t{99};
  };
  must(mesh.set_input("in", std::vector<float>{3e38f}));
  must(mesh.tell(writer, make_mail(kForward, {1})));
  must(mesh.tick(3));
  EXPECT_EQ(view_of(mesh, failing).faults, 3u);
  EXPECT_EQ(waiting(), 1u) << "it came in a tick in which its cell failed";
  must(mesh.set_input("in", std::vector<float>{0}));
  must(mesh.tick(2));
  EXPECT_EQ(waiting(), 0u);
}

TEST(CellActorFaults, ARestartBringsItsStateBack) {
  Mesh mesh = mesh_of(clerks(false, {Policy::restart, 3, 50, Policy::isolate}));
  must(mesh.tell(kB, make_mail(kNote, {1})));
  must(mesh.tick(3));
  MeshAccess::take_cell_snapshots(mesh);
  const auto state = [&] {
    std::vector<std::uint64_t> words;
    for (const auto& cell : MeshAccess::cells(mesh))
      if (cell->at() == kB) cell->observers().front().observer->save(words);
    EXPECT_GE(words.size(), 2u);
    words.erase(words.begin());  // how many messages it has sent: numbers are not used again
    return words;
  };
  const auto then = state();
  must(mesh.tell(kB, make_mail(kNote, {2})));
  must(mesh.tick(3));
  EXPECT_NE(state(), then);
  must(mesh.tell(kB, make_mail(kThrow)));
  must(mesh.tick());
  EXPECT_EQ(state(), then);
}

TEST(CellActorFaults, GoesBackToSnapshotsWithMailUnderWay) {
  const NetworkSpec spec = clerks(true);
  for (const std::size_t threads : {1, 3}) {
    Mesh mesh = mesh_of(spec, threads), never = mesh_of(spec, threads);
    live(mesh, 0, 37);
    live(never, 0, 37);
    Snapshot saved;
    mesh.take_snapshot(saved);
    const auto first = live(mesh, 37, 80);
    EXPECT_EQ(live(never, 37, 80), first) << "a snapshot changes nothing";
    must(mesh.restore_snapshot(saved));
    EXPECT_EQ(live(mesh, 37, 80), first);
    Mesh other = mesh_of(spec, threads);
    Snapshot whole;
    must(mesh.restore_snapshot(saved));
    mesh.take_snapshot(whole, SnapshotWeights::always);
    must(other.restore_snapshot(whole));
    EXPECT_EQ(live(other, 37, 80), first);
  }
}

TEST(CellActorFaults, GoesOnFromAFileWithMailUnderWay) {
  const NetworkSpec spec = clerks(true);
  Mesh mesh = mesh_of(spec);
  live(mesh, 0, 41);
  must(mesh.tell(kB, make_mail(kForward, {9}, {std::byte{1}, std::byte{2}, std::byte{3}})));
  const ByteBuffer file = must(encode_mesh(mesh, true));
  const auto decoded = must(formats::decode_entity(file, "file"));
  Mesh again = mesh_of(must(network_of(decoded)), 2);
  must(restore_weights(again, decoded));
  must(restore_live(again, decoded));
  EXPECT_EQ(again.state_hash(), mesh.state_hash());
  EXPECT_EQ(live(again, 41, 90), live(mesh, 41, 90));
}

TEST(CellActorFaults, WithdrawsMailThatTheMeshWentBackBefore) {
  Mesh mesh = mesh_of(clerks(false));
  must(mesh.tick(2));
  Snapshot saved;
  mesh.take_snapshot(saved);
  const auto unread = must(mesh.ask(kB, make_mail(kEcho, {1})));
  must(mesh.restore_snapshot(saved));
  expect_error(unread->status(), Errc::not_found, {"tick 2", "send it again"});
}

/// It does not return while it is held.
class Sleeper final : public CellActorOf<Sleeper> {
 public:
  static std::atomic<bool>& is_held() {
    static std::atomic<bool> instance{true};
    return instance;
  }
  template <class Self, class Archive>
  static void fields(Self&, Archive&) {}
  void on_message(const message::User&, CellContext&) override {
    while (is_held()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

TEST(CellActorFaults, AHandlerThatDoesNotReturnIsReportedWithItsCell) {
  static const Status done = register_cell<Sleeper>("sleeper");
  must(done);
  Mesh mesh = mesh_of(NetworkBuilder("sleepy", {1, 1, 2, 1})
                          .input("in", 2)
                          .dense({0, 0, 0, 0}, 2)
                          .layer({0, 0, 1, 0}, "sleeper")
                          .from({Coord{0, 0, 0, 0}})
                          .spec());
  std::atomic<std::uint32_t> cell{99};
  std::atomic<bool> is_over{false};
  actors::Watchdog watchdog(mesh.activity(), 2,
                            {.limit = std::chrono::milliseconds(20), .told = [&](const actors::Hang& hang) {
                               cell = hang.actor;
                               if (hang.is_over) is_over = true;
                               Sleeper::is_held() = false;
                             }});
  const auto asked = must(mesh.ask({0, 0, 1, 0}, make_mail(1)));
  must(mesh.tick());
  EXPECT_EQ(cell, 1u);
  EXPECT_EQ(watchdog.hangs(), 1u);
  EXPECT_TRUE(asked->is_done()) << "the mesh goes on";
  for (int i = 0; i < 1000 && !is_over; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(is_over);
}

}  // namespace
}  // namespace weft::mesh::cell_actor_faults_test
