// SPDX-License-Identifier: Apache-2.0

// Cells of a user's own: what reaches them, in which order, and what becomes of it when something goes wrong.

#include "mesh/runtime/cell_actor.hpp"

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/persistence/snapshot.hpp"
#include "mesh/runtime/address_book.hpp"
#include "mesh/runtime/cell.hpp"

#include "actors/watchdog.hpp"

#include "formats/entity/entity.hpp"

#include "testing.hpp"
#include <atomic>
#include <stdexcept>
#include <thread>

namespace weft::mesh::cell_actor_test {
namespace {

using actors::ActorStatus;
using actors::Policy;
using kernels::Activation;
using testing_support::expect_error;
using testing_support::must;
using testing_support::noise;
using testing_support::output_of;

// Numbers of messages, which say what the actor does with them.
enum Number : std::uint32_t { kNote = 1, kForward, kThrow, kEcho, kSilent, kAskOn, kDisable, kFlood, kStranger };

/// The value, or a throw: a fault of the actor.
template <class T>
T sent(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text());
  return *std::move(result);
}
void sent(const Status& status) {
  if (!status) throw std::runtime_error(status.error().text());
}

/// Keeps a running number of all that it handles, in order, and does what messages say. Its output is that number.
class Clerk final : public CellActorOf<Clerk> {
 public:
  Clerk(Coord friend_at, bool chats) : friend_at_(friend_at), chats_(chats) {}

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(Field{"digest", Scope::control}, self.digest_);
    archive(Field{"handled", Scope::control}, self.handled_);
    archive(Field{"last", Scope::control}, self.last_);
  }

  void on_activation(const message::Activation& seen, CellContext& self) override {
    if (seen.session != 0) return;
    for (const float v : seen.values) mix(std::bit_cast<std::uint32_t>(v));
    if (chats_ && seen.source == 0)
      for (std::uint32_t i = 0; i < 2; ++i)
        sent(self.tell(friend_at_, make_mail(kNote, {static_cast<float>(self.tick()), static_cast<float>(i)})));
    show(self);
  }
  void on_message(const message::User& mail, CellContext& self) override {
    mix(mail.from ? mail.from->x + 10 : 1);
    mix(mail.number);
    for (const float v : mail.values) mix(std::bit_cast<std::uint32_t>(v));
    for (const std::byte b : mail.bytes) mix(static_cast<std::uint32_t>(b));
    ++handled_;
    switch (mail.number) {
      case kForward:
        sent(self.tell(friend_at_, make_mail(kNote, {mail.values.begin(), mail.values.end()})));
        break;
      case kThrow:
        sent(self.tell(friend_at_, make_mail(kNote, {13.0f})));
        throw std::runtime_error("as it was told");
      case kEcho:
        self.reply({mail.values.begin(), mail.values.end()});
        break;
      case kAskOn:
        sent(self.ask(friend_at_, make_mail(static_cast<std::uint32_t>(mail.values[0]), {5.0f}),
                      static_cast<std::uint64_t>(mail.values[1])));
        break;
      case kDisable:
        sent(self.tell(friend_at_, make_command(CommandKind::disable)));
        break;
      case kFlood: {
        std::size_t count = 0;
        while (self.tell(friend_at_, make_mail(kNote))) ++count;
        self.reply({static_cast<float>(count)});
        break;
      }
      case kStranger: {
        std::vector<float> codes;
        const auto note = [&](const auto& result) {
          codes.push_back(result ? -1.0f : static_cast<float>(result.error().code()));
        };
        note(self.tell({0, 0, 9, 0}, make_mail(kNote)));
        note(self.tell(friend_at_, nullptr));
        note(self.ask(friend_at_, make_mail(kNote), 0));
        note(self.tell(friend_at_, std::make_shared<Mail>(MessageType::activation)));
        note(self.publish(std::vector<float>{1, 2, 3, 4, 5, 6, 7}));
        note(self.publish(std::vector<float>{NAN}));
        note(self.publish(std::vector<float>{1}, 99));
        self.reply(codes);
        break;
      }
    }
    show(self);
  }
  void on_target(const message::Target& target, CellContext& self) override {
    mix(77);
    for (const float v : target.values) mix(std::bit_cast<std::uint32_t>(v));
    show(self);
  }
  void on_reply(const message::Reply& reply, CellContext& self) override {
    last_ = reply.failure ? -static_cast<float>(*reply.failure) : reply.values.empty() ? 0.5f : reply.values[0];
    mix(std::bit_cast<std::uint32_t>(last_));
    mix(static_cast<std::uint32_t>(self.tick()));
    show(self);
  }
  void on_gradient(const message::Gradient& gradient) override {
    for (const float v : gradient.values) mix(std::bit_cast<std::uint32_t>(v));
    for (std::size_t i = 0; i < gradient.back.size(); ++i) gradient.back[i] = 0.25f;
  }

