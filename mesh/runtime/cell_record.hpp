// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/runtime/command.hpp"
#include "mesh/runtime/observer.hpp"

#include "actors/registry.hpp"

#include "core/archive.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace weft::mesh {

/// Switches of a cell, which commands change.
struct CellSwitches {
  bool is_enabled = true;
  bool is_reset_pending = false;
  std::uint64_t period = 1;
};

/// Memory of an observer: always as many words, or counted.
struct ObserverMemory {
  std::vector<std::uint64_t> words;
  bool is_counted = false;
};

/// State of a cell besides values and weights of its layers. Hash, snapshot, checkpoint and their ways back are
/// archives that `visit` is called with: a field is a line of it.
struct CellRecord {
  CellSwitches switches;
  /// Of each layer, its factor of the learning rate; empty: those of the network.
  std::vector<float> rates;
  actors::ActorView supervision;
  std::vector<std::uint64_t> restarts;   // ticks of those that still count
  std::vector<CommandMessage> commands;  // that wait
  std::vector<ObserverMemory> observers;
  bool takes_mail = false;
  std::vector<MailPointer> mail;  // that waits

  /// Allocates the memory of observers of these sizes (Observer::size), before it is read.
  void prepare(std::span<const std::size_t> sizes, bool has_mail);

  template <class Self, class Archive>
  static void visit(Self& self, Archive& archive) {
    // Rates that no command has changed are not there, so that they cost nothing, and older files are read.
    constexpr std::uint64_t kEnabled = 1, kHasRates = 2;
    std::uint64_t switches = (self.switches.is_enabled ? kEnabled : 0) | (self.rates.empty() ? 0 : kHasRates);
    archive.word(Field{"enabled", Scope::control}, switches, 0, kEnabled | kHasRates);
    if constexpr (!std::is_const_v<Self>) self.switches.is_enabled = (switches & kEnabled) != 0;
    visit_rates(self, archive, (switches & kHasRates) != 0);
    archive.word(Field{"period", Scope::control}, self.switches.period, 1);
    archive.word(Field{"status", Scope::care}, self.supervision.status, 0, actors::kActorStatusCount - 1);
    archive.word(Field{"messages", Scope::care}, self.supervision.messages);
    archive.word(Field{"faults", Scope::care}, self.supervision.faults);
    archive.word(Field{"restarts", Scope::care}, self.supervision.restarts);
    archive.word(Field{"last_fault_tick", Scope::care}, self.supervision.last_fault_tick);
    archive.count(Field{"restart_ticks", Scope::care}, self.restarts);
    archive.word(Field{"reset", Scope::care}, self.switches.is_reset_pending, 0, 1);
    archive.count(Field{"commands", Scope::care}, self.commands);
    archive(Field{"restart_ticks", Scope::care}, std::span(self.restarts));
    for (auto& command : self.commands) {
      if constexpr (!std::is_const_v<Self>)
        if (!command) command = std::make_shared<Command>();
      Command::visit(*command, archive);
    }
    for (auto& memory : self.observers) {
      if (memory.is_counted) archive.count(Field{"memory", Scope::control}, memory.words);
      archive(Field{"observers", Scope::control}, std::span(memory.words));
    }
    if (!self.takes_mail) return;
    archive.count(Field{"mail", Scope::care}, self.mail);
    for (auto& mail : self.mail) visit_mail(mail, archive);
  }

 private:
  template <class Self, class Archive>
  static void visit_rates(Self& self, Archive& archive, bool has_rates) {
    constexpr Field kRates{"rates", Scope::control};
    if (!has_rates) {
      if constexpr (!std::is_const_v<Self>) self.rates.clear();
      return;
    }
    archive.count(kRates, self.rates);
    for (auto& rate : self.rates) archive.coded(kRates, rate, rate_word, read_rate);
  }
  static std::uint64_t rate_word(float rate) noexcept;
  static std::optional<float> read_rate(std::uint64_t word) noexcept;
};

/// Appends fields to 64-bit words, as `state/cells` of a file has them.
class WordWriter : public OutArchive {
 public:
  explicit WordWriter(std::vector<std::uint64_t>& to, Scopes scopes = scopes::kCheckpoint)
      : OutArchive(scopes), to_(to), size_(to.size() * sizeof(std::uint64_t)) {}

 protected:
  void put(const Field&, Element, std::span<const std::byte> bytes) override;

 private:
  std::vector<std::uint64_t>& to_;
  std::size_t size_;
};

/// Reads what a WordWriter of the same scopes wrote, or fails.
class WordReader : public InArchive {
 public:
  explicit WordReader(std::span<const std::uint64_t> from, Scopes scopes = scopes::kCheckpoint) noexcept
      : InArchive(scopes), left_(std::as_bytes(from)) {}
  /// Words that were not read.
  std::size_t words_left() const noexcept { return left_.size() / sizeof(std::uint64_t); }
  /// There were fewer words than fields.
  bool is_short() const noexcept { return is_short_; }

 protected:
  bool get(const Field& field, Element element, std::span<std::byte> to) override;
  std::uint64_t left() const noexcept override { return left_.size(); }

 private:
  std::span<const std::byte> left_;
  bool is_short_ = false;
};

/// The same command, not executed yet, for another mesh, which answers it by itself.
CommandMessage copy_of(const Command& command);
MailPointer copy_of(const Mail& mail);

}  // namespace weft::mesh
