// SPDX-License-Identifier: Apache-2.0

#include "cli/order_desk.hpp"

#include "cli/encoding_flags.hpp"
#include "cli/text_format.hpp"

#include "learning/learner.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/command.hpp"

#include <algorithm>
#include <utility>

namespace weft::cli {
namespace {

using mesh::CommandKind;
using mesh::NodeId;

/// A command and where it goes.
struct Sent {
  Coord to;
  mesh::CommandMessage command;
};

CommandKind command_kind(OrderKind kind) {
  switch (kind) {
    case OrderKind::enable:
      return CommandKind::enable;
    case OrderKind::disable:
      return CommandKind::disable;
    case OrderKind::period:
      return CommandKind::set_period;
    case OrderKind::weights:
      return CommandKind::set_weights;
    case OrderKind::reset:
      return CommandKind::reset;
    case OrderKind::probe:
      return CommandKind::probe;
    case OrderKind::snapshot:
      return CommandKind::snapshot;
    case OrderKind::morph:
      return CommandKind::morph;
    case OrderKind::rate:
    case OrderKind::freeze:
    case OrderKind::thaw:
      return CommandKind::set_rate;
  }
  return CommandKind::probe;
}

/// One order, carried out on a run that has an agent.
class OneOrder {
 public:
  OneOrder(const Order& order, RunState& state)
      : order_(order), row_(row_of(order.kind)), state_(state), graph_(state.mesh().graph()) {}

  Result<Json> operator()() {
    WEFT_TRY(const std::vector<Coord> places, find_places());
    std::vector<Sent> sent;
    for (const Coord at : places) {
      WEFT_TRY(auto command, send(at));
      sent.push_back({at, std::move(command)});
    }
    Json answer{{"order", row_.name},
                {"place", text_of(order_.place)},
                {"tick", state_.mesh().ticks()},
                {row_.scope == OrderScope::cell ? "cells" : "layers", places.size()}};
    WEFT_CHECK(add_answers(sent, answer));
    keep(answer);
    return answer;
  }

 private:
  Result<std::vector<Coord>> find_places() const {
    std::vector<Coord> found;
    if (row_.scope == OrderScope::cell) {
      for (const auto& cell : mesh::MeshAccess::cells(std::as_const(state_.mesh())))
        if (!order_.place || is_in(cell->at(), order_.place->at)) found.push_back(cell->at());
    } else {
      for (NodeId node = static_cast<NodeId>(graph_.port_count()); node < graph_.nodes().size(); ++node)
        if (is_meant(graph_.nodes()[node])) found.push_back(graph_.nodes()[node].at);
    }
    if (!found.empty()) return found;
    const bool is_there = order_.place && graph_.spec().grid.contains(order_.place->at) &&
                          graph_.find_layer(order_.place->at).has_value();
    return fail(is_there ? Errc::unsupported : Errc::unknown_name,
                what() + (is_there ? ": no layer there has weights that this could change"
                                   : ": no cell stands there; weft inspect lists the places"));
  }

  static bool is_in(Coord at, Coord cell) noexcept { return at.z == cell.z && at.y == cell.y && at.x == cell.x; }

  bool is_meant(const mesh::Node& node) const {
    const auto& place = order_.place;
    if (place && place->has_layer) return node.at == place->at;
    if (place && !is_in(node.at, place->at)) return false;
    // Of a cell without the number of a layer: what speaks of one layer alone, of its first.
    if (!row_.may_be_all) return node.at.l == 0;
    const auto& parameters = node.layer->parameters();
    if (order_.kind == OrderKind::morph)
      return std::any_of(parameters.begin(), parameters.end(), [](const auto& each) { return each.is_matrix(); });
    return !parameters.empty() && !node.is_frozen;
  }

  std::string what() const { return std::string(row_.name) + " " + text_of(order_.place); }

