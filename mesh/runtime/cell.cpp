// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/cell.hpp"

#include "mesh/runtime/fault_origins.hpp"
#include "mesh/runtime/step_rule.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

namespace weft::mesh {
namespace {

constexpr Field kMasterSize{"master_size", Scope::weights};
constexpr Field kMemory{"memory", Scope::weights};  // of observers whose memory a restart brings back

/// Of the layers [first, second), where they are not all the network's; else none.
void read_rates(const Graph& graph, const LayerRates& from, std::pair<NodeId, NodeId> layers,
                std::vector<float>& rates) {
  rates.clear();
  bool are_set = false;
  for (NodeId node = layers.first; from.are_set() && node < layers.second; ++node)
    are_set |= from.of(node) != graph.nodes()[node].rate_scale;
  for (NodeId node = layers.first; are_set && node < layers.second; ++node) rates.push_back(from.of(node));
}

/// Reads a cell's snapshot for one layer inside a container: other fields are passed over.
class InnerRestore final : public InArchive {
 public:
  InnerRestore(std::span<const std::byte> from, const FaultOrigin& layer, WeightStore& weights) noexcept
      : InArchive(scopes::kRestart), left_(from), layer_(layer), weights_(weights) {}

  void restore_masters(NodeId node) noexcept {
    for (auto& parameter : weights_.of(node)) {
      std::uint64_t size = 0;
      take(std::as_writable_bytes(std::span(&size, 1)));
      const std::span master(parameter.data, parameter.data ? size : 0);
      if (!has(weights_.first(node) + parameter.index) || master.empty()) {
        left_ = left_.subspan(size * sizeof(float));
      } else if (std::memcmp(master.data(), left_.data(), master.size_bytes()) == 0) {
        left_ = left_.subspan(master.size_bytes());
      } else {
        take(std::as_writable_bytes(master));
        ++parameter.version;
        weights_.note_change();
      }
    }
  }

 protected:
  bool get(const Field& field, Element, std::span<std::byte> to) override {
    if (field.scope == Scope::optimizer && field.second != Field::kOnly && has(field.second)) {
      take(to);
    } else if (field.name == "hidden" && field.first == layer_.node) {
      const std::size_t before = layer_.first_state * sizeof(float), size = layer_.states * sizeof(float);
      std::copy_n(left_.data() + before, size, to.data() + before);
      left_ = left_.subspan(to.size());
    } else {
      left_ = left_.subspan(to.size());
    }
    return true;
  }
  std::uint64_t left() const noexcept override { return left_.size(); }

 private:
  /// `parameter`: of the store.
  bool has(std::size_t parameter) const noexcept {
    return parameter - weights_.first(layer_.node) - layer_.first_parameter < layer_.parameters;
  }
  void take(std::span<std::byte> to) noexcept {
    std::copy_n(left_.data(), to.size(), to.data());
    left_ = left_.subspan(to.size());
  }

