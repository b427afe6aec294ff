// SPDX-License-Identifier: Apache-2.0

#include "gpu/fault_injection.hpp"

#include <limits>

namespace weft::gpu {

void FaultInjection::fail(DriverFault fault, std::uint64_t first, std::uint64_t times) {
  const std::lock_guard lock(mutex_);
  Row& row = rows_[static_cast<std::size_t>(fault)];
  row.begin = row.calls + first;
  row.end = times > std::numeric_limits<std::uint64_t>::max() - row.begin ? std::numeric_limits<std::uint64_t>::max()
                                                                          : row.begin + times;
}

void FaultInjection::clear() {
  const std::lock_guard lock(mutex_);
  for (Row& row : rows_) row.begin = row.end = 0;
}

std::uint64_t FaultInjection::calls(DriverFault fault) const {
  const std::lock_guard lock(mutex_);
  return rows_[static_cast<std::size_t>(fault)].calls;
}

std::uint64_t FaultInjection::failed() const {
  const std::lock_guard lock(mutex_);
  return failed_;
}

bool FaultInjection::strikes(DriverFault fault) {
  const std::lock_guard lock(mutex_);
  Row& row = rows_[static_cast<std::size_t>(fault)];
  const std::uint64_t number = row.calls++;
  const bool is_hit = number >= row.begin && number < row.end;
  failed_ += is_hit;
  return is_hit;
}

}  // namespace weft::gpu
