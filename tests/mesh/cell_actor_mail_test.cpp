// SPDX-License-Identifier: Apache-2.0

// Mail that is refused, that finds no room, and that comes from other threads.

#include "mesh/persistence/snapshot.hpp"
#include "mesh/runtime/address_book.hpp"

#include "clerks.hpp"
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

namespace weft::mesh::cell_actor_mail_test {
namespace {

using namespace clerk_network;
using testing_support::expect_error;

TEST(CellActorMail, RefusesWhatCannotBeSent) {
  Mesh mesh = mesh_of(clerks(false));
  expect_error(mesh.tell({0, 0, 9, 0}, make_mail(kNote)), Errc::out_of_range, {"[0,0,9,0]", "1x1x6x1"});
  expect_error(mesh.tell(kB, nullptr), Errc::invalid_argument, {"[0,0,2,0]"});
  expect_error(mesh.tell({0, 0, 0, 0}, make_mail(kNote)), Errc::unsupported, {"[0,0,0,0]", "handles no user"});
  expect_error(mesh.tell({0, 0, 0, 0}, make_target({1}, 1)), Errc::unsupported, {"handles no target"});
  expect_error(mesh.tell(kB, std::make_shared<Mail>(MessageType::gradient)), Errc::unsupported, {"published"});
  const auto answer = must(mesh.ask(kB, make_mail(kStranger)));
  must(mesh.tick());
  const auto code = [](Errc errc) { return static_cast<float>(errc); };
  EXPECT_EQ(answer->answer(),
            (std::vector<float>{code(Errc::unknown_name), code(Errc::invalid_argument), code(Errc::invalid_argument),
                                code(Errc::unsupported), code(Errc::shape_mismatch), code(Errc::not_finite),
                                code(Errc::out_of_range), code(Errc::out_of_range)}));
}

/// A message of a type, empty.
MessagePointer message_of(MessageType type) {
  if (type == MessageType::command) return make_command(CommandKind::probe);
  return std::make_shared<Mail>(type);
}

TEST(CellActorMail, TakesOrRefusesEveryTypeAtEveryPlace) {
  register_clerk();
  NetworkSpec spec = NetworkBuilder("places", {1, 1, 4, 1})
                         .input("in", 2)
                         .dense({0, 0, 0, 0}, 2)
                         .layer({0, 0, 2, 0}, "clerk")
                         .from({Coord{0, 0, 0, 0}})
                         .option("friend", 0.0)
                         .spec();
  spec.supervision.policy = actors::Policy::halt;
  const Coord dense{0, 0, 0, 0}, clerk{0, 0, 2, 0}, hole{0, 0, 1, 0}, outside{0, 0, 4, 0};
  std::optional<Mesh> mesh = mesh_of(spec);
  const std::uint64_t number = mesh->number();
  const auto expect = [&](Coord at, MessageType type, std::optional<Errc> refusal) {
    const auto by_address = tell({number, at}, message_of(type));
    EXPECT_EQ(by_address ? std::nullopt : std::optional(by_address.error().code()), refusal)
        << name(type) << " to " << to_string(at);
    if (!mesh) return;
    const auto told = mesh->tell(at, message_of(type));
    EXPECT_EQ(told ? std::nullopt : std::optional(told.error().code()), refusal) << name(type);
  };
  const auto all = [&](Coord at, Errc refusal) {
    for (std::uint32_t type = 0; type < kMessageTypeCount; ++type) expect(at, static_cast<MessageType>(type), refusal);
  };
  using enum MessageType;
  for (const MessageType type : {activation, gradient}) {
    expect(dense, type, Errc::unsupported);
    expect(clerk, type, Errc::unsupported);
  }
  for (const MessageType type : {target, user}) {
    expect(dense, type, Errc::unsupported);
    expect(clerk, type, std::nullopt);
  }
  for (const Coord at : {dense, clerk}) expect(at, command, std::nullopt);
  all(hole, Errc::unknown_name);
  all(outside, Errc::out_of_range);
  must(mesh->tick());
  must(mesh->tell(clerk, make_mail(kThrow)));
  EXPECT_FALSE(mesh->tick());
  all(dense, Errc::halted);
  all(clerk, Errc::halted);
  mesh->resume();
  expect(clerk, user, std::nullopt);
  mesh.reset();
  all(clerk, Errc::not_found);
  all(hole, Errc::not_found);
}

TEST(CellActorMail, RefusesForgedSendersAndReplies) {
  Mesh mesh = mesh_of(clerks(false)), honest = mesh_of(clerks(false));
  const auto forged = make_mail(kEcho, {4});
  forged->sender = 4000000;
  forged->level = 70;
  forged->sequence = 9;
  forged->failure = 3;
  forged->kind = Mail::Kind::ask;
  must(mesh.tell(kB, forged));
  must(honest.tell(kB, make_mail(kEcho, {4})));
  must(mesh.tick());
  must(honest.tick());
  EXPECT_EQ(forged->answer(), std::vector<float>{4});
  EXPECT_EQ(mesh.state_hash(), honest.state_hash()) << "it is from outside";
  const auto reply = make_mail(kNote);
  reply->kind = Mail::Kind::reply;
  expect_error(mesh.tell(kB, reply), Errc::invalid_argument, {"[0,0,2,0]", "kind 2", "reply"});
  const auto neither = make_mail(kNote);
  neither->kind = static_cast<Mail::Kind>(9);
  expect_error(tell(mesh.address(kB), neither), Errc::invalid_argument, {"kind 9"});
  expect_error(mesh.tell(kB, make_command(static_cast<CommandKind>(77))), Errc::invalid_argument, {"command 77"});
  expect_error(mesh.post(kB, make_command(static_cast<CommandKind>(77))), Errc::invalid_argument, {"command 77"});
  auto coded = make_command(CommandKind::morph);
  coded->encoding.dtype = static_cast<Dtype>(200);
  expect_error(mesh.tell(kB, coded), Errc::invalid_argument, {"encoding"});
  expect_error(mesh.tell(kB, std::make_shared<Mail>(MessageType::command)), Errc::invalid_argument, {"no Command"});
  expect_error(mesh.tell(kB, std::make_shared<Mail>(static_cast<MessageType>(50))), Errc::invalid_argument,
               {"type 50"});
  EXPECT_EQ(name(static_cast<CommandKind>(77)), "unknown");
  EXPECT_EQ(name(static_cast<MessageType>(77)), "unknown");
}

TEST(CellActorMail, AMessageIsSentOnce) {
  Mesh mesh = mesh_of(clerks(false)), once = mesh_of(clerks(false));
  const auto mail = make_mail(kNote, {1});
  must(mesh.tell(kB, mail));
  expect_error(mesh.tell(kC, mail), Errc::invalid_argument, {"[0,0,3,0]", "sent before"});
  expect_error(mesh.ask(kB, mail), Errc::invalid_argument, {"sent before"});
  const auto command = must(mesh.post(kD, make_command(CommandKind::reset)));
  expect_error(mesh.post(kA, command), Errc::invalid_argument, {"sent before"});
  must(once.tell(kB, make_mail(kNote, {1})));
  must(once.post(kD, make_command(CommandKind::reset)));
  must(mesh.tick(2));
  must(once.tick(2));
  EXPECT_EQ(mesh.state_hash(), once.state_hash());
  // A message that was refused may be sent again.
  std::vector<MailPointer> more;
  Status refused;
  while (refused) {
    more.push_back(make_mail(kNote));
    if (auto sent = mesh.tell(kB, more.back()); !sent) refused = fail(std::move(sent).error());
  }
  EXPECT_EQ(refused.error().code(), Errc::full);
  must(mesh.tick());
  must(mesh.tell(kB, more.back()));
  // Of several threads one sends it.
  for (int i = 0; i < 20; ++i) {
    const auto contested = make_mail(kNote);
    std::atomic<int> taken{0};
    std::vector<std::thread> senders;
    for (int s = 0; s < 4; ++s) senders.emplace_back([&] { taken += tell(mesh.address(kB), contested) ? 1 : 0; });
    for (std::thread& sender : senders) sender.join();
    EXPECT_EQ(taken, 1);
    must(mesh.tick());
  }
}

TEST(CellActorMail, AQuestionThatWasRefusedMayBeToldLater) {
  Mesh mesh = mesh_of(clerks(false));
  while (mesh.tell(kB, make_command(CommandKind::probe))) {
  }
  const auto mail = make_mail(kEcho, {1});
  expect_error(mesh.ask(kB, mail, 7), Errc::full, {"[0,0,2,0]"});
  EXPECT_EQ(mail->kind, Mail::Kind::tell);
  EXPECT_EQ(mail->deadline, 0u);
  must(mesh.tick());
  must(mesh.tell(kB, make_command(CommandKind::disable)));
  must(mesh.tell(kB, mail));
  must(mesh.tick(20));
  must(mesh.tell(kB, make_command(CommandKind::enable)));
  must(mesh.tick());
  must(mail->status());
}

TEST(CellActorMail, SendersOutsideLeaveRoomForTheCommandsOfActors) {
  register_clerk();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Mesh mesh = must(
        Mesh::build(clerks(false),
                    {.threads = 6, .executor = ExecutorKind::deterministic, .executor_seed = seed, .grain_bytes = 0}));
    ASSERT_GT(mesh.plan().regions.size(), 1u);
    must(mesh.tell(kB, make_mail(kDisable)));  // it commands A, in the tick in which A's mailbox is full
    std::size_t filled = 0;
    while (mesh.tell(kA, make_command(CommandKind::probe))) ++filled;
    EXPECT_GE(filled, Cell::kMailboxCapacity);
    must(mesh.tick(5));
    for (const auto& cell : MeshAccess::cells(mesh)) EXPECT_EQ(cell->is_enabled(), cell->at() != kA) << seed;
  }
}

TEST(CellActorMail, CommandsThatWaitForTheirTickAreBounded) {
  Mesh mesh = mesh_of(clerks(false));
  std::vector<MessagePointer> accepted;
  const auto fill = [&] {
    Status refused;
    for (int i = 0; i < 3000 && refused; ++i) {
      const auto command = make_command(CommandKind::probe, 500);
      if (auto sent = mesh.tell(kA, command))
        accepted.push_back(command);
      else
        refused = fail(std::move(sent).error());
      if (i % 8 == 7) must(mesh.tick());
    }
    return refused;
  };
  expect_error(fill(), Errc::full, {"cell [0,0,1,0]", "1024 commands", "tick"});
  EXPECT_EQ(accepted.size(), 1024u);
  expect_error(mesh.post(kA, make_command(CommandKind::probe)), Errc::full, {"1024"});
  must(mesh.tell(kA, make_mail(kNote)));
  must(mesh.tell(kB, make_command(CommandKind::probe)));
  Snapshot full;
  mesh.take_snapshot(full);
  must(mesh.tick(501 - mesh.ticks()));
  for (const MessagePointer& command : accepted) ASSERT_TRUE(command->is_done() && command->status());
  must(mesh.post(kA, make_command(CommandKind::probe, 600)));
  // It holds where the mesh goes back, too.
  must(mesh.restore_snapshot(full));
  expect_error(mesh.post(kA, make_command(CommandKind::probe)), Errc::full, {"1024"});
  must(mesh.tick(501 - mesh.ticks()));
  accepted.clear();
  must(mesh.tick());
  must(mesh.post(kA, make_command(CommandKind::probe)));
}

/// Writes to its left neighbour in every tick, and keeps what it sent.
class Keeper final : public CellActorOf<Keeper> {
 public:
  template <class Self, class Archive>
  static void fields(Self&, Archive&) {}
  static std::vector<MailPointer>& kept() {
    static std::vector<MailPointer> all;
    return all;
  }
  void on_activation(const message::Activation& seen, CellContext& self) override {
    kept().push_back(make_mail(kNote));
    sent(self.tell(seen.from, kept().back()));
  }
};

TEST(CellActorMail, WhatIsUnderWayIsAnsweredWhenItsMeshEndsOrGoesBack) {
  register_clerk();
  static const Status done = register_cell<Keeper>("keeper");
  must(done);
  const NetworkSpec spec = NetworkBuilder("keepers", {1, 1, 2, 1})
                               .input("in", 2)
                               .layer({0, 0, 0, 0}, "clerk")
                               .from({"in"})
                               .option("friend", 1.0)
                               .layer({0, 0, 1, 0}, "keeper")
                               .from({Coord{0, 0, 0, 0}})
                               .spec();
  {
    Mesh mesh = mesh_of(spec);
    Snapshot before;
    must(mesh.tick());
    mesh.take_snapshot(before);
    must(mesh.tick(2));
    must(mesh.restore_snapshot(before));
    ASSERT_EQ(Keeper::kept().size(), 3u);
    EXPECT_TRUE(Keeper::kept()[0]->is_done() && Keeper::kept()[1]->is_done());
    ASSERT_TRUE(Keeper::kept()[2]->is_done());
    expect_error(Keeper::kept()[2]->status(), Errc::not_found, {"went back to tick 1"});
    must(mesh.tick());
  }
  ASSERT_TRUE(Keeper::kept().back()->is_done());
  expect_error(Keeper::kept().back()->status(), Errc::not_found, {"mesh has ended"});
  Keeper::kept().clear();
}

TEST(CellActorMail, SaysWhenAMailboxIsFullAndLosesNothing) {
  Mesh mesh = mesh_of(clerks(false));
  const auto flood = must(mesh.ask(kB, make_mail(kFlood)));
  must(mesh.tick());
  EXPECT_EQ(flood->answer(), std::vector<float>{256}) << "an outbox of a tick";
  // From outside: what was accepted is handled, each once.
  must(mesh.tell(kC, make_command(CommandKind::disable)));
  must(mesh.tick());
  std::vector<MailPointer> accepted;
  Status refused;
  for (int i = 0; i < 2000 && refused; ++i) {
    auto mail = make_mail(kNote, {static_cast<float>(i)});
    if (auto sent = mesh.tell(kC, mail))
      accepted.push_back(mail);
    else if (i % 16 == 15 || sent.error().text().find("1024") != std::string::npos)
      refused = fail(std::move(sent).error());
    if (i % 8 == 7) must(mesh.tick());
  }
  expect_error(refused, Errc::full, {"[0,0,3,0]", "1024"});
  EXPECT_EQ(accepted.size(), CellMail::kCapacity);
  must(mesh.tell(kC, make_command(CommandKind::enable)));
  must(mesh.tick());
  for (const MailPointer& mail : accepted) ASSERT_TRUE(mail->is_done() && mail->status());
  must(mesh.tell(kC, make_mail(kNote)));
}

TEST(CellActorMail, MailForACellThatDoesNotFireWaitsUpToABound) {
  // A and C flood B, which does not run.
  Mesh mesh = mesh_of(clerks(false));
  must(mesh.tell(kB, make_command(CommandKind::disable)));
  for (int i = 0; i < 6; ++i) {
    must(mesh.tell(kA, make_mail(kFlood)));
    must(mesh.tick());
  }
  must(mesh.tick());
  for (const auto& cell : MeshAccess::cells(mesh))
    if (cell->at() == kB) {
      EXPECT_EQ(cell->mail()->waiting().size(), CellMail::kCapacity);
    }
  must(mesh.tell(kB, make_command(CommandKind::enable)));
  must(mesh.tick());
  for (const auto& cell : MeshAccess::cells(mesh))
    if (cell->at() == kB) {
      EXPECT_EQ(cell->mail()->waiting().size(), 0u);
    }
}

TEST(CellActorMail, IsReachedByItsAddressUntilItsMeshEnds) {
  Address address;
  {
    Mesh mesh = mesh_of(clerks(false));
    address = mesh.address(kB);
    const auto asked = must(ask(address, make_mail(kEcho, {4})));
    Mesh moved = std::move(mesh);
    must(moved.tick());
    EXPECT_EQ(asked->answer(), std::vector<float>{4});
    expect_error(tell({address.mesh, {0, 0, 7, 0}}, make_mail(kNote)), Errc::out_of_range, {"[0,0,7,0]"});
  }
  expect_error(tell(address, make_mail(kNote)), Errc::not_found, {"[0,0,2,0]", "has ended"});
}

TEST(CellActorMail, IsAnsweredWhenItsMeshEnds) {
  MailPointer waiting, unread;
  CommandMessage command = make_command(CommandKind::enable, 1000);
  {
    Mesh mesh = mesh_of(clerks(false));
    must(mesh.tell(kB, make_command(CommandKind::disable)));
    must(mesh.tell(kA, command));
    must(mesh.tick());
    waiting = must(mesh.ask(kB, make_mail(kEcho, {1})));
    must(mesh.tick());
    unread = must(mesh.ask(kB, make_mail(kEcho, {2})));
    EXPECT_FALSE(waiting->is_done() || unread->is_done() || command->is_done());
  }
  for (const MessagePointer& message : {MessagePointer(waiting), MessagePointer(unread), MessagePointer(command)}) {
    EXPECT_TRUE(message->wait_for(std::chrono::nanoseconds(0)));
    expect_error(message->status(), Errc::not_found, {"mesh has ended"});
    EXPECT_EQ(message->done_at(), 2u);
  }
}

TEST(CellActorMail, TakesMessagesFromOtherThreadsWhileItTicks) {
  Mesh mesh = mesh_of(clerks(true), 2);
  const Address address = mesh.address(kB);
  std::atomic<bool> ends{false}, is_done{false};
  std::vector<MailPointer> sent;
  std::thread sender([&] {
    while (!ends || sent.size() < 100) {
      auto mail = make_mail(kEcho, {static_cast<float>(sent.size())});
      if (ask(address, mail)) sent.push_back(mail);
    }
    is_done = true;
  });
  for (int i = 0; i < 500; ++i) must(mesh.tick());
  ends = true;
  while (!is_done) must(mesh.tick());
  sender.join();
  must(mesh.tick());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    ASSERT_TRUE(sent[i]->is_done()) << i;
    ASSERT_EQ(sent[i]->answer(), std::vector<float>{static_cast<float>(i)});
  }
}

