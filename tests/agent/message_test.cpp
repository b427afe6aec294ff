// SPDX-License-Identifier: Apache-2.0
// Messages to cells of a user's own in a data directory: written down, replayed, and under way when it ends.

#include "agent/agent.hpp"
#include "agent/replay.hpp"

#include "mesh/runtime/address_book.hpp"
#include "mesh/runtime/cell_actor.hpp"

#include "tests/agent/scripted.hpp"
#include "tests/support/memory_file_system.hpp"
#include <memory>
#include <string>
#include <vector>

namespace weft::agent::test::message_test {
namespace {

using storage::MemoryFileSystem;

/// Adds up what it is sent, and passes on what is odd to its neighbour.
class Adder final : public mesh::CellActorOf<Adder> {
 public:
  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(Field{"sum", Scope::control}, self.sum_);
    archive(Field{"seen", Scope::control}, self.seen_);
    archive(Field{"other", Scope::control}, self.other_);
  }
  void on_activation(const mesh::message::Activation& seen, mesh::CellContext& self) override {
    if (!seen.port.empty()) return;
    other_ = seen.from;
    if (seen.session == 0) sum_ = 0.5f * sum_ + seen.values[0];
    (void)self.publish(std::vector<float>{sum_}, seen.session);
  }
  void on_message(const mesh::message::User& mail, mesh::CellContext& self) override {
    ++seen_;
    for (const float v : mail.values) sum_ += v;
    if (mail.number % 2)
      (void)self.tell(other_, mesh::make_mail(mail.number + 1, {mail.values.begin(), mail.values.end()}));
    self.reply({sum_});
  }
  void on_target(const mesh::message::Target& target, mesh::CellContext&) override { sum_ = target.values[0]; }