 private:
  void mix(std::uint32_t word) { digest_ = (digest_ ^ word) * 0x9E3779B97F4A7C15u + 1; }
  void show(CellContext& self) {
    for (std::size_t b = 0; b < self.sessions(); ++b)
      sent(self.publish(std::vector<float>{static_cast<float>(digest_ >> 44)}, b));
  }
  Coord friend_at_;
  bool chats_;
  std::uint64_t digest_ = 1, handled_ = 0;
  float last_ = 0.0f;
};

void register_clerk() {
  static const Status done =
      register_cell("clerk",
                    [](const Shape&, OptionReader& options) -> Result<std::unique_ptr<CellActor>> {
                      WEFT_TRY(const std::size_t x, options.integer("friend"));
                      WEFT_TRY(const bool chats, options.boolean("chats"));
                      return std::unique_ptr<CellActor>(new Clerk({0, 0, static_cast<std::uint32_t>(x), 0}, chats));
                    },
                    {.options = {option::whole("friend", 1, 0, 100, "x", "whom it writes to"),
                                 option::flag("chats", false, "it writes in every tick")}});
  must(done);
}

/// in -> dense -> A -> B -> C -> D, four clerks; A and C write to B, D to C, B to A. One more dense reads D.
NetworkSpec clerks(bool chat, actors::SupervisionRule rule = {}, std::size_t width = 8) {
  register_clerk();
  NetworkBuilder builder("clerks", {1, 1, 6, 1});
  builder.input("in", 4).dense({0, 0, 0, 0}, width, Activation::tanh).from({"in"});
  const auto clerk = [&](std::uint32_t x, double to) {
    builder.layer({0, 0, x, 0}, "clerk").from({Coord{0, 0, x - 1, 0}}).option("friend", to).option("chats", chat);
  };
  clerk(1, 2), clerk(2, 1), clerk(3, 2), clerk(4, 3);
  builder.dense({0, 0, 5, 0}, 3).from({Coord{0, 0, 4, 0}}).output("y", {0, 0, 5, 0});
  NetworkSpec spec = builder.seed(5).spec();
  spec.supervision = rule;
  return spec;
}

Mesh mesh_of(const NetworkSpec& spec, std::size_t threads = 1, std::size_t sessions = 1) {
  return must(Mesh::build(spec, {.threads = threads, .sessions = sessions, .pin = false, .grain_bytes = 0}));
}

constexpr Coord kA{0, 0, 1, 0}, kB{0, 0, 2, 0}, kC{0, 0, 3, 0}, kD{0, 0, 4, 0};

const actors::ActorView view_of(const Mesh& mesh, Coord at) {
  for (const auto& cell : MeshAccess::cells(mesh))
    if (cell->at() == at) return mesh.registry().view(cell->id());
  return {};
}

/// Ticks with inputs, and messages from outside now and then.
std::vector<std::string> live(Mesh& mesh, std::uint64_t from, std::uint64_t to, std::uint64_t at_once = 1) {
  std::vector<std::string> hashes;
  for (std::uint64_t tick = from; tick < to; tick += at_once) {
    must(mesh.set_input("in", noise(4, tick)));
    if (tick % 4 == 0) must(mesh.tell(kB, make_mail(kForward, {static_cast<float>(tick)})));
    if (tick % 12 == 4) must(mesh.tell(kC, make_mail(kAskOn, {float{kEcho}, 6.0f})));
    if (tick % 8 == 0) must(mesh.tell(kB, make_target({0.5f}, 0.1f)));
    if (tick % 20 == 8) must(mesh.tell(kD, make_command(CommandKind::disable)));
    if (tick % 20 == 12) must(mesh.tell(kD, make_command(CommandKind::enable)));
    must(mesh.tick(at_once));
    for (std::size_t b = 0; b < mesh.sessions(); ++b) hashes.push_back(to_string(mesh.state_hash(b)));
  }
  return hashes;
}

