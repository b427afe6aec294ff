// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/arrivals.hpp"

#include "mesh/runtime/cell.hpp"

#include <algorithm>
#include <utility>

namespace weft::mesh {

Arrivals::Arrivals(std::span<const std::unique_ptr<Cell>> cells, std::vector<std::uint32_t> region_of_cell,
                   std::size_t regions)
    : cells_(cells), region_of_cell_(std::move(region_of_cell)), regions_(regions) {}

Result<std::uint64_t> Arrivals::receive(std::size_t cell, MessagePointer message) {
  return announce(cell, cells_[cell]->receive_from_outside(std::move(message)));
}

Result<std::uint64_t> Arrivals::post(std::size_t cell, CommandMessage command) {
  return announce(cell, cells_[cell]->mailbox().push(std::move(command)));
}

Result<std::uint64_t> Arrivals::announce(std::size_t cell, Result<std::uint64_t> sent) {
  // Pairs with the exchange in take.
  if (sent) regions_[region_of_cell_[cell]].posted.fetch_add(1, std::memory_order_release);
  return sent;
}

bool Arrivals::has_mail() const noexcept {
  return std::any_of(regions_.begin(), regions_.end(),
                     [](const Region& region) { return region.posted.load(std::memory_order_acquire) != 0; });
}

}  // namespace weft::mesh
