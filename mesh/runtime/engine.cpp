// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/engine.hpp"

#include <algorithm>
#include <utility>

namespace weft::mesh {

namespace {
std::vector<std::pair<NodeId, NodeId>> links_of(const StepRule* rule) {
  return rule ? rule->extra_links() : std::vector<std::pair<NodeId, NodeId>>();
}
}  // namespace

Engine::Engine(const RunSetup& setup)
    : plan_(setup.graph, setup.plan, setup.node_region, links_of(setup.rule), setup.mail_links),
      runner_(setup, plan_),
      commands_(plan_, setup.cells, setup.arrivals, setup.registry),
      faults_(setup.cells, setup.supervisor, setup.registry, commands_.arrivals().halt()),
      exceptions_(setup.cells, setup.registry),
      regions_(plan_.regions().size()),
      threads_(runner_.streams().threads()),
      may_fuse_(runner_.may_fuse()) {
  for (std::size_t r = 0; r < regions_.size() && may_fuse_; ++r) {
    regions_[r].interior.emplace(plan_.region(r).interior);
    regions_[r].boundary.emplace(plan_.region(r).boundary);
  }
}

std::uint64_t Engine::run(scheduler::Executor& executor, std::uint64_t tick, std::uint64_t steps,
                          std::uint64_t first) noexcept {
  base_tick_ = tick;
  for (NodeId port = 0; port < buffers().feeds().size() && first == 0; ++port) buffers().fill_first(port, tick);
  is_running_ = true;
  std::uint64_t done = 0;
  do {
    first_step_ = first + done;
    // The executor counts blocks from where it begins.
    const std::uint64_t past = first_step_ % block();
    const std::uint64_t ran = executor.run(*this, past ? std::min(block() - past, steps - done) : steps - done);
    done += ran;
    runner_.serial() += ran;
  } while (done < steps && !should_stop(done));
  first_step_ = 0;
  is_running_ = false;
  return done;
}

void Engine::run_interior(std::size_t region, std::uint64_t step) noexcept {
  Region& here = regions_[region];
  const RegionStep now = at(region, step);
  here.writes = now.tick + now.fires;
  // The interior comes first in every step, even when it is empty.
  if (now.fires) commands_.deliver(region, now.tick);
  runner_.run(plan_.region(region).interior, may_fuse_ ? &*here.interior : nullptr, now, *this);
}

void Engine::use_order(scheduler::Order* order) noexcept {
  commands_.use_order(order);
  runner_.use_order(order);
}

void Engine::run_boundary(std::size_t region, std::uint64_t step) noexcept {
  Region& here = regions_[region];
  const RegionStep now = at(region, step);
  runner_.run(plan_.region(region).boundary, may_fuse_ ? &*here.boundary : nullptr, now, *this);
  runner_.learn_late(now, {}, *this);
}

void Engine::fail_firing(const RegionPart& part, std::uint64_t tick, actors::FaultKind kind,
                         const char* reason) noexcept {
  const FaultOrigins origins = origins_of_firing(runner_.graph(), runner_.state(), part, tick, kind);
  runner_.outputs().keep(part, tick, kind == actors::FaultKind::output_not_finite);
  answer(part.cell, tick, kind, reason, origins);
}

void Engine::fail_learning(NodeId node, std::uint32_t parameter, std::uint64_t tick, actors::FaultKind kind,
                           const char* reason) noexcept {
  answer(plan_.cell_of(node), tick, kind, reason, origins_of_learning(runner_.graph(), node, parameter, kind));
}

void Engine::answer(std::uint32_t cell, std::uint64_t tick, actors::FaultKind kind, const char* reason,
                    const FaultOrigins& origins) noexcept {
  const std::uint64_t slot =
      is_running_ && !runner_.cells().empty() ? regions_[plan_.region_of_cell(cell)].writes : tick;
  faults_.answer({cell, tick, kind, slot, reason}, origins);
}

// The commands of observers have room of their own in a cell's mailbox: whether it is full of messages from outside
// depends on whether the cell's region was faster.
void Engine::command(std::size_t region, std::uint32_t cell, CommandMessage command) {
  if (auto sent = commands_.post(cell, command); !sent)
    command->finish(regions_[region].writes, fail(std::move(sent).error()));
}

void Engine::report_fault(NodeId node, std::uint64_t tick, actors::FaultKind kind, const char* reason) noexcept {
  const std::uint32_t cell = plan_.cell_of(node);
  if (!runner_.cells().empty() && !faults_.is_isolated(cell)) answer(cell, tick, kind, reason, {});
}

}  // namespace weft::mesh
