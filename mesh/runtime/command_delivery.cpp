// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/command_delivery.hpp"

#include <algorithm>
#include <utility>

namespace weft::mesh {

CommandDelivery::CommandDelivery(const RegionPlan& plan, std::span<const std::unique_ptr<Cell>> cells,
                                 Arrivals* arrivals, actors::Registry* registry)
    : cells_(cells),
      registry_(registry),
      own_(arrivals ? nullptr : std::make_unique<Arrivals>(cells, std::vector<std::uint32_t>(), plan.regions().size())),
      arrivals_(arrivals ? *arrivals : *own_),
      regions_(plan.regions().size()),
      plan_(plan) {
  for (std::uint32_t cell = 0; cell < cells_.size(); ++cell) regions_[plan.region_of_cell(cell)].cells.push_back(cell);
}

void CommandDelivery::keep(std::size_t cell, CommandMessage message) {
  cells_[cell]->keep(std::move(message));
  registry_->add_messages(cells_[cell]->id(), 1);
  regions_[plan_.region_of_cell(cell)].has_deferred = true;
}

// Each cell's messages come in the order of their stamps; which cell comes first changes nothing, since no command
// touches another cell's state or a weight that another layer owns.
void CommandDelivery::deliver_now(std::size_t region, std::uint64_t tick) noexcept {
  Region& here = regions_[region];
  arrivals_.take(region);
  here.has_deferred = false;
  std::vector<std::uint32_t> drawn;
  if (order_) [[unlikely]] {
    drawn = here.cells;
    scheduler::arrange(drawn.begin(), drawn.end(), *order_);
  }
  for (const std::uint32_t id : order_ ? drawn : here.cells) {
    Cell& cell = *cells_[id];
    cell.run_deferred(tick);  // sent earlier than what is delivered now
    cell.deliver(tick, *registry_);
    here.has_deferred |= !cell.deferred().empty();
  }
}

void CommandDelivery::deliver_all(std::uint64_t tick) noexcept {
  for (std::size_t r = 0; r < regions_.size(); ++r) deliver(r, tick);
}

void CommandDelivery::forget_mail() noexcept {
  for (std::size_t r = 0; r < regions_.size(); ++r) arrivals_.take(r);
}

bool CommandDelivery::has_deferred() const noexcept {
  return std::any_of(regions_.begin(), regions_.end(), [](const Region& region) { return region.has_deferred; });
}

void CommandDelivery::expect_deferred() noexcept {
  for (Region& region : regions_) region.has_deferred = true;
}

}  // namespace weft::mesh
