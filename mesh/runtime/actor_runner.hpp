// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"
#include "mesh/runtime/cell_actor.hpp"
#include "mesh/runtime/observer.hpp"
#include "mesh/runtime/outbox.hpp"

#include "core/coord.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::mesh {

/// A layer that an actor exchanges messages with.
struct ActorNeighbour {
  Coord at;
  CellPlace place;
  bool handles_mail = false, may_command = false, may_train = false;
  bool operator<(const ActorNeighbour& other) const noexcept { return at < other.at; }
};

/// Runs a user's cell in a mesh: hands it mail and activations as its cell fires, and sends what it tells. Everything
/// that it does is made of committed values and of mail in a fixed order, so it is the same on every thread count.
/// @thread the one that runs the cell of the layer
class ActorRunner final : public Observer {
 public:
  static constexpr std::size_t kMostQuestions = 256;
  static constexpr std::size_t kMostCommands = 2;  // of a tick, to one cell
  /// Ticks that a command may wait: a bound of those that wait at a cell which is the same in every run.
  static constexpr std::uint64_t kMostAhead = 1 << 16;

  ActorRunner(const Graph& graph, NodeId node, std::uint32_t level, std::unique_ptr<CellActor> actor,
              std::vector<ActorNeighbour> neighbours);

  const Outbox& outbox() const noexcept { return outbox_; }
  const CellActor& actor() const noexcept { return *actor_; }

  void observe(const Observation& seen, CommandSink& to) override;
  bool handles(MessageType) const noexcept override { return true; }
  bool backward(const BackwardArgs& args) override;
  std::size_t size() const noexcept override { return 0; }
  void save(std::vector<std::uint64_t>& to) const override;
  Status restore(std::span<const std::uint64_t> words) override;
  Status restart(std::span<const std::uint64_t> words) override;
  Status check(std::span<const std::uint64_t> words) const override;
  void forget_sent() noexcept override { outbox_.clear(); }
  bool may_change_weights() const noexcept override { return true; }

 private:
  class Context;
  struct Question {
    std::uint64_t number = 0, deadline = 0;
    NodeId to = 0;
  };
  const ActorNeighbour* neighbour(Coord at) const noexcept;
  std::optional<Coord> place_of(std::uint32_t sender) const;
  /// A handler, all of whose acts count, or none where it throws.
  template <class Handler>
  void run_handler(Context& context, const Mail* question, Handler&& handler);
  void handle(Context& context, const MailPointer& mail);
  void dispatch(Context& context, const Mail& mail);
  Status threw(std::string_view what) const noexcept;
  void end_questions(Context& context);
  void show_activations(Context& context);
  /// State of an actor besides its fields.
  struct Own {
    std::uint64_t sent = 0;           // messages, ever; a restart does not take it back
    std::vector<Question> questions;  // as they were asked
  };
  template <class Self, class Archive>
  static void visit_own(Self& self, std::size_t nodes, Archive& archive);
  Result<std::pair<Own, std::unique_ptr<CellActor>>> read(std::span<const std::uint64_t> words) const;

  const Graph& graph_;
  NodeId node_;
  std::uint32_t level_;
  std::unique_ptr<CellActor> actor_;
  std::vector<ActorNeighbour> neighbours_;  // by place
  Own own_;
  Outbox outbox_;
};

}  // namespace weft::mesh
