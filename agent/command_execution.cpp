// SPDX-License-Identifier: Apache-2.0

#include "agent/command_execution.hpp"

#include "learning/learner.hpp"

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/command.hpp"

#include "core/assert.hpp"
#include "core/written_number.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace weft::agent {
namespace {

using mesh::CommandKind;
using mesh::NodeId;

/// A command and where it goes.
struct Sent {
  Coord to;
  mesh::CommandMessage command;
};

CommandKind command_kind(AgentCommandKind kind) {
  switch (kind) {
    case AgentCommandKind::enable:
      return CommandKind::enable;
    case AgentCommandKind::disable:
      return CommandKind::disable;
    case AgentCommandKind::period:
      return CommandKind::set_period;
    case AgentCommandKind::weights:
      return CommandKind::set_weights;
    case AgentCommandKind::reset:
      return CommandKind::reset;
    case AgentCommandKind::probe:
      return CommandKind::probe;
    case AgentCommandKind::snapshot:
      return CommandKind::snapshot;
    case AgentCommandKind::morph:
      return CommandKind::morph;
    case AgentCommandKind::rate:
    case AgentCommandKind::freeze:
    case AgentCommandKind::thaw:
      return CommandKind::set_rate;
  }
  WEFT_ASSERT(false, "a kind of command without a row here");
}

/// One command, executed on a mesh.
class CommandExecution {
 public:
  CommandExecution(const AgentCommand& command, const CommandTarget& target)
      : command_(command), row_(row_of(command.kind)), target_(target), graph_(target.mesh.graph()) {}

  Result<Json> operator()() {
    const bool is_of_rates = command_.kind == AgentCommandKind::rate || command_.kind == AgentCommandKind::freeze ||
                             command_.kind == AgentCommandKind::thaw;
    if (is_of_rates && !target_.learner)
      return fail(Errc::unsupported, what() + ": this mesh has no learner, so no learning rate");
    WEFT_TRY(const std::vector<Coord> places, find_places());
    std::vector<Sent> sent;
    for (const Coord at : places) {
      WEFT_TRY(auto command, send(at));
      sent.push_back({at, std::move(command)});
    }
    Json answer{{"command", row_.name},
                {"place", text_of(command_.place)},
                {"tick", target_.mesh.ticks()},
                {row_.scope == CommandScope::cell ? "cells" : "layers", places.size()}};
    WEFT_CHECK(add_answers(sent, answer));
    return answer;
  }

 private:
  Result<std::vector<Coord>> find_places() const {
    std::vector<Coord> found;
    if (row_.scope == CommandScope::cell) {
      for (const auto& cell : mesh::MeshAccess::cells(target_.mesh))
        if (!command_.place || is_in(cell->at(), command_.place->at)) found.push_back(cell->at());
    } else {
      for (NodeId node = static_cast<NodeId>(graph_.port_count()); node < graph_.nodes().size(); ++node)
        if (is_meant(graph_.nodes()[node])) found.push_back(graph_.nodes()[node].at);
    }
    if (!found.empty()) return found;
    const bool is_there = command_.place && graph_.spec().grid.contains(command_.place->at) &&
                          graph_.find_layer(command_.place->at).has_value();
    return fail(is_there ? Errc::unsupported : Errc::unknown_name,
                what() + (is_there ? ": no layer there has weights that this could change"
                                   : ": no cell stands there; weft inspect lists the places"));
  }

  static bool is_in(Coord at, Coord cell) noexcept { return at.z == cell.z && at.y == cell.y && at.x == cell.x; }

  bool is_meant(const mesh::Node& node) const {
    const auto& place = command_.place;
    if (place && place->has_layer) return node.at == place->at;
    if (place && !is_in(node.at, place->at)) return false;
    // Of a cell without the number of a layer: what speaks of one layer alone, of its first.
    if (!row_.may_be_all) return node.at.l == 0;
    const auto& parameters = node.layer->parameters();
    if (command_.kind == AgentCommandKind::morph)
      return std::any_of(parameters.begin(), parameters.end(),
                         [](const auto& each) { return each.is_matrix() && !each.own.encoding; });
    return !parameters.empty() && !node.is_frozen;
  }

  std::string what() const { return std::string(row_.name) + " " + text_of(command_.place); }

  Result<mesh::CommandMessage> send(Coord at) {
    auto command = mesh::make_command(command_kind(command_.kind), command_.at_tick.value_or(0));
    command->level = at.l;
    switch (command_.kind) {
      case AgentCommandKind::period:
        command->number = command_.ticks;
        break;
      case AgentCommandKind::probe:
        command->number = command_.session;
        break;
      case AgentCommandKind::weights:
        command->parameter = command_.parameter;
        command->values = command_.values;
        break;
      case AgentCommandKind::morph:
        command->encoding = command_.encoding;
        break;
      case AgentCommandKind::rate:
      case AgentCommandKind::freeze:
      case AgentCommandKind::thaw:
        command->values = {rate_scale(at)};
        break;
      default:
        break;
    }
    return target_.post(at, std::move(command));
  }

  /// Factor of the learning rate that gives the layer the rate that is wanted.
  float rate_scale(Coord at) const {
    if (command_.kind == AgentCommandKind::rate) return command_.rate / target_.learner->options().optimizer.lr;
    if (command_.kind == AgentCommandKind::freeze) return 0.0f;
    // As the run was begun: its network's own may be of a checkpoint that holds an earlier command.
    for (const mesh::LayerSpec& layer : target_.original.layers)
      if (layer.at == at) return layer.rate_scale;
    return 1.0f;
  }

  /// The answers of the cells: the first failure, or the values that one was asked for.
  Status add_answers(const std::vector<Sent>& sent, Json& answer) const {
    std::size_t done = 0, waiting = 0;
    const Sent* failed = nullptr;
    for (const Sent& each : sent) {
      const mesh::Command& command = *each.command;
      if (!command.is_done())
        ++waiting;
      else if (command.status())
        ++done;
      else if (!failed)
        failed = &each;
    }
    if (failed) {
      const Error& why = failed->command->status().error();
      return fail(why.code(), why.text() + (sent.size() == 1 ? ""
                                                             : "; executed in " + std::to_string(done) + " of " +
                                                                   std::to_string(sent.size())));
    }
    if (waiting > 0) answer["waits_for"] = command_.at_tick.value_or(0);
    const bool has_values = command_.kind == AgentCommandKind::probe || command_.kind == AgentCommandKind::snapshot;
    if (!has_values || waiting > 0) return {};
    answer["values"] = Json::array();
    for (const float value : sent[0].command->answer()) answer["values"].push_back(as_written(value));
    return {};
  }

  const AgentCommand& command_;
  const CommandRow& row_;
  const CommandTarget& target_;
  const mesh::Graph& graph_;
};

}  // namespace

Result<Json> execute_command(const AgentCommand& command, const CommandTarget& target) {
  return CommandExecution(command, target)();
}

}  // namespace weft::agent
