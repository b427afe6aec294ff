// SPDX-License-Identifier: Apache-2.0

// Senders on other threads while meshes change under them: sessions come and go, types change, states are restored, a
// mesh halts and goes on, others are built and end.

#include "mesh/persistence/snapshot.hpp"
#include "mesh/runtime/address_book.hpp"

#include "clerks.hpp"
#include <atomic>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

namespace weft::mesh::mail_senders_test {
namespace {

using namespace clerk_network;
using actors::Policy;
using testing_support::expect_error;

/// Threads that send to cells without a pause: mail, questions and commands.
class Senders {
 public:
  explicit Senders(std::vector<Address> to) : to_(std::move(to)) {
    for (std::uint32_t i = 0; i < 3; ++i) threads_.emplace_back([this, i] { work(i); });
  }
  ~Senders() { end(); }
  /// Returns when each of them may have sent something more.
  void let_work() const {
    for (const std::uint64_t before = tried_; tried_ < before + 2 * threads_.size();) std::this_thread::yield();
  }
  /// Ends them; all messages that were accepted.
  const std::vector<MessagePointer>& end() {
    ends_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return accepted_;
  }
  const std::set<Errc>& refusals() const { return refusals_; }

 private:
  void work(std::uint32_t i) {
    std::vector<MessagePointer> accepted;
    std::set<Errc> refusals;
    for (std::uint32_t n = i; !ends_; ++n) {
      const Address& to = to_[n % to_.size()];
      std::optional<Errc> refusal;
      MessagePointer message;
      if (n % 5 == 0) {
        message = make_command(CommandKind::probe);
        if (const auto told = tell(to, message); !told) refusal = told.error().code();
      } else {
        const MailPointer mail = make_mail(kEcho, {static_cast<float>(n)});
        message = mail;
        if (const auto asked = ask(to, mail); !asked) refusal = asked.error().code();
      }
      if (refusal)
        refusals.insert(*refusal);
      else
        accepted.push_back(std::move(message));
      ++tried_;
    }
    const std::lock_guard hold(mutex_);
    accepted_.insert(accepted_.end(), accepted.begin(), accepted.end());
    refusals_.insert(refusals.begin(), refusals.end());
  }

