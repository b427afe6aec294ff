// SPDX-License-Identifier: Apache-2.0
// Layers that act on others as a mesh runs: their observers, and who exchanges mail with whom.

#include "mesh/internal/mesh_parts.hpp"
#include "mesh/runtime/actor_runner.hpp"
#include "mesh/runtime/target_trainer.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace weft::mesh {

Mesh::Parts::~Parts() {
  mailing.address.reset();  // nobody sends any more
  for (Cell* const cell : mailing.observing) cell->collect_mail(ticks);
  // The text is short enough to need no memory.
  const auto answer = [&](Message& message) { message.finish(ticks, fail(Errc::not_found, "mesh has ended")); };
  for (const auto& cell : cells) {
    cell->mailbox().drain([&](std::uint64_t, MessagePointer&& message) { answer(*message); });
    for (const CommandMessage& command : cell->deferred()) answer(*command);
    if (!cell->mail()) continue;
    for (const MailPointer& mail : cell->mail()->waiting()) answer(*mail);
  }
}

CellPlace Mesh::Parts::place_of(NodeId node) const noexcept {
  const auto after =
      std::upper_bound(cells.begin(), cells.end(), node, [](NodeId id, const auto& c) { return id < c->first(); });
  const auto cell = static_cast<std::uint32_t>(after - cells.begin() - 1);
  return {node, cell, node - cells[cell]->first()};
}

Cell* Mesh::Parts::find_cell(Coord at) const noexcept {
  at.l = 0;
  const auto found =
      std::lower_bound(cells.begin(), cells.end(), at, [](const auto& c, Coord b) { return c->at() < b; });
  return found == cells.end() || (*found)->at() != at ? nullptr : found->get();
}

Result<CellPlace> Mesh::Parts::check_delivery(Coord to, const Message* message) const {
  const std::string object = "message to " + to_string(to) + ": ";
  if (!message) return fail(Errc::invalid_argument, object + "there is none");
  if (!graph.spec().grid.contains(to))
    return fail(Errc::out_of_range, object + "outside the grid " + to_string(graph.spec().grid));
  const auto node = graph.find_layer(to);
  if (!node) return fail(Errc::unknown_name, object + "no layer stands there");
  if (const std::optional<Halt> halt = mailing.arrivals->halt().get())
    return fail(Errc::halted, object + "the mesh has stopped: cell " + to_string(cells[halt->cell]->at()) +
                                  " failed at tick " + std::to_string(halt->tick) + "; resume it, then send again");
  WEFT_CHECK(check_message(object, *message));
  const CellPlace place = place_of(*node);
  if (message->type != MessageType::command && !cells[place.cell]->handles(*node, message->type))
    return fail(Errc::unsupported, object + graph.nodes()[*node].object + " handles no " +
                                       std::string(name(message->type)) + "; an actor does (register_cell)");
  return place;
}

Result<std::uint64_t> Mesh::Parts::deliver(Coord to, const CellPlace& place, MessagePointer message,
                                           std::optional<std::uint64_t> reply_within) {
  const bool is_mail = message->type != MessageType::command;
  CellMail* const mail = is_mail ? cells[place.cell]->mail() : nullptr;
  if (mail && !mail->admit())
    return fail(Errc::full, "message to " + to_string(to) + ": " + std::to_string(CellMail::kCapacity) +
                                " messages wait there already; let its cell fire, then send again");
  message->level = place.level;
  message->sender = 0;
  Mail* const own = is_mail ? static_cast<Mail*>(message.get()) : nullptr;
  const auto set = [&](Mail::Kind kind, std::uint64_t deadline) {
    own->kind = kind;
    own->deadline = deadline;
  };
  const Mail::Kind kind = own ? own->kind : Mail::Kind::tell;
  const std::uint64_t deadline = own ? own->deadline : 0;
  if (own) {
    own->sequence = 0;
    own->failure = 0;
    if (reply_within) set(Mail::Kind::ask, *reply_within);
  }
  auto sent = mailing.arrivals->receive(place.cell, message);
  if (sent || !mail) return sent;
  mail->leave();
  set(kind, deadline);  // it may be sent again, and not as a question
  return sent;
}

