// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/command_delivery.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace weft::mesh {

Result<std::uint64_t> CommandDelivery::post(std::size_t cell, MessagePointer message) {
  auto sent = cells_[cell]->mailbox().push(std::move(message));
  if (!sent)
    return fail(Errc::full, "cell " + to_string(cells_[cell]->at()) + ": its mailbox holds " +
                                std::to_string(cells_[cell]->mailbox().capacity()) +
                                " commands that no tick has taken yet; tick, then send again");
  // Pairs with the exchange in deliver_now.
  regions_[plan_.region_of_cell(cell)].posted.fetch_add(1, std::memory_order_release);
  return sent;
}

void CommandDelivery::keep(std::size_t cell, CommandMessage message) {
  cells_[cell]->keep(std::move(message));
  registry_->add_messages(cells_[cell]->id(), 1);
  regions_[plan_.region_of_cell(cell)].has_deferred = true;
}

void CommandDelivery::deliver_now(std::size_t region, std::uint64_t tick) noexcept {
  Region& here = regions_[region];
  here.posted.exchange(0, std::memory_order_acquire);
  here.has_deferred = false;
  for (const auto* parts : {&plan_.region(region).interior, &plan_.region(region).boundary})
    for (const RegionPart& part : *parts) {
      if (part.layers == 0 || cells_.empty()) continue;
      Cell& cell = *cells_[part.cell];
      cell.run_deferred(tick);  // sent earlier than what is delivered now
      cell.deliver(tick, *registry_);
      here.has_deferred |= !cell.deferred().empty();
    }
}

void CommandDelivery::deliver_all(std::uint64_t tick) noexcept {
  for (std::size_t r = 0; r < regions_.size(); ++r) deliver(r, tick);
}

bool CommandDelivery::has_mail() const noexcept {
  return std::any_of(regions_.begin(), regions_.end(),
                     [](const Region& region) { return region.posted.load(std::memory_order_acquire) != 0; });
}

void CommandDelivery::forget_mail() noexcept {
  for (Region& region : regions_) region.posted.store(0, std::memory_order_relaxed);
}

bool CommandDelivery::has_deferred() const noexcept {
  return std::any_of(regions_.begin(), regions_.end(), [](const Region& region) { return region.has_deferred; });
}

void CommandDelivery::expect_deferred() noexcept {
  for (Region& region : regions_) region.has_deferred = true;
}

}  // namespace weft::mesh
