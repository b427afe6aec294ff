// SPDX-License-Identifier: Apache-2.0
// Messages that are sent to addresses of an agent's mesh: written down as those that are told to the agent.

#include "agent/inbox.hpp"

#include "agent/agent.hpp"
#include "agent/replay.hpp"

#include "mesh/runtime/address_book.hpp"
#include "mesh/runtime/cell_actor.hpp"

#include "tests/agent/scripted.hpp"
#include "tests/support/memory_file_system.hpp"
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace weft::agent::test::inbox_test {
namespace {

using storage::MemoryFileSystem;

/// Folds what it is told into a number, and replies with it. Number 9 throws.
class Folder final : public mesh::CellActorOf<Folder> {
 public:
  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(Field{"digest", Scope::control}, self.digest_);
  }
  void on_message(const mesh::message::User& mail, mesh::CellContext& self) override {
    if (mail.number == 9) throw std::runtime_error("nine");
    digest_ = (digest_ ^ mail.number) * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(mail.values[0]);
    self.reply({static_cast<float>(digest_ >> 48)});
  }

 private:
  std::uint64_t digest_ = 1;
};

constexpr Coord kFirst{0, 0, 0, 0}, kSecond{0, 0, 1, 0};

mesh::NetworkSpec network(actors::Policy policy = actors::Policy::hold) {
  static const Status done = mesh::register_cell<Folder>("folder");
  EXPECT_TRUE(done);
  mesh::NetworkSpec spec = mesh::NetworkBuilder("folders", {.x = 2})
                               .input("x", 1)
                               .layer(kFirst, "folder")
                               .from({"x"})
                               .layer(kSecond, "folder")
                               .from({kFirst})
                               .output("y", kSecond)
                               .spec();
  spec.supervision.policy = policy;
  return spec;
}

/// An agent on files of its own.
class Folders {
 public:
  explicit Folders(actors::Policy policy = actors::Policy::hold) : policy_(policy) { open(); }
  void open() {
    agent.reset();
    Counter counter;
    Agent::Options options = deterministic_options(time_, counter, Durability::Mode::tick);
    options.extension = nullptr;
    options.learns = false;
    Recovery recovery;
    auto opened = Agent::open(files_, "folders", network(policy_), std::move(options), recovery);
    EXPECT_TRUE(opened) << opened.error().text();
    agent = std::move(*opened);
  }
  /// The number of hashes that a replay of the whole journal compared; none where it failed.
  std::uint64_t replayed() {
    agent.reset();
    ReplayOptions options;
    options.verifies = true;
    auto replay = Replay::open(files_, "folders", options);
    EXPECT_TRUE(replay) << replay.error().text();
    const Status run = replay->run();
    EXPECT_TRUE(run) << run.error().text();
    return replay->compared();
  }
  mesh::Address address(Coord at) const { return agent->mesh().address(at); }
  std::uint64_t records() const { return agent->statistics().at.record; }

  std::unique_ptr<Agent> agent;

 private:
  actors::Policy policy_;
  MemoryFileSystem files_;
  VirtualTime time_;
};

mesh::MailPointer mail(std::uint32_t number, float value = 0) { return mesh::make_mail(number, {value}); }

TEST(Inbox, MessagesToAddressesAreWrittenDownAndReplayed) {
  Folders folders;
  const std::uint64_t before = folders.records();
  const auto asked = mesh::ask(folders.address(kFirst), mail(1, 4), 20);
  ASSERT_TRUE(asked) << asked.error().text();
  ASSERT_TRUE(mesh::tell(folders.address(kSecond), mail(2)));
  ASSERT_TRUE(mesh::tell(folders.address(kSecond), mesh::make_command(mesh::CommandKind::probe)));
  EXPECT_EQ(folders.records(), before) << "nothing yet: they wait for the agent";
  ASSERT_TRUE(folders.agent->tick(2));
  EXPECT_EQ(folders.records(), before + 4);
  EXPECT_TRUE((*asked)->is_done() && (*asked)->status());
  EXPECT_EQ((*asked)->answer().size(), 1u);
  ASSERT_TRUE(folders.agent->mark());
  const Hash128 state = folders.agent->mesh().state_hash();
  folders.open();
  EXPECT_EQ(folders.agent->mesh().state_hash(), state);
  EXPECT_GT(folders.replayed(), 0u);
}

TEST(Inbox, ComesBeforeWhatTheAgentIsToldLater) {
  Folders by_address, told;
  ASSERT_TRUE(mesh::tell(by_address.address(kFirst), mail(1)));
  ASSERT_TRUE(by_address.agent->tell(kFirst, mail(2)));
  for (const std::uint32_t number : {1u, 2u}) ASSERT_TRUE(told.agent->tell(kFirst, mail(number)));
  for (Folders* each : {&by_address, &told}) ASSERT_TRUE(each->agent->tick());
  EXPECT_EQ(by_address.agent->mesh().state_hash(), told.agent->mesh().state_hash());
}

TEST(Inbox, RefusesAtOnceWhatTheMeshWouldRefuse) {
  Folders folders;
  const auto code_of = [&](Coord at, const mesh::MessagePointer& message) {
    const auto sent = mesh::tell({folders.agent->mesh().number(), at}, message);
    return sent ? std::nullopt : std::optional(sent.error().code());
  };
  EXPECT_EQ(code_of({0, 0, 7, 0}, mail(1)), Errc::out_of_range);
  EXPECT_EQ(code_of(kFirst, nullptr), Errc::invalid_argument);
  EXPECT_EQ(code_of(kFirst, std::make_shared<mesh::Mail>(mesh::MessageType::gradient)), Errc::unsupported);
  const auto once = mail(1);
  EXPECT_EQ(code_of(kFirst, once), std::nullopt);
  EXPECT_EQ(code_of(kFirst, once), Errc::invalid_argument) << "sent before";
  // 1,024 wait; one that was refused may be sent again.
  for (std::size_t i = 1; i < Inbox::kCapacity; ++i) ASSERT_EQ(code_of(kFirst, mail(1)), std::nullopt) << i;
  const auto last = mail(3);
  EXPECT_EQ(code_of(kSecond, last), Errc::full);
  ASSERT_TRUE(folders.agent->tick());
  EXPECT_EQ(code_of(kSecond, last), std::nullopt);
}

TEST(Inbox, MessagesThatFindAFullMailboxWaitInOrderAndHoldUpNoOtherCell) {
  Folders folders, told;
  for (std::uint32_t i = 0; i < 40; ++i) ASSERT_TRUE(mesh::tell(folders.address(kFirst), mail(i % 8, float(i))));
  const auto other = mesh::ask(folders.address(kSecond), mail(5), 0);
  ASSERT_TRUE(folders.agent->tick());
  EXPECT_TRUE((*other)->is_done()) << "behind 40 for another cell";
  ASSERT_TRUE(folders.agent->tick(1));
  ASSERT_TRUE(folders.agent->tick(1));
  ASSERT_TRUE(folders.agent->mark());
  ASSERT_TRUE(told.agent->tell(kSecond, mail(5)));
  for (std::uint32_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(told.agent->tell(kFirst, mail(i % 8, float(i))));
    if (i % 16 == 15) {
      ASSERT_TRUE(told.agent->tick());
    }
  }
  ASSERT_TRUE(told.agent->tick());
  EXPECT_EQ(folders.agent->mesh().state_hash(), told.agent->mesh().state_hash());
  EXPECT_GT(folders.replayed(), 0u);
}

TEST(Inbox, WaitsWhileTheMeshHasStopped) {
  Folders folders(actors::Policy::halt);
  // The first throws; of those behind it some find no room in the mailbox yet.
  ASSERT_TRUE(mesh::tell(folders.address(kFirst), mail(9)));
  std::vector<mesh::MailPointer> after(20);
  for (auto& one : after) ASSERT_TRUE(mesh::tell(folders.address(kFirst), one = mail(1)));
  const auto behind = mail(1);
  EXPECT_FALSE(folders.agent->tick());
  EXPECT_FALSE(folders.agent->tick()) << "it has stopped";
  const auto refused = mesh::tell(folders.address(kSecond), behind);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::halted);
  folders.agent->resume();
  ASSERT_TRUE(mesh::tell(folders.address(kSecond), behind));
  ASSERT_TRUE(folders.agent->tick(2));
  EXPECT_TRUE(behind->is_done());
  for (const auto& one : after) EXPECT_TRUE(one->is_done() && one->status());
  ASSERT_TRUE(folders.agent->mark());
  EXPECT_GT(folders.replayed(), 0u);
}

