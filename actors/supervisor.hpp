// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "actors/event_ring.hpp"
#include "actors/fwd.hpp"
#include "actors/registry.hpp"

#include "core/result.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace weft::actors {

/// Policy for an actor that failed. The tick's writes are dropped in every case: neighbours see the last good
/// values.
enum class Policy : std::uint32_t {
  halt,     ///< the mesh stops with an error naming actor and tick
  hold,     ///< it keeps its last output, and tries again each tick until it computes well
  restart,  ///< it goes on from its last checkpoint
  isolate,  ///< it is disabled
};
inline constexpr std::size_t kPolicyCount = 4;
std::string_view name(Policy policy) noexcept;
std::optional<Policy> parse_policy(std::string_view text) noexcept;

enum class FaultKind : std::uint32_t {
  threw,              ///< an exception left a handler of the actor
  output_not_finite,  ///< its next output holds an infinity or a NaN
  update_not_finite,  ///< its weight update would
  reported,           ///< it said so itself, or an operator did
};
inline constexpr std::size_t kFaultKindCount = 4;
std::string_view name(FaultKind kind) noexcept;

/// Text of an exception, cut to fit and of plain characters only: it goes into messages and files. Empty: none.
using FaultReason = std::array<char, 120>;
FaultReason fault_reason(const char* text) noexcept;

/// Supervision of one actor.
///   parameter     | default | unit    | meaning
///   policy        | halt    |         | answer to a fault
///   max_restarts  | 3       | count   | restarts allowed within the window
///   window        | 1000    | ticks   | a restart counts against its successors so long; 0: for ever
///   escalation    | halt    |         | answer to a fault that has no restart left
struct SupervisionRule {
  Policy policy = Policy::halt;
  std::uint32_t max_restarts = 3;
  std::uint64_t window = 1000;
  Policy escalation = Policy::halt;
  bool operator==(const SupervisionRule&) const = default;
};

struct Fault {
  ActorId actor = 0;
  std::uint64_t tick = 0;
  FaultKind kind = FaultKind::threw;
  FaultReason reason{};
};

/// The answer to a fault.
struct Decision {
  Policy action = Policy::halt;
  bool escalated = false;           ///< the rule's restarts were used up
  std::uint32_t restarts_used = 0;  ///< restarts within the window, this one included
  bool operator==(const Decision&) const = default;
};

struct SupervisionEvent {
  Fault fault;
  Decision decision;
};

/// Counts of a supervisor since its construction.
///   statistic   | as a metric
///   faults      | weft_faults_total{kind="threw"}, one for each kind
///   decisions   | weft_supervision_decisions_total{decision="hold"}, one for each policy
///   escalations | weft_supervision_escalations_total
struct SupervisionCounters {
  std::array<std::uint64_t, kFaultKindCount> faults{};
  std::array<std::uint64_t, kPolicyCount> decisions{};
  std::uint64_t escalations = 0;
  bool operator==(const SupervisionCounters&) const = default;
};

/// Decides what becomes of failing actors. The decision is a function of the actor's rule and its faults so far alone,
/// so a replayed run decides alike.
/// @thread decide: any, one at a time per actor; events, counters: any; set_rule, restore: while no tick runs
class Supervisor {
 public:
  static constexpr std::uint32_t kMaxRestarts = 64;

  /// @param registry  whose statuses and counters it keeps; must outlive it
  explicit Supervisor(Registry& registry, SupervisionRule rule = {}, std::size_t event_capacity = 256);

  /// @error out_of_range: no such actor; invalid_argument: max_restarts above kMaxRestarts, or restart as escalation
  Status set_rule(ActorId actor, SupervisionRule rule);
  const SupervisionRule& rule(ActorId actor) const noexcept;

  /// Decides, counts and notes. Allocates nothing.
  Decision decide(const Fault& fault) noexcept;
  /// The same for a part of the actor that has a policy of its own. Restarts of parts and of the whole count together,
  /// and the rule's escalation answers when none is left.
  /// @pre restart: `reserve_restarts`, or it is the rule's policy
  Decision decide(const Fault& fault, Policy policy) noexcept;
  /// Memory for the restarts of an actor whose parts have policies of their own. After `set_rule`.
  void reserve_restarts(ActorId actor);

  /// The last events; numbers as in EventRing. Order between actors is that of arrival.
  const EventRing<SupervisionEvent>& events() const noexcept { return events_; }

  /// Each statistic is exact, the set need not be of one instant.
  SupervisionCounters counters() const noexcept;

  /// Ticks of the restarts that still count, oldest first; part of a state. Valid until the actor's next fault.
  std::span<const std::uint64_t> restarts(ActorId actor) const noexcept;
  /// Puts back what `restarts` gave. Allocates nothing where the actor's rule is still the one it was under.
  /// @error out_of_range: no such actor; invalid_argument: not ascending
  Status restore(ActorId actor, std::span<const std::uint64_t> restarts);

 private:
  struct Case {
    SupervisionRule rule;
    std::vector<std::uint64_t> restarts;  // ascending; capacity reserved when the rule is set
  };
  Registry& registry_;
  std::vector<Case> cases_;
  EventRing<SupervisionEvent> events_;
  // Faults are rare, so that sharing lines between threads costs nothing that counts.
  std::array<std::atomic<std::uint64_t>, kFaultKindCount> faults_{};
  std::array<std::atomic<std::uint64_t>, kPolicyCount> decisions_{};
  std::atomic<std::uint64_t> escalations_{0};
};

}  // namespace weft::actors