 private:
  float sum_ = 0.0f;
  std::uint64_t seen_ = 0;
  Coord other_{0, 0, 1, 0};
};

mesh::NetworkSpec network() {
  static const Status done = mesh::register_cell<Adder>("adder");
  EXPECT_TRUE(done);
  return mesh::NetworkBuilder("adders", {.x = 2})
      .input("x", 1)
      .layer({0, 0, 0, 0}, "adder", 1)
      .from({"x", Coord{0, 0, 1, 0}})
      .layer({0, 0, 1, 0}, "adder", 1)
      .from({Coord{0, 0, 0, 0}})
      .output("y", {0, 0, 1, 0})
      .spec();
}

/// Step `step` of a run: a message, a question, a target or a command, then a tick or two.
void step_of(Agent& agent, std::uint64_t step, std::vector<mesh::MailPointer>* asked = nullptr) {
  const float value = 0.125f * static_cast<float>(step % 7);
  const Coord to{0, 0, static_cast<std::uint32_t>(step % 2), 0};
  if (step % 5 == 4) {
    ASSERT_TRUE(agent.tell(to, mesh::make_target({value}, 1.0f)));
  } else if (step % 5 == 3) {
    ASSERT_TRUE(agent.tell(to, mesh::make_command(mesh::CommandKind::reset)));
  } else if (step % 5 == 2) {
    auto sent = agent.ask(to, mesh::make_mail(8, {value}), 4);
    ASSERT_TRUE(sent);
    if (asked) asked->push_back(*sent);
  } else {
    auto mail = mesh::make_mail(static_cast<std::uint32_t>(step), {value, 1.0f}, {std::byte{7}});
    mail->not_before = step % 3 == 0 ? agent.mesh().ticks() + 2 : 0;
    ASSERT_TRUE(agent.tell(to, mail));
  }
  if (step % 3 == 1) return;
  ASSERT_TRUE(agent.tick(1 + step % 2));
}

TEST(Message, IsWrittenDownAndReplayedWhereverTheRunEnds) {
  for (const std::uint64_t ends : {1, 7, 20, 33}) {
    MemoryFileSystem files;
    VirtualTime time;
    const auto open = [&](Recovery& recovery) {
      Counter counter;
      Agent::Options options = deterministic_options(time, counter, Durability::Mode::tick);
      options.extension = nullptr;
      options.learns = false;
      options.keep = 1000;
      auto opened = Agent::open(files, "adders", network(), std::move(options), recovery);
      EXPECT_TRUE(opened) << opened.error().text();
      return std::move(*opened);
    };
    Recovery recovery;
    Hash128 expected;
    {
      auto agent = open(recovery);
      for (std::uint64_t step = 0; step < ends; ++step) step_of(*agent, step);
      expected = agent->mesh().state_hash();
    }
    std::vector<Hash128> after[2];
    {
      auto agent = open(recovery);
      EXPECT_EQ(agent->mesh().state_hash(), expected);
      for (std::uint64_t step = ends; step < ends + 30; ++step) {
        step_of(*agent, step);
        after[0].push_back(agent->mesh().state_hash());
      }
      ASSERT_TRUE(agent->mark());
    }
    // An agent that never ended.
    MemoryFileSystem others;
    std::swap(files, others);
    {
      auto agent = open(recovery);
      for (std::uint64_t step = 0; step < ends + 30; ++step) {
        step_of(*agent, step);
        if (step >= ends) after[1].push_back(agent->mesh().state_hash());
      }
    }
    EXPECT_EQ(after[0], after[1]) << ends;
    std::swap(files, others);
    ReplayOptions options;
    options.verifies = true;
    options.mesh.threads = 1;
    auto replay = Replay::open(files, "adders", options);
    ASSERT_TRUE(replay) << replay.error().text();
    const Status done = replay->run();
    EXPECT_TRUE(done) << done.error().text();
    EXPECT_GT(replay->compared(), 0u);
  }
}

TEST(Message, WhatAReplayWouldRefuseIsRefused) {
  MemoryFileSystem files;
  VirtualTime time;
  Recovery recovery;
  const auto open = [&] {
    Counter counter;
    Agent::Options options = deterministic_options(time, counter, Durability::Mode::tick);
    options.extension = nullptr;
    options.learns = false;
    return Agent::open(files, "adders", network(), std::move(options), recovery);
  };
  Hash128 expected;
  {
    auto agent = std::move(*open());
    const Coord to{0, 0, 1, 0};
    const LogPosition before = agent->statistics().at;
    auto reply = mesh::make_mail(1);
    reply->kind = mesh::Mail::Kind::reply;
    EXPECT_FALSE(agent->tell(to, reply));
    EXPECT_FALSE(agent->tell(to, mesh::make_command(static_cast<mesh::CommandKind>(77))));
    EXPECT_FALSE(agent->post(to, mesh::make_command(static_cast<mesh::CommandKind>(77))));
    auto coded = mesh::make_command(mesh::CommandKind::morph);
    coded->encoding.granularity = static_cast<Granularity>(99);
    EXPECT_FALSE(agent->tell(to, coded));
    EXPECT_FALSE(agent->tell(to, std::make_shared<mesh::Mail>(mesh::MessageType::command)));
    EXPECT_EQ(agent->statistics().at.record, before.record);
    // Forged fields are written down as what they count for.
    auto forged = mesh::make_mail(1, {3});
    forged->sender = 4000000;
    forged->failure = 9;
    ASSERT_TRUE(agent->tell(to, forged));
    EXPECT_FALSE(agent->tell(to, forged)) << "sent before";
    ASSERT_TRUE(agent->ask(to, mesh::make_mail(8), UINT64_MAX));
    ASSERT_TRUE(agent->tick(4));
    ASSERT_TRUE(agent->mark());
    expected = agent->mesh().state_hash();
  }
  auto again = open();
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ((*again)->mesh().state_hash(), expected);
}

TEST(Message, IsRefusedAndNotWrittenDown) {
  MemoryFileSystem files;
  VirtualTime time;
  Counter counter;
  Recovery recovery;
  Agent::Options options = deterministic_options(time, counter, Durability::Mode::tick);
  options.extension = nullptr;
  options.learns = false;
  auto agent = std::move(*Agent::open(files, "adders", network(), std::move(options), recovery));
  const LogPosition before = agent->statistics().at;
  EXPECT_FALSE(agent->tell({0, 0, 5, 0}, mesh::make_mail(1)));
  EXPECT_FALSE(agent->tell({0, 0, 0, 0}, nullptr));
  EXPECT_FALSE(agent->ask({0, 0, 0, 0}, nullptr));
  EXPECT_EQ(agent->statistics().at.record, before.record);
  std::vector<mesh::MailPointer> asked;
  for (std::uint64_t step = 0; step < 10; ++step) step_of(*agent, step, &asked);
  ASSERT_TRUE(agent->tick(3));
  for (const mesh::MailPointer& one : asked) EXPECT_TRUE(one->is_done() && one->answer().size() == 1);
}

TEST(Message, IsRefusedWhereNoRecordCanHoldIt) {
  MemoryFileSystem files;
  VirtualTime time;
  Counter counter;
  Recovery recovery;
  Agent::Options options = deterministic_options(time, counter, Durability::Mode::tick);
  options.extension = nullptr;
  options.learns = false;
  options.journal.max_record_bytes = 4096;
  auto agent = std::move(*Agent::open(files, "adders", network(), std::move(options), recovery));
  const Coord to{0, 0, 0, 0};
  const LogPosition before = agent->statistics().at;
  const auto expect_too_large = [](const auto& sent) {
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().code(), Errc::too_large);
    EXPECT_NE(sent.error().text().find("at most 2048"), std::string::npos) << sent.error().text();
  };
  const auto large = mesh::make_mail(1, std::vector<float>(600));
  expect_too_large(agent->tell(to, large));
  expect_too_large(agent->ask(to, large, 3));
  expect_too_large(agent->tell(to, mesh::make_mail(1, {}, std::vector<std::byte>(2049))));
  expect_too_large(mesh::tell(agent->mesh().address(to), large));
  const auto command = mesh::make_command(mesh::CommandKind::set_weights);
  command->values.resize(600);
  expect_too_large(agent->post(to, command));
  expect_too_large(agent->tell(to, command));
  expect_too_large(agent->note("diary", std::string(2100, 'x')));
  const std::vector<std::byte> file(4096);
  const auto attached = agent->attach_session(file, false);
  ASSERT_FALSE(attached);
  EXPECT_EQ(attached.error().code(), Errc::too_large);
  EXPECT_EQ(agent->statistics().at.record, before.record);
  // It was not sent, so it may be sent to another.
  EXPECT_TRUE(agent->tell(to, mesh::make_mail(1, std::vector<float>(500))));
  EXPECT_TRUE(agent->tick());
}

}  // namespace
}  // namespace weft::agent::test::message_test
