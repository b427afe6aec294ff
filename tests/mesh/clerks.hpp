// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/cell_actor.hpp"

#include "testing.hpp"
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

/// A network of actors that write to each other as messages tell them, for tests of cells of a user's own.
namespace weft::mesh::clerk_network {

using kernels::Activation;
using testing_support::must;
using testing_support::noise;

/// Numbers of messages, which say what the actor does with them.
enum Number : std::uint32_t { kNote = 1, kForward, kThrow, kEcho, kSilent, kAskOn, kDisable, kFlood, kStranger };

/// The value, or a throw: a fault of the actor.
template <class T>
T sent(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text());
  return *std::move(result);
}
inline void sent(const Status& status) {
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
        note(self.tell(friend_at_, make_command(CommandKind::probe, self.tick() + 65537)));
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

inline void register_clerk() {
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
inline NetworkSpec clerks(bool chat, actors::SupervisionRule rule = {}, std::size_t width = 8) {
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

inline Mesh mesh_of(const NetworkSpec& spec, std::size_t threads = 1, std::size_t sessions = 1) {
  return must(Mesh::build(spec, {.threads = threads, .sessions = sessions, .pin = false, .grain_bytes = 0}));
}

inline constexpr Coord kA{0, 0, 1, 0}, kB{0, 0, 2, 0}, kC{0, 0, 3, 0}, kD{0, 0, 4, 0};

inline actors::ActorView view_of(const Mesh& mesh, Coord at) {
  for (const auto& cell : MeshAccess::cells(mesh))
    if (cell->at() == at) return mesh.registry().view(cell->id());
  return {};
}

/// Ticks with inputs, and messages from outside now and then.
inline std::vector<std::string> live(Mesh& mesh, std::uint64_t from, std::uint64_t to, std::uint64_t at_once = 1) {
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

}  // namespace weft::mesh::clerk_network