TEST(Inbox, IsAnsweredWhenTheAgentEnds) {
  mesh::Address address;
  mesh::MailPointer asked;
  {
    Folders folders;
    address = folders.address(kFirst);
    asked = *mesh::ask(address, mail(1), 0);
  }
  EXPECT_TRUE(asked->is_done());
  EXPECT_EQ(asked->status().error().code(), Errc::not_found);
  const auto late = mesh::tell(address, mail(1));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Errc::not_found);
}

TEST(Inbox, TakesMessagesOfOtherThreadsWhileTheAgentTicks) {
  Folders folders;
  const mesh::Address to[] = {folders.address(kFirst), folders.address(kSecond)};
  std::atomic<bool> ends{false};
  std::vector<mesh::MailPointer> sent[2];
  std::vector<std::thread> senders;
  for (int s = 0; s < 2; ++s)
    senders.emplace_back([&, s] {
      for (std::uint32_t i = 0; !ends; ++i) {
        const auto one = mail(i % 8, float(s));
        if (mesh::ask(to[i % 2], one, 0)) sent[s].push_back(one);
      }
    });
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(folders.agent->tick(1 + i % 2));
    if (i % 20 == 10) {
      ASSERT_TRUE(folders.agent->add_session());
    }
    if (i % 20 == 19) {
      ASSERT_TRUE(folders.agent->remove_session(1));
    }
  }
  ends = true;
  for (std::thread& sender : senders) sender.join();
  for (std::size_t i = 0; i < 2 * Inbox::kCapacity / 16; ++i) ASSERT_TRUE(folders.agent->tick());
  ASSERT_TRUE(folders.agent->mark());
  for (const auto& own : sent)
    for (const mesh::MailPointer& one : own) ASSERT_TRUE(one->is_done() && one->status());
  const Hash128 state = folders.agent->mesh().state_hash();
  folders.open();
  EXPECT_EQ(folders.agent->mesh().state_hash(), state);
  EXPECT_GT(folders.replayed(), 0u);
}

TEST(Inbox, EveryOrderThatTheStampsAllowIsReplayedToTheSameState) {
  // Two messages to either cell, by address or told: six orders, each with its journal.
  std::optional<Hash128> expected;
  std::vector<std::size_t> cells{0, 0, 1, 1};
  do {
    for (const bool by_address : {false, true}) {
      Folders folders;
      std::uint32_t next[] = {1, 5};
      for (const std::size_t cell : cells) {
        const Coord at = cell == 0 ? kFirst : kSecond;
        ASSERT_TRUE(by_address ? mesh::tell(folders.address(at), mail(next[cell]++))
                               : folders.agent->tell(at, mail(next[cell]++)));
      }
      ASSERT_TRUE(folders.agent->tick(3));
      ASSERT_TRUE(folders.agent->mark());
      const Hash128 state = folders.agent->mesh().state_hash();
      if (!expected) expected = state;
      EXPECT_EQ(state, *expected);
      EXPECT_EQ(folders.records(), 6u) << "four messages, the ticks, the mark";
      EXPECT_GT(folders.replayed(), 0u);
    }
  } while (std::next_permutation(cells.begin(), cells.end()));
}

}  // namespace
}  // namespace weft::agent::test::inbox_test