  std::span<const std::byte> left_;
  const FaultOrigin& layer_;
  WeightStore& weights_;
};

}  // namespace

void Cell::bind(const Graph& graph, WeightStore& weights, State& state, actors::Registry& registry,
                RuleState* rule) noexcept {
  graph_ = &graph;
  weights_ = &weights;
  state_ = &state;
  registry_ = &registry;
  rule_ = rule;
}

Result<std::uint64_t> Cell::receive_from_outside(MessagePointer message) {
  const std::string object = "cell " + to_string(at_) + ": ";
  const bool is_command = message->type == MessageType::command;
  if (is_command && !commands_.admit())
    return fail(Errc::full, object + std::to_string(commands_.most()) +
                                " commands wait there for their tick; let some be executed, then send again");
  if (undelivered_.admit()) {
    if (auto sent = mailbox().push(std::move(message))) return sent;
    undelivered_.leave();
  }
  if (is_command) commands_.leave();
  return fail(Errc::full, object + "its mailbox holds " + std::to_string(undelivered_.most()) +
                              " messages that no tick has taken yet; tick, then send again");
}

void Cell::receive(std::uint64_t tick, std::uint64_t, MessagePointer&& message) noexcept {
  const bool is_from_outside = message->sender == 0;
  if (is_from_outside) undelivered_.leave();
  if (message->type != MessageType::command) return mail_->deliver(tick, std::static_pointer_cast<Mail>(message));
  CommandMessage command = std::static_pointer_cast<Command>(std::move(message));
  if (command->not_before <= tick) return execute(tick, *command);
  try {
    keep(command);
  } catch (const std::bad_alloc&) {
    if (is_from_outside) commands_.leave();
    command->finish(tick, fail(Errc::full, "no memory"));  // a text that needs none
  }
}

void Cell::keep(CommandMessage message) {
  // Kept in stamp order among equals, so that commands of one tick run as they were sent. Observers in several regions
  // send in an order of chance, so theirs are kept by sender.
  const auto place = [](const Command& command) { return std::pair(command.not_before, command.sender); };
  const auto later = std::upper_bound(deferred_.begin(), deferred_.end(), message,
                                      [&](const auto& a, const auto& b) { return place(*a) < place(*b); });
  deferred_.insert(later, std::move(message));
  registry_->note_change();
}

void Cell::run_deferred(std::uint64_t tick) {
  std::size_t due = 0;
  while (due < deferred_.size() && deferred_[due]->not_before <= tick) execute(tick, *deferred_[due++]);
  if (due == 0) return;
  deferred_.erase(deferred_.begin(), deferred_.begin() + static_cast<std::ptrdiff_t>(due));
  registry_->note_change();
}

void Cell::rewind_commands(std::uint64_t tick, std::span<const CommandMessage> kept) {
  const auto withdraw = [&](const MessagePointer& message) {
    if (message->is_done() || std::find(kept.begin(), kept.end(), message) != kept.end()) return;
    const bool is_command = message->type == MessageType::command;
    const std::string_view what = is_command ? name(static_cast<const Command&>(*message).kind) : name(message->type);
    message->finish(
        tick, fail(Errc::not_found, "cell " + to_string(at_) + ", " + std::string(what) +
                                        ": the mesh went back to tick " + std::to_string(tick) + ", before this " +
                                        (is_command ? "command" : "message") + " was sent; send it again"));
  };
  const auto count_of_outside = [&] {
    return static_cast<std::uint32_t>(std::count_if(
        deferred_.begin(), deferred_.end(), [](const CommandMessage& command) { return command->sender == 0; }));
  };
  mailbox().drain([&](std::uint64_t, MessagePointer&& message) {
    if (message->sender == 0) undelivered_.leave();
    if (message->type != MessageType::command)
      mail_->leave();
    else if (message->sender == 0)
      commands_.leave();
    withdraw(message);
  });
  for (const CommandMessage& command : deferred_) withdraw(command);
  const std::uint32_t before = count_of_outside();
  deferred_.assign(kept.begin(), kept.end());
  commands_.change(before, count_of_outside());
  registry_->note_change();
}

void Cell::execute(std::uint64_t tick, Command& control) noexcept {
  std::vector<float> answer;
  Status status;
  try {
    status = apply(tick, control, answer);
  } catch (const std::exception& error) {
    status = fail(Errc::internal,
                  "cell " + to_string(at_) + ": " + std::string(name(control.kind)) + " failed: " + error.what());
  }
  if (control.sender == 0) commands_.leave();
  control.finish(tick, std::move(status), std::move(answer));
}

Status Cell::apply(std::uint64_t tick, Command& control, std::vector<float>& answer) {
  const std::string object = "cell " + to_string(at_) + ", " + std::string(name(control.kind));
  const NodeId node = first_ + control.level;
  if (control.level >= layers_)
    return fail(Errc::out_of_range, object + ": level " + std::to_string(control.level) + " of a cell with " +
                                        std::to_string(layers_) + " layers");
  switch (control.kind) {
    case CommandKind::enable:
      set_enabled(true);
      return {};
    case CommandKind::disable:
      set_enabled(false);
      return {};
    case CommandKind::set_period:
      if (control.number == 0) return fail(Errc::invalid_argument, object + ": a period of 0 ticks; 1 is every tick");
      set_period(control.number);
      return {};
    case CommandKind::set_weights: {
      auto parameters = weights_->of(node);
      if (control.parameter >= parameters.size())
        return fail(Errc::out_of_range, object + ": parameter " + std::to_string(control.parameter) +
                                            " of a layer with " + std::to_string(parameters.size()));
      return weights_->write(parameters[control.parameter], control.values, object);
    }
    case CommandKind::reset:
      set_reset_pending(true);
      return {};
    case CommandKind::probe: {
      const kernels::MatrixView rows = state_->output(node, tick);
      if (control.number >= rows.rows)
        return fail(Errc::out_of_range,
                    object + ": session " + std::to_string(control.number) + " of " + std::to_string(rows.rows));
      answer.assign(rows.row(control.number), rows.row(control.number) + rows.cols);
      return {};
    }
    case CommandKind::snapshot:
      for (const auto& parameter : weights_->of(node)) {
        const auto values = weights_->read(parameter);
        answer.insert(answer.end(), values.begin(), values.end());
      }
      return {};
    case CommandKind::morph:
      return weights_->morph(node, object, control.encoding);
    case CommandKind::set_rate:
      return set_rate(node, control, object);
  }
  return fail(Errc::internal, object + ": unknown command");
}

Status Cell::set_rate(NodeId node, const Command& command, const std::string& object) {
  if (command.values.size() != 1 || !LayerRates::is_valid(command.values[0]))
    return fail(Errc::out_of_range,
                object + ": " +
                    (command.values.size() == 1 ? "factor " + std::to_string(command.values[0])
                                                : std::to_string(command.values.size()) + " factors") +
                    "; one factor of the learning rate is taken, from 0 to 1000000");
  const Node& layer = graph_->nodes()[node];
  if (!rule_) return fail(Errc::unsupported, object + ": no rule learns on this mesh");
  if (layer.layer->parameters().empty())
    return fail(Errc::unsupported, object + ": " + layer.object + " has no weights of its own");
  if (layer.is_frozen)
    return fail(Errc::unsupported, object + ": " + layer.object +
                                       " is frozen by its network (`freeze`), so nothing is kept to move it with");
  weights_->rates.set(node, command.values[0]);
  registry_->note_change();
  return {};
}

bool Cell::handles(NodeId node, MessageType type) const noexcept {
  return std::any_of(observers_.begin(), observers_.end(),
                     [&](const CellObserver& each) { return each.node == node && each.observer->handles(type); });
}

std::vector<std::size_t> Cell::observer_sizes() const {
  std::vector<std::size_t> sizes;
  for (const CellObserver& each : observers_) sizes.push_back(each.observer->size());
  return sizes;
}

void Cell::record_observers(CellRecord& to) const {
  to.observers.resize(observers_.size());
  for (std::size_t i = 0; i < observers_.size(); ++i) {
    to.observers[i].is_counted = observers_[i].observer->size() == 0;
    observers_[i].observer->save(to.observers[i].words);
  }
  to.takes_mail = mail_ != nullptr;
  if (mail_) to.mail.assign(mail_->waiting().begin(), mail_->waiting().end());
}

void Cell::record(const actors::Supervisor& supervisor, CellRecord& to) const {
  to.switches = switches_;
  read_rates(*graph_, weights_->rates, {first_, first_ + layers_}, to.rates);
  to.supervision = registry_->view(id());
  if (const auto& rule = supervisor.rule(id()); rule.policy == actors::Policy::restart)
    to.restarts.reserve(rule.max_restarts);
  const auto restarts = supervisor.restarts(id());
  to.restarts.assign(restarts.begin(), restarts.end());
  to.commands.assign(deferred_.begin(), deferred_.end());
  record_observers(to);
}

Status Cell::restore_observers(const CellRecord& from) {
  WEFT_ASSERT(from.observers.size() == observers_.size(), "a record of another cell");
  for (std::size_t i = 0; i < observers_.size(); ++i)
    if (Status restored = observers_[i].observer->restore(from.observers[i].words); !restored)
      return fail(std::move(restored).error().within("cell " + to_string(at_)));
  return {};
}

void Cell::restore_mail(const CellRecord& from, std::uint64_t tick) {
  if (!mail_) return;
  mail_->restore(tick, from.mail);
  for (const CellObserver& each : observers_) each.observer->forget_sent();
}

Status Cell::restore(const CellRecord& from, actors::Supervisor& supervisor, std::uint64_t tick) {
  if (auto restored = supervisor.restore(id(), from.restarts); !restored)
    return fail(Errc::corrupt, "cell " + to_string(at_) + ": " + restored.error().text());
  if (!from.rates.empty() && from.rates.size() != layers_)
    return fail(Errc::corrupt, "cell " + to_string(at_) + ": " + std::to_string(from.rates.size()) +
                                   " learning rates of " + std::to_string(layers_) + " layers");
  WEFT_CHECK(restore_observers(from));
  for (NodeId node = first_; node < first_ + layers_; ++node)
    weights_->rates.set(node, from.rates.empty() ? graph_->nodes()[node].rate_scale : from.rates[node - first_]);
  registry_->restore(id(), from.supervision);
  switches_ = from.switches;
  marked_ = !registry_->is_active(id());
  rewind_commands(tick, from.commands);
  restore_mail(from, tick);
  return {};
}

void Cell::take_snapshot(std::uint64_t tick) {
  // One that snapshots of the mesh share stays as it is; else its memory is used again.
  if (!snapshot_ || snapshot_.use_count() > 1) snapshot_ = std::make_shared<Snapshot>();
  snapshot_->clear();
  WriteArchive archive(*snapshot_, scopes::kRestart);
  for (NodeId node = first_; node < first_ + layers_; ++node) {
    for (const auto& parameter : std::as_const(*weights_).of(node)) {
      archive(kMasterSize, std::uint64_t{parameter.data ? parameter.spec->stored_size() : 0});
      if (parameter.data) archive(WeightStore::kMaster, std::span(parameter.data, parameter.spec->stored_size()));
    }
    visit_rows(node, tick, archive);
    if (rule_) std::as_const(*rule_).visit_layer(node, archive);
  }
  std::vector<std::uint64_t> words;
  for (const CellObserver& each : observers_) {
    if (each.observer->size() != 0) continue;
    each.observer->save(words);
    archive.list(kMemory, words);
  }
  registry_->note_change();
}

Status Cell::restart(std::uint64_t tick, const FaultOrigin* layer) {
  if (layer) {
    InnerRestore archive(snapshot_->bytes(), *layer, *weights_);
    for (NodeId node = first_; node <= layer->node; ++node) {
      archive.restore_masters(node);
      visit_rows(node, tick, archive);
      if (rule_) rule_->visit_layer(node, archive);
    }
    weights_->refresh(layer->node);
    return {};
  }
  RestoreArchive archive(snapshot_->bytes(), scopes::kRestart);
  for (NodeId node = first_; node < first_ + layers_; ++node) {
    for (auto& parameter : weights_->of(node)) {
      std::uint64_t size = 0;
      archive(kMasterSize, size);
      // Weights without a master do not change, nor those that had none when they were remembered; nor, most of the
      // time, those that do not learn.
      if (!parameter.data) {
        archive.pass_over(size * sizeof(float));
      } else if (archive(WeightStore::kMaster, std::span(parameter.data, size))) {
        ++parameter.version;
        weights_->note_change();
      }
    }
    weights_->refresh(node);
    visit_rows(node, tick, archive);
    if (rule_) rule_->visit_layer(node, archive);
  }
  std::vector<std::uint64_t> words;
  for (const CellObserver& each : observers_) {
    if (each.observer->size() != 0) continue;
    archive.list(kMemory, words);
    WEFT_CHECK(each.observer->restart(words));
  }
  return {};
}

}  // namespace weft::mesh