  Result<mesh::CommandMessage> send(Coord at) {
    auto command = mesh::make_command(command_kind(order_.kind), order_.at_tick.value_or(0));
    command->level = at.l;
    switch (order_.kind) {
      case OrderKind::period:
        command->number = order_.ticks;
        break;
      case OrderKind::probe:
        command->number = order_.session;
        break;
      case OrderKind::weights:
        command->parameter = order_.parameter;
        command->values = order_.values;
        break;
      case OrderKind::morph:
        command->encoding = order_.encoding;
        break;
      case OrderKind::rate:
      case OrderKind::freeze:
      case OrderKind::thaw:
        command->values = {rate_scale(at)};
        break;
      default:
        break;
    }
    return state_.agent()->post(at, command, true);
  }

  /// Factor of the learning rate that gives the layer the rate that is wanted.
  float rate_scale(Coord at) const {
    if (order_.kind == OrderKind::rate) return order_.rate / state_.learner()->options().optimizer.lr;
    if (order_.kind == OrderKind::freeze) return 0.0f;
    // As the run was begun: its network's own may be of a checkpoint that holds an earlier order.
    for (const mesh::LayerSpec& layer : state_.setup().spec.layers)
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
                                                             : "; carried out in " + std::to_string(done) + " of " +
                                                                   std::to_string(sent.size())));
    }
    if (waiting > 0) answer["waits_for"] = order_.at_tick.value_or(0);
    const bool has_values = order_.kind == OrderKind::probe || order_.kind == OrderKind::snapshot;
    if (!has_values || waiting > 0) return {};
    answer["values"] = Json::array();
    for (const float value : sent[0].command->answer()) answer["values"].push_back(as_written(value));
    return {};
  }

  /// Waits until the order is on the device, so that no crash takes back what was answered.
  void keep(Json& answer) const {
    agent::Agent& agent = *state_.agent();
    const bool is_by_checkpoints = state_.setup().durability.mode == agent::Durability::Mode::checkpoint;
    const Status kept = is_by_checkpoints ? Status() : agent.acknowledge();
    const agent::AgentStatistics now = agent.statistics();
    answer["kept"] = kept && now.acknowledged.record >= now.at.record;
    if (!kept) answer["why_not_kept"] = kept.error().text();
  }

  const Order& order_;
  const OrderRow& row_;
  RunState& state_;
  const mesh::Graph& graph_;
};

std::string refusal(const Error& error) { return Json{{"refused", error.text()}, {"code", name(error.code())}}.dump(); }

std::string carried_out(const Order& order, RunState& state) {
  if (!state.agent())
    return refusal(Error(Errc::unsupported,
                         "this run keeps no journal, so an order to it would be lost; start it with --state DIR"));
  auto answer = OneOrder(order, state)();
  return answer ? answer->dump(Json::Order::as_set) : refusal(answer.error());
}

}  // namespace

std::optional<std::string> OrderDesk::take(std::uint64_t ticket, const Json& json) {
  auto order = read_order(json);
  if (!order) return refusal(order.error());
  const std::lock_guard hold(mutex_);
  if (closed_) return refusal(Error(Errc::halted, *closed_));
  if (waiting_.size() == kMostWaiting)
    return refusal(Error(Errc::full, std::to_string(kMostWaiting) + " orders wait already; try again later"));
  waiting_.push_back({ticket, *std::move(order)});
  has_orders_.store(true, std::memory_order_release);
  return std::nullopt;
}

std::vector<OrderDesk::Waiting> OrderDesk::take_all() {
  if (!has_orders_.load(std::memory_order_acquire)) return {};
  const std::lock_guard hold(mutex_);
  has_orders_.store(false, std::memory_order_relaxed);
  return std::exchange(waiting_, {});
}

void OrderDesk::carry_out(RunState& state, const Reply& reply) {
  for (const Waiting& each : take_all()) reply(each.ticket, carried_out(each.order, state));
}

void OrderDesk::close(const std::string& why, const Reply& reply) {
  {
    const std::lock_guard hold(mutex_);
    closed_ = why;
  }
  for (const Waiting& each : take_all()) reply(each.ticket, refusal(Error(Errc::halted, why)));
}

}  // namespace weft::cli