  const std::vector<Address> to_;
  std::atomic<bool> ends_{false};
  std::atomic<std::uint64_t> tried_{0};
  std::mutex mutex_;
  std::vector<MessagePointer> accepted_;
  std::set<Errc> refusals_;
  std::vector<std::thread> threads_;
};

std::vector<Address> addresses(const Mesh& mesh) { return {mesh.address(kB), mesh.address(kC), mesh.address(kD)}; }

TEST(MailSenders, LoseNothingWhileSessionsComeAndGo) {
  Mesh mesh = mesh_of(clerks(false), 2);
  Senders senders(addresses(mesh));
  for (int i = 0; i < 60; ++i) {
    must(mesh.add_session());
    must(mesh.tick());
    auto morph = make_command(CommandKind::morph);
    morph->encoding = Encoding(i % 2 ? Dtype::bfloat16 : Dtype::float32);
    (void)mesh.tell({0, 0, 0, 0}, morph);
    must(mesh.remove_session(static_cast<std::size_t>(i % 2)));
    must(mesh.tick(1 + i % 3));
    senders.let_work();
  }
  const auto& accepted = senders.end();
  must(mesh.tick(2));
  EXPECT_GT(accepted.size(), 100u);
  for (const MessagePointer& message : accepted) ASSERT_TRUE(message->is_done() && message->status());
  for (const Errc refusal : senders.refusals()) EXPECT_EQ(refusal, Errc::full);
}

TEST(MailSenders, AreAnsweredWhenTheMeshGoesBack) {
  Mesh mesh = mesh_of(clerks(true), 2);
  Snapshot saved;
  mesh.take_snapshot(saved);
  Senders senders(addresses(mesh));
  for (int i = 0; i < 60; ++i) {
    must(mesh.tick(1 + i % 3));
    if (i % 4 == 0) mesh.take_snapshot(saved);
    senders.let_work();
    if (i % 4 == 2) must(mesh.restore_snapshot(saved));
  }
  const auto& accepted = senders.end();
  must(mesh.tick(2));
  for (const MessagePointer& message : accepted) {
    ASSERT_TRUE(message->is_done());
    if (!message->status()) expect_error(message->status(), Errc::not_found, {"the mesh went back"});
  }
}

TEST(MailSenders, ReadOfAHaltWhileItComesAndGoes) {
  Mesh mesh = mesh_of(clerks(false, {Policy::halt, 3, 50, Policy::isolate}), 2);
  Senders senders(addresses(mesh));
  int halts = 0;
  for (int i = 0; i < 60; ++i) {
    // Its mailbox may be full of what others sent.
    (void)mesh.tell(kA, make_mail(kThrow));
    const bool halted = !mesh.tick();
    halts += halted;
    if (halted) senders.let_work();
    mesh.resume();
    must(mesh.tick());
  }
  const auto& accepted = senders.end();
  for (int i = 0; i < 3; ++i) must(mesh.tick());
  EXPECT_GT(halts, 10);
  for (const MessagePointer& message : accepted) ASSERT_TRUE(message->is_done());
  EXPECT_TRUE(senders.refusals().contains(Errc::halted));
}

TEST(MailSenders, FindAMeshEndedOrWhole) {
  std::optional<Mesh> mesh = mesh_of(clerks(false), 2);
  const auto to = addresses(*mesh);
  Senders senders(to);
  for (int i = 0; i < 20; ++i) {
    must(mesh->tick());
    senders.let_work();
  }
  mesh.reset();
  senders.let_work();
  for (const MessagePointer& message : senders.end()) {
    ASSERT_TRUE(message->is_done());
    if (!message->status()) expect_error(message->status(), Errc::not_found, {"mesh has ended"});
  }
  EXPECT_TRUE(senders.refusals().contains(Errc::not_found));
  expect_error(tell(to[0], make_mail(kNote)), Errc::not_found, {"has ended"});
}

// Senders that take turns at a lock would keep a builder out for as long as they send.
TEST(MailSenders, DoNotKeepABuilderOfOtherMeshesWaiting) {
  Mesh mesh = mesh_of(clerks(false));
  Senders senders(addresses(mesh));
  for (int i = 0; i < 10; ++i) {
    Mesh other = mesh_of(clerks(false));
    const auto asked = must(ask(other.address(kB), make_mail(kEcho, {static_cast<float>(i)})));
    must(other.tick());
    EXPECT_EQ(asked->answer(), std::vector<float>{static_cast<float>(i)});
    senders.let_work();
  }
}

TEST(MailSenders, ADeliveryUnderWayHoldsUpTheEndOfItsMeshAndNothingElse) {
  constexpr std::uint64_t kSlow = UINT64_MAX - 1, kOther = UINT64_MAX - 2;
  std::atomic<bool> is_inside{false}, may_go{false}, has_ended{false};
  auto slow = std::make_unique<AddressEntry>(kSlow, [&](Coord, const MessagePointer&, std::optional<std::uint64_t>) {
    is_inside = true;
    while (!may_go) std::this_thread::yield();
    EXPECT_FALSE(has_ended);
    return Result<std::uint64_t>(7);
  });
  Result<std::uint64_t> stamp(0);
  std::thread sender([&] { stamp = tell({kSlow, kA}, make_mail(kNote)); });
  while (!is_inside) std::this_thread::yield();
  std::thread ender([&] {
    slow.reset();
    has_ended = true;
  });
  // It may be looked for, or be gone, but another mesh comes and goes.
  for (int i = 0; i < 100; ++i) {
    AddressEntry other(
        kOther, [](Coord, const MessagePointer&, std::optional<std::uint64_t>) { return Result<std::uint64_t>(1); });
    EXPECT_EQ(must(tell({kOther, kA}, make_mail(kNote))), 1u);
  }
  expect_error(tell({kOther, kA}, make_mail(kNote)), Errc::not_found, {"has ended"});
  may_go = true;
  sender.join();
  ender.join();
  EXPECT_EQ(must(std::move(stamp)), 7u);
}

}  // namespace
}  // namespace weft::mesh::mail_senders_test
