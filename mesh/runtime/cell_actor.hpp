// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/fwd.hpp"
#include "mesh/network/layer.hpp"
#include "mesh/runtime/command.hpp"
#include "mesh/runtime/message.hpp"

#include "core/archive.hpp"
#include "core/coord.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::mesh {

/// Messages as an actor gets them. Spans are valid during the call.
namespace message {

/// Output that a source committed, one session's: read where it was published, without a copy.
struct Activation {
  std::size_t source = 0;   // position in the network file's `from`
  Coord from;               // the layer; of a port nothing
  std::string_view port{};  // empty: it is a layer
  std::size_t session = 0;
  std::span<const float> values;
};
/// An error on its way back through the actor, one session's: the gradient of what it published, or under a target
/// rule the displacement.
struct Gradient {
  std::size_t session = 0;
  std::span<const float> values;
  std::span<float> back;  // for its sources, as wide as their values together; zeros, and empty where nobody asks
};
/// Values that the actor should have published.
struct Target {
  std::optional<Coord> from;  // nothing: from outside
  std::size_t session = 0;
  std::span<const float> values;
  float rate = 0.0f;
};
/// A user's own.
struct User {
  std::optional<Coord> from;
  std::uint32_t number = 0;  // its type
  std::span<const float> values;
  std::span<const std::byte> bytes;
  bool is_question = false;  // the sender waits for a reply
};
/// The answer to a question of the actor's own.
struct Reply {
  Coord from;
  std::uint64_t question = 0;   // as CellContext::ask numbered it
  std::optional<Errc> failure;  // timed_out: none came in time; else what the receiver answered
  std::span<const float> values;
};

}  // namespace message

/// Acts that are open to an actor while it handles a message.
class CellContext {
 public:
  virtual std::uint64_t tick() const noexcept = 0;
  virtual Coord at() const noexcept = 0;
  virtual std::size_t sessions() const noexcept = 0;
  /// Sets its own output in a session, which its readers see in the next tick; it stays until it is set again.
  /// @error shape_mismatch, out_of_range, not_finite; nothing changes then
  virtual Status publish(std::span<const float> values, std::size_t session = 0) = 0;
  /// Sends a message to a neighbour: a layer that it reads, that reads it, or one that its options name (`tells`). Mail
  /// is handled in the next tick. A command, to a cell that it reads or tells, is executed three ticks later, as those
  /// of metacognition are. What a handler sent before it throws is not sent.
  /// @return the message's number among its own
  /// @error unknown_name: no such neighbour; unsupported: a layer that handles no such message; full: it sent too much
  ///        in this tick (256 messages; 2 commands to a cell); out_of_range: a command for a tick that is more than
  ///        65,536 ahead
  virtual Result<std::uint64_t> tell(Coord to, MessagePointer message) = 0;
  /// The same, and wants a reply: CellActor::on_reply gets it, at the latest when `ticks` have passed.
  /// @error as tell; invalid_argument: 0 ticks; full: 256 questions wait already
  virtual Result<std::uint64_t> ask(Coord to, MailPointer mail, std::uint64_t ticks) = 0;
  /// Answers the mail being handled; the last answer counts.
  virtual void reply(std::vector<float> values) = 0;

 protected:
  ~CellContext() = default;
};

/// A cell of a user's own: handlers for messages, and its state. It stands in a network as a layer does: it reads
/// sources, has an output, belongs to a cell, and is supervised, saved and replayed with it. In a tick its cell first
/// handles mail, then replies that came too late, then the activations of its sources.
/// A handler that throws is a fault of the cell; one that does not return is found by the watchdog. Handlers must be
/// functions of state and message alone, and have no effect outside: a device's steps may be run a second time.
/// @thread the one that runs the cell's region, one at a time
class CellActor {
 public:
  virtual ~CellActor() = default;
  virtual void on_activation(const message::Activation&, CellContext&) {}
  virtual void on_gradient(const message::Gradient&) {}
  virtual void on_target(const message::Target&, CellContext&) {}
  virtual void on_message(const message::User&, CellContext&) {}
  virtual void on_reply(const message::Reply&, CellContext&) {}

  /// Fields of its state, as core/archive.hpp says; their scope is Scope::control.
  virtual void visit(OutArchive& archive) const = 0;
  virtual void visit(InArchive& archive) = 0;
  /// A copy for another mesh.
  virtual std::unique_ptr<CellActor> clone() const = 0;
};

/// Makes `visit` and `clone` of one function:
///   class Counter final : public CellActorOf<Counter> {
///    public:
///     template <class Self, class Archive>
///     static void fields(Self& self, Archive& archive) { archive(Field{"count", Scope::control}, self.count_); }
template <class Actor>
class CellActorOf : public CellActor {
 public:
  void visit(OutArchive& archive) const final { Actor::fields(static_cast<const Actor&>(*this), archive); }
  void visit(InArchive& archive) final { Actor::fields(static_cast<Actor&>(*this), archive); }
  std::unique_ptr<CellActor> clone() const final { return std::make_unique<Actor>(static_cast<const Actor&>(*this)); }
};

/// Makes an actor for an input of shape `in`, from its options.
using CellActorFactory = std::function<Result<std::unique_ptr<CellActor>>(const Shape& in, OptionReader& options)>;

/// Adds a type of cells of the user's own, placed in networks as a layer of type `type`. Besides the options declared
/// it has:
///   option  | default | meaning
///   out     | 1       | width of its output
///   tells   | []      | places z, y, x, l, one after another, that it exchanges messages with besides its links
///   trains | []      | places of neighbours with weights that move towards targets that it sends
/// @error duplicate_name when the type exists
/// @thread any
Status register_cell(std::string type, CellActorFactory factory, LayerDeclaration declaration = {});
/// The same for an actor without options of its own.
template <class Actor>
Status register_cell(std::string type) {
  return register_cell(std::move(type), [](const Shape&, OptionReader&) -> Result<std::unique_ptr<CellActor>> {
    return std::unique_ptr<CellActor>(std::make_unique<Actor>());
  });
}

}  // namespace weft::mesh