TEST(CellActor, DoesTheSameOnEveryThreadCountExecutorAndDivisionOfTicks) {
  const NetworkSpec spec = clerks(true);
  Mesh one = mesh_of(spec, 1, 2);
  const auto expected = live(one, 0, 120, 4);
  for (const std::size_t threads : {2, 3, 7}) {
    Mesh mesh = mesh_of(spec, threads, 2);
    EXPECT_EQ(live(mesh, 0, 120, 4), expected) << threads << " threads";
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
  must(mesh.tick(9));
  EXPECT_FALSE(waits->is_done()) << "nothing is lost: it waits until the cell fires";
  EXPECT_FALSE(ends->wait_for(std::chrono::milliseconds(1)));
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
    // The last of its fields, which ends the words: 4 bytes and 4 of padding.
    std::memcpy(&last, words.data() + words.size() - 1, sizeof last);
    return last;
  }
  return NAN;
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

TEST(CellActor, RefusesWhatCannotBeSent) {
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
                                code(Errc::out_of_range)}));
}

TEST(CellActor, SaysWhenAMailboxIsFullAndLosesNothing) {
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
  EXPECT_EQ(accepted.size(), CellMail::kRoom);
  must(mesh.tell(kC, make_command(CommandKind::enable)));
  must(mesh.tick());
  for (const MailPointer& mail : accepted) ASSERT_TRUE(mail->is_done() && mail->status());
  must(mesh.tell(kC, make_mail(kNote)));
}

TEST(CellActor, MailForACellThatDoesNotFireWaitsUpToABound) {
  // A and C flood B, which stands still.
  Mesh mesh = mesh_of(clerks(false));
  must(mesh.tell(kB, make_command(CommandKind::disable)));
  for (int i = 0; i < 6; ++i) {
    must(mesh.tell(kA, make_mail(kFlood)));
    must(mesh.tick());
  }
  must(mesh.tick());
  for (const auto& cell : MeshAccess::cells(mesh))
    if (cell->at() == kB) {
      EXPECT_EQ(cell->mail()->waiting().size(), CellMail::kRoom);
    }
  must(mesh.tell(kB, make_command(CommandKind::enable)));
  must(mesh.tick());
  for (const auto& cell : MeshAccess::cells(mesh))
    if (cell->at() == kB) {
      EXPECT_EQ(cell->mail()->waiting().size(), 0u);
    }
}

