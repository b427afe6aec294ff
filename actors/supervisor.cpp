// SPDX-License-Identifier: Apache-2.0

#include "actors/supervisor.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <string>

namespace weft::actors {
namespace {

constexpr std::string_view kPolicyNames[] = {"halt", "hold", "restart", "isolate"};
constexpr std::string_view kFaultNames[] = {"threw", "output_not_finite", "update_not_finite", "reported"};

Status check(const SupervisionRule& rule) {
  if (rule.max_restarts > Supervisor::kMaxRestarts) {
    return fail(Errc::invalid_argument, "supervision: " + std::to_string(rule.max_restarts) + " restarts, at most " +
                                            std::to_string(Supervisor::kMaxRestarts));
  }
  if (rule.escalation == Policy::restart)
    return fail(Errc::invalid_argument, "supervision: restart cannot escalate to restart");
  return {};
}

ActorStatus status_after(Policy action) noexcept {
  switch (action) {
    case Policy::halt:
      return ActorStatus::halted;
    case Policy::hold:
      return ActorStatus::held;
    case Policy::restart:
      return ActorStatus::restarted;
    case Policy::isolate:
      return ActorStatus::isolated;
  }
  return ActorStatus::halted;
}

// Ticks of restarts that no longer count at `tick` leave the list.
void forget_old(std::vector<std::uint64_t>& restarts, std::uint64_t window, std::uint64_t tick) noexcept {
  if (window == 0) return;
  restarts.erase(restarts.begin(), std::find_if(restarts.begin(), restarts.end(), [&](std::uint64_t restart) {
                   return tick < restart || tick - restart < window;
                 }));
}

}  // namespace

std::string_view name(Policy policy) noexcept { return kPolicyNames[static_cast<std::size_t>(policy)]; }
std::string_view name(FaultKind kind) noexcept { return kFaultNames[static_cast<std::size_t>(kind)]; }

FaultReason fault_reason(const char* text) noexcept {
  FaultReason reason{};
  for (std::size_t i = 0; i + 1 < reason.size() && text[i]; ++i)
    reason[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
  return reason;
}

std::optional<Policy> parse_policy(std::string_view text) noexcept {
  for (std::uint32_t i = 0; i < std::size(kPolicyNames); ++i) {
    if (kPolicyNames[i] == text) return static_cast<Policy>(i);
  }
  return std::nullopt;
}

Supervisor::Supervisor(Registry& registry, SupervisionRule rule, std::size_t event_capacity)
    : registry_(registry), cases_(registry.size()), events_(event_capacity) {
  WEFT_ASSERT(check(rule).has_value(), "the rule for all actors is impossible");
  for (Case& each : cases_) {
    each.rule = rule;
    if (rule.policy == Policy::restart) each.restarts.reserve(rule.max_restarts);
  }
}

Status Supervisor::set_rule(ActorId actor, SupervisionRule rule) {
  if (actor >= cases_.size()) {
    return fail(Errc::out_of_range, "actor " + std::to_string(actor) + " of " + std::to_string(cases_.size()));
  }
  WEFT_CHECK(check(rule));
  Case& one = cases_[actor];
  one.restarts.reserve(rule.policy == Policy::restart ? rule.max_restarts : 0);
  one.rule = rule;
  return {};
}

const SupervisionRule& Supervisor::rule(ActorId actor) const noexcept {
  WEFT_ASSERT(actor < cases_.size(), "actor " + std::to_string(actor) + " of " + std::to_string(cases_.size()));
  return cases_[actor].rule;
}

void Supervisor::reserve_restarts(ActorId actor) { cases_[actor].restarts.reserve(rule(actor).max_restarts); }

Decision Supervisor::decide(const Fault& fault) noexcept { return decide(fault, rule(fault.actor).policy); }

Decision Supervisor::decide(const Fault& fault, Policy policy) noexcept {
  WEFT_ASSERT(fault.actor < cases_.size(), "actor " + std::to_string(fault.actor));
  Case& one = cases_[fault.actor];
  Decision decision{.action = policy};
  if (policy == Policy::restart) {
    forget_old(one.restarts, one.rule.window, fault.tick);
    if (one.restarts.size() < one.rule.max_restarts) {
      one.restarts.push_back(fault.tick);  // within the capacity reserved with the rule
    } else {
      decision.action = one.rule.escalation;
      decision.escalated = true;
    }
    decision.restarts_used = static_cast<std::uint32_t>(one.restarts.size());
  }
  registry_.add_fault(fault.actor, fault.tick);
  if (decision.action == Policy::restart) registry_.add_restart(fault.actor);
  registry_.set_status(fault.actor, status_after(decision.action));
  faults_[static_cast<std::size_t>(fault.kind)].fetch_add(1, std::memory_order_relaxed);
  decisions_[static_cast<std::size_t>(decision.action)].fetch_add(1, std::memory_order_relaxed);
  if (decision.escalated) escalations_.fetch_add(1, std::memory_order_relaxed);
  events_.append({fault, decision});
  return decision;
}

SupervisionCounters Supervisor::counters() const noexcept {
  SupervisionCounters now;
  for (std::size_t i = 0; i < kFaultKindCount; ++i) now.faults[i] = faults_[i].load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < kPolicyCount; ++i) now.decisions[i] = decisions_[i].load(std::memory_order_relaxed);
  now.escalations = escalations_.load(std::memory_order_relaxed);
  return now;
}

std::span<const std::uint64_t> Supervisor::restarts(ActorId actor) const noexcept {
  WEFT_ASSERT(actor < cases_.size(), "actor " + std::to_string(actor));
  return cases_[actor].restarts;
}

Status Supervisor::restore(ActorId actor, std::span<const std::uint64_t> restarts) {
  if (actor >= cases_.size()) {
    return fail(Errc::out_of_range, "actor " + std::to_string(actor) + " of " + std::to_string(cases_.size()));
  }
  if (!std::is_sorted(restarts.begin(), restarts.end()) || restarts.size() > kMaxRestarts) {
    return fail(Errc::invalid_argument,
                "restart ticks of actor " + std::to_string(actor) + " are not ascending or too many");
  }
  Case& one = cases_[actor];
  if (one.rule.policy == Policy::restart) one.restarts.reserve(one.rule.max_restarts);
  one.restarts.assign(restarts.begin(), restarts.end());
  registry_.note_change();
  return {};
}

}  // namespace weft::actors
