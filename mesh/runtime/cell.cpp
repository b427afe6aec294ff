// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/cell.hpp"

#include "mesh/runtime/step_rule.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace weft::mesh {
namespace {

constexpr std::array<std::string_view, 8> kControlNames{"enable", "disable", "set_period", "set_weights",
                                                        "reset",  "probe",   "snapshot",   "morph"};

void copy_out(kernels::ConstMatrixView rows, std::vector<float>& out) {
  for (std::size_t i = 0; i < rows.rows; ++i) out.insert(out.end(), rows.row(i), rows.row(i) + rows.cols);
}

const float* copy_in(const float* in, kernels::MatrixView rows) {
  for (std::size_t i = 0; i < rows.rows; ++i, in += rows.cols) std::copy_n(in, rows.cols, rows.row(i));
  return in;
}

}  // namespace

std::string_view name(CommandKind kind) noexcept { return kControlNames[static_cast<std::size_t>(kind)]; }

void Cell::bind(const Graph& graph, WeightStore& weights, State& state, actors::Registry& registry,
                RuleState* rule) noexcept {
  graph_ = &graph;
  weights_ = &weights;
  state_ = &state;
  registry_ = &registry;
  rule_ = rule;
}

void Cell::receive(std::uint64_t tick, std::uint64_t, CommandMessage&& message) noexcept {
  if (message->not_before <= tick) return carry_out(tick, *message);
  keep(std::move(message));
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
  while (due < deferred_.size() && deferred_[due]->not_before <= tick) carry_out(tick, *deferred_[due++]);
  if (due == 0) return;
  deferred_.erase(deferred_.begin(), deferred_.begin() + static_cast<std::ptrdiff_t>(due));
  registry_->note_change();
}

void Cell::restore_deferred(std::vector<CommandMessage> commands) noexcept {
  deferred_ = std::move(commands);
  registry_->note_change();
}

void Cell::rewind_commands(std::uint64_t tick, std::span<const CommandMessage> kept) {
  const auto withdraw = [&](const CommandMessage& command) {
    if (command->is_done() || std::find(kept.begin(), kept.end(), command) != kept.end()) return;
    command->finish(tick, fail(Errc::not_found, "cell " + to_string(at_) + ", " + std::string(name(command->kind)) +
                                                    ": the mesh went back to tick " + std::to_string(tick) +
                                                    ", before this command was sent; send it again"));
  };
  mailbox().drain([&](std::uint64_t, CommandMessage&& command) { withdraw(command); });
  for (const CommandMessage& command : deferred_) withdraw(command);
  deferred_.assign(kept.begin(), kept.end());
  registry_->note_change();
}

void Cell::carry_out(std::uint64_t tick, Command& control) noexcept {
  std::vector<float> answer;
  Status status;
  try {
    status = apply(tick, control, answer);
  } catch (const std::exception& error) {
    status = fail(Errc::internal,
                  "cell " + to_string(at_) + ": " + std::string(name(control.kind)) + " failed: " + error.what());
  }
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
  }
  return fail(Errc::internal, object + ": unknown command");
}

void Cell::remember(std::uint64_t tick) {
  // Memory that snapshots share is left alone; otherwise it is reused.
  if (!remembered_ || remembered_.use_count() > 1) remembered_ = std::make_shared<Memory>();
  std::size_t next = 0;
  const auto room = [&]() -> std::vector<float>& {
    if (next == remembered_->size()) remembered_->emplace_back();
    (*remembered_)[next].clear();
    return (*remembered_)[next++];
  };
  for (NodeId node = first_; node < first_ + layers_; ++node) {
    for (const auto& parameter : weights_->of(node))
      room().assign(parameter.data, parameter.data + (parameter.data ? parameter.spec->stored_size() : 0));
    std::vector<float>& live = room();
    copy_out(state_->output(node, tick), live);
    if (state_->hidden(node, tick).data) copy_out(state_->hidden(node, tick), live);
    if (rule_) rule_->remember_layer(node, live);
  }
  registry_->note_change();
}

void Cell::restart(std::uint64_t tick) {
  const Memory& remembered = *remembered_;
  std::size_t next = 0;
  for (NodeId node = first_; node < first_ + layers_; ++node) {
    for (auto& parameter : weights_->of(node)) {
      const std::vector<float>& values = remembered[next++];
      // Weights without a master do not change, nor those that had none when they were remembered; nor, most of the
      // time, those that do not learn.
      if (!parameter.data || values.empty() ||
          std::memcmp(values.data(), parameter.data, values.size() * sizeof(float)) == 0)
        continue;
      std::copy(values.begin(), values.end(), parameter.data);
      ++parameter.version;
      weights_->note_change();
    }
    weights_->refresh(node);
    const float* live = copy_in(remembered[next].data(), state_->output(node, tick));
    if (state_->hidden(node, tick).data) live = copy_in(live, state_->hidden(node, tick));
    if (rule_) rule_->restart_layer(node, live);
    ++next;
  }
}

}  // namespace weft::mesh