TEST(CellActor, IsReachedByItsAddressUntilItsMeshEnds) {
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

TEST(CellActor, TakesMessagesFromOtherThreadsWhileItTicks) {
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

class Faulty : public testing::TestWithParam<Policy> {};

TEST_P(Faulty, AHandlerThatThrowsIsAFaultOfItsCell) {
  for (const std::size_t threads : {1, 4}) {
    Mesh mesh = mesh_of(clerks(false, {GetParam(), 3, 50, Policy::isolate}), threads);
    must(mesh.tell(kB, make_mail(kNote, {1})));
    must(mesh.tick(2));
    mesh.take_cell_snapshots();
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

TEST(CellActor, ARestartBringsItsStateBack) {
  Mesh mesh = mesh_of(clerks(false, {Policy::restart, 3, 50, Policy::isolate}));
  must(mesh.tell(kB, make_mail(kNote, {1})));
  must(mesh.tick(3));
  mesh.take_cell_snapshots();
  const auto state = [&] {
    std::vector<std::uint64_t> words;
    for (const auto& cell : MeshAccess::cells(mesh))
      if (cell->at() == kB) cell->observers().front().observer->save(words);
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

TEST(CellActor, GoesBackToSnapshotsWithMailUnderWay) {
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

TEST(CellActor, GoesOnFromAFileWithMailUnderWay) {
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

TEST(CellActor, WithdrawsMailThatTheMeshWentBackBefore) {
  Mesh mesh = mesh_of(clerks(false));
  must(mesh.tick(2));
  Snapshot saved;
  mesh.take_snapshot(saved);
  const auto unread = must(mesh.ask(kB, make_mail(kEcho, {1})));
  must(mesh.restore_snapshot(saved));
  expect_error(unread->status(), Errc::not_found, {"tick 2", "send it again"});
}

/// A clerk that trains the layer that it reads.
class Trainer final : public CellActorOf<Trainer> {
 public:
  template <class Self, class Archive>
  static void fields(Self&, Archive&) {}
  void on_activation(const message::Activation& seen, CellContext& self) override {
    if (seen.session == 0) sent(self.tell(seen.from, make_target({1.0f, -0.5f}, 0.125f)));
  }
};

TEST(CellActor, TrainsALayerByTheDeltaRule) {
  static const Status done = register_cell<Trainer>("trainer");
  must(done);
  const NetworkSpec spec = NetworkBuilder("school", {1, 1, 2, 1})
                               .input("in", 2)
                               .dense({0, 0, 0, 0}, 2)
                               .layer({0, 0, 1, 0}, "trainer")
                               .from({Coord{0, 0, 0, 0}})
                               .option("trains", std::vector<double>{0, 0, 0, 0})
                               .seed(3)
                               .spec();
  Mesh mesh = mesh_of(spec);
  const auto set = [&](std::uint32_t parameter, std::vector<float> values) {
    auto weights = std::make_shared<Command>();
    weights->kind = CommandKind::set_weights;
    weights->parameter = parameter;
    weights->values = std::move(values);
    must(mesh.post({0, 0, 0, 0}, weights));
  };
  set(0, {0.5f, 0.25f, -1.0f, 2.0f});
  set(1, {0.0f, 0.5f});
  const float x[2] = {1.0f, -2.0f};
  must(mesh.set_input("in", std::vector<float>{x[0], x[1]}));
  must(mesh.tick());
  // y = W x + b; w -= rate (y - t) x, b -= rate (y - t): by hand, every number exact in binary.
  float w[4] = {0.5f, 0.25f, -1.0f, 2.0f}, b[2] = {0.0f, 0.5f};
  const float t[2] = {1.0f, -0.5f};
  EXPECT_EQ(output_of(mesh, {0, 0, 0, 0}), (std::vector<float>{0.0f, -4.5f}));
  for (int step = 0; step < 6; ++step) {
    must(mesh.tick());
    float y[2];
    for (int o = 0; o < 2; ++o) y[o] = w[2 * o] * x[0] + w[2 * o + 1] * x[1] + b[o];
    ASSERT_EQ(output_of(mesh, {0, 0, 0, 0}), (std::vector<float>{y[0], y[1]})) << step;
    for (int o = 0; o < 2; ++o) {
      const float d = y[o] - t[o];
      for (int i = 0; i < 2; ++i) w[2 * o + i] -= 0.125f * (d * x[i]);
      b[o] -= 0.125f * d;
    }
  }
  for (const std::size_t threads : {1, 2}) {
    Mesh again = mesh_of(spec, threads);
    Mesh other = mesh_of(spec, 1);
    for (Mesh* each : {&again, &other}) {
      must(each->set_input("in", std::vector<float>{0.7f, 0.1f}));
      must(each->tick(50));
    }
    EXPECT_EQ(again.state_hash(), other.state_hash());
    EXPECT_NEAR(output_of(again, {0, 0, 0, 0})[0], 1.0f, 0.1f);
    // Snapshots hold the weights, since ticks change them.
    Snapshot saved;
    again.take_snapshot(saved);
    EXPECT_TRUE(saved.holds_weights());
    must(again.tick(5));
    const Hash128 then = again.state_hash();
    must(again.restore_snapshot(saved));
    must(again.tick(5));
    EXPECT_EQ(again.state_hash(), then);
  }
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

TEST(CellActor, AHandlerThatDoesNotReturnIsReportedWithItsCell) {
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

TEST(CellActor, RefusesNetworksThatMeanNothing) {
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
  expect_error(register_cell("clerk", nullptr), Errc::duplicate_name, {"clerk"});
  expect_error(register_cell("dense", nullptr), Errc::duplicate_name, {"dense"});
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

TEST(Messages, HaveANameAndAWayEach) {
  EXPECT_EQ(kMessageTypeCount, 5u);
  EXPECT_EQ(name(MessageType::activation), "activation");
  EXPECT_EQ(name(MessageType::user), "user");
  EXPECT_EQ(way_of(MessageType::gradient), MessageWay::published);
  EXPECT_EQ(way_of(MessageType::target), MessageWay::mailed);
}

}  // namespace
}  // namespace weft::mesh::cell_actor_test
