// SPDX-License-Identifier: Apache-2.0

#include "agent/disk_room.hpp"

#include "core/byte_size.hpp"

#include <filesystem>
#include <system_error>

namespace weft::agent {

Status check_disk_room(std::uint64_t stored, std::uint64_t free, const std::string& directory) {
  if (stored <= free / 2) return {};
  return fail(Errc::too_large, "learning.replay.capacity: stored samples take " + byte_size(stored) +
                                   " of each checkpoint, twice while one is written, and the disk of " + directory +
                                   " has " + byte_size(free) + " free; give a smaller capacity, or another disk");
}

Status check_disk_room(const learning::Learner& learner, const std::string& directory) {
  const std::uint64_t stored = stored_sample_bytes(learner);
  if (stored == 0) return {};
  std::error_code error;
  const auto space = std::filesystem::space(directory, error);
  return error ? Status() : check_disk_room(stored, space.available, directory);
}

}  // namespace weft::agent