Result<std::uint64_t> Mesh::Parts::tell(Coord to, const MessagePointer& message,
                                        std::optional<std::uint64_t> reply_within) {
  WEFT_TRY(const CellPlace place, check_delivery(to, message.get()));
  if (!message->claim()) return sent_before("message to " + to_string(to) + ": ");
  auto sent = deliver(to, place, message, reply_within);
  if (!sent) message->release();
  return sent;
}

// A command lies in a mailbox for up to two ticks. Layers that watch others send three in a tick.
std::map<std::size_t, std::size_t> Mesh::Parts::count_commands() const {
  std::map<std::size_t, std::size_t> commands;
  for (const Node& node : graph.nodes()) {
    if (node.is_port() || !node.layer->is_observer()) continue;
    const std::size_t each = 2 * (node.layer->handles_mail() ? ActorRunner::kMostCommands : 3);
    for (const std::uint32_t edge : node.sources) commands[graph.nodes()[graph.edges()[edge].from].cell] += each;
    for (const Coord at : node.layer->tells())
      if (const auto told = graph.find_layer(at)) commands[graph.nodes()[*told].cell] += each;
  }
  return commands;
}

Status Mesh::Parts::make_observers() {
  // More could fill a cell's mailbox: each may send three commands, which lie there for up to two ticks.
  constexpr std::size_t kMostObservers = 4;
  std::vector<std::size_t> observers(cells.size(), 0);
  std::map<NodeId, std::vector<NodeId>> told_by;
  for (NodeId id = static_cast<NodeId>(graph.port_count()); id < graph.nodes().size(); ++id)
    for (const Coord at : graph.nodes()[id].layer->tells())
      if (const auto told = graph.find_layer(at)) told_by[*told].push_back(id);
  const ObserverSite site{graph, 0, [&](NodeId node) { return place_of(node); },
                          [&](NodeId node) { return told_by[node]; }};
  std::map<NodeId, MadeObserver> senders;
  for (NodeId id = static_cast<NodeId>(graph.port_count()); id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    if (!node.layer->is_observer()) continue;
    WEFT_TRY(MadeObserver made, node.layer->make_observer({site.graph, id, site.place_of, site.told_by}));
    for (const CellPlace& place : made.commanded)
      if (++observers[place.cell] > kMostObservers)
        return fail(Errc::too_large, node.object + ".from: more than " + std::to_string(kMostObservers) +
                                         " layers like it act on the cell of " + graph.nodes()[place.node].object);
    Cell& cell = *cells[place_of(id).cell];
    cell.observers().push_back({id, std::move(made.observer)});
    if (!made.outbox) continue;
    cell.open_mail();
    senders.emplace(id, std::move(made));
  }
  link_mail(senders);
  return {};
}

void Mesh::Parts::link_mail(const std::map<NodeId, MadeObserver>& senders) {
  std::set<NodeId> trained;
  for (const auto& [id, made] : senders)
    for (const CellPlace& place : made.trained) trained.insert(place.node);
  for (const NodeId node : trained) {
    const CellPlace place = place_of(node);
    cells[place.cell]->open_mail();
    cells[place.cell]->observers().push_back({node, std::make_unique<TargetTrainer>(graph, node, place.level)});
  }
  for (const auto& [id, made] : senders) {
    std::set<std::uint32_t> readers;
    for (const NodeId neighbour : made.neighbours) {
      mailing.links.emplace_back(id, neighbour);
      readers.insert(place_of(neighbour).cell);
    }
    for (const std::uint32_t cell : readers)
      if (CellMail* const mail = cells[cell]->mail()) mail->add_neighbour(*made.outbox);
  }
}

Result<std::uint64_t> Mesh::tell(Coord to, MessagePointer message) { return parts_->tell(to, message, std::nullopt); }

Result<MailPointer> Mesh::ask(Coord to, MailPointer mail, std::uint64_t ticks) {
  WEFT_TRY([[maybe_unused]] const std::uint64_t stamp, parts_->tell(to, mail, ticks));
  return mail;
}

}  // namespace weft::mesh