TEST(CellActorMail, RefusesNetworksThatMeanNothing) {
  register_clerk();
  const auto refused = [](const char* option, std::vector<double> places) {
    return Mesh::build(NetworkBuilder("n", {1, 1, 3, 1})
                           .input("in", 2)
                           .dense({0, 0, 0, 0}, 2)
                           .layer({0, 0, 1, 0}, "residual")
                           .from({Coord{0, 0, 0, 0}, Coord{0, 0, 0, 0}})
                           .layer({0, 0, 2, 0}, "clerk")
                           .from({Coord{0, 0, 1, 0}})
                           .option(option, std::move(places))
                           .spec());
  };
  expect_error(refused("tells", {0, 0, 0}), Errc::shape_mismatch, {"layers[2]", "tells", "3 numbers"});
  expect_error(refused("tells", {0, 0, 9, 0}), Errc::unknown_name, {"layers[2]", ".tells", "[0,0,9,0]"});
  expect_error(refused("trains", {0, 0, 9, 0}), Errc::unknown_name, {".trains", "[0,0,9,0]"});
  expect_error(refused("trains", {0, 0, 0, 0}), Errc::invalid_argument, {".trains", "no neighbour"});
  expect_error(refused("trains", {0, 0, 1, 0}), Errc::unsupported, {"no weights"});
  const auto never = [](const Shape&, OptionReader&) -> Result<std::unique_ptr<CellActor>> {
    return fail(Errc::internal, "it is not asked");
  };
  expect_error(register_cell("clerk", never), Errc::duplicate_name, {"clerk"});
  expect_error(register_cell("dense", never), Errc::duplicate_name, {"dense"});
}

}  // namespace
}  // namespace weft::mesh::cell_actor_mail_test
